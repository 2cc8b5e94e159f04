//! A wave: 64 lanes that execute one instruction stream.

use std::fmt::Debug;

/// What a wave may touch. Addresses of the device are addresses of this process.
pub trait Memory: Debug {
    /// Whether `bytes` bytes at `address` are mapped for the device.
    fn is_mapped(&self, address: u64, bytes: usize) -> bool;

    /// Device time, in ticks of 10 ns (`s_memrealtime`).
    fn clock(&self) -> u64;
}

/// Why a wave has stopped running for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It has run as many instructions as it was given.
    Steps,
    /// It sleeps (`s_sleep`), so somebody else should run.
    Sleep,
    /// It waits at `s_barrier` for the other waves of its workgroup.
    Barrier,
    /// It has ended.
    Ended,
}

/// An instruction that could not be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its address.
    pub pc: u64,
    /// The instruction as text, as far as it could be decoded.
    pub instruction: String,
    /// What was wrong, such as `unknown opcode` or `0x7f…: not mapped`.
    pub why: String,
}

/// Decoded instructions.
#[derive(Debug, Default)]
pub struct Code {}

impl Code {
    /// Drops what was decoded in a range of addresses.
    pub fn forget(&self, _addresses: std::ops::Range<u64>) {}
}

/// One wave of a workgroup.
#[derive(Debug, Clone)]
pub struct Wave {
    pc: u64,
}

impl Wave {
    /// A wave at its first instruction.
    pub fn with_code(pc: u64, _vgprs: usize, _exec: u64, _code: std::sync::Arc<Code>) -> Self {
        Self { pc }
    }

    /// Gives each lane private memory.
    pub fn set_private(&mut self, _bytes: usize) {}

    /// Sets a scalar register before the start.
    pub fn set_sgpr(&mut self, _register: usize, _value: u32) {}

    /// Sets one lane of a vector register before the start.
    pub fn set_vgpr(&mut self, _register: usize, _lane: usize, _value: u32) {}

    /// The address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.pc
    }

    /// How many instructions it has executed.
    pub fn executed(&self) -> u64 {
        0
    }

    /// Runs at most `steps` instructions.
    ///
    /// # Errors
    ///
    /// A [`Fault`].
    pub fn run(
        &mut self,
        _lds: &mut [u8],
        _memory: &dyn Memory,
        _steps: u32,
    ) -> Result<Pause, Fault> {
        Ok(Pause::Ended)
    }
}
