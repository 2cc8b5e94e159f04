//! A wave: 64 lanes that execute one instruction stream.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::code::Code;
use super::inst::{Inst, Run};
use super::registers::Registers;
use super::space::Env;

/// Memory that a wave may touch. Addresses of the device are addresses of this process.
pub trait Memory: Debug {
    /// Returns whether `bytes` bytes at `address` are mapped for the device.
    fn is_mapped(&self, address: u64, bytes: usize) -> bool;

    /// A range of mapped addresses that has `bytes` bytes at `address` in it, the larger the
    /// better: a wave asks again only for what lies outside of the last ones. It remembers none
    /// after [`run`](Wave::run) returns.
    fn mapped_around(&self, address: u64, bytes: usize) -> Option<Range<u64>> {
        let end = address.checked_add(bytes as u64)?;
        self.is_mapped(address, bytes).then_some(address..end)
    }

    /// Device time, in ticks of 40 ns (`s_memrealtime`).
    fn clock(&self) -> u64;
}

/// Why a wave has stopped running for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It has run as many instructions as it was given.
    Steps,
    /// It sleeps (`s_sleep`), so another wave should run.
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
    /// The fault, such as `unknown opcode` or `0x7f…: not mapped`.
    pub why: String,
}

/// Content of registers and memory that nothing has been written to: NaN as a float of 32 bits and
/// as two of 16, no address, and a large number.
pub const POISON: u32 = 0xffa5_ffa5;

/// Makes this number of bytes of [`POISON`].
pub fn poisoned(bytes: usize) -> Vec<u8> {
    POISON.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// One wave of a workgroup.
#[derive(Debug, Clone)]
pub struct Wave {
    pub(super) regs: Registers,
    /// The next instruction.
    pub(super) pc: u64,
    /// Private memory, one lane after the other.
    pub(super) private: Vec<u8>,
    code: Arc<Code>,
    executed: u64,
}

impl Wave {
    /// A wave at its first instruction with all registers zero. `exec` has a bit for each active
    /// lane.
    pub fn new(pc: u64, vgprs: usize, exec: u64) -> Self {
        Self::with_code(pc, vgprs, exec, Arc::default())
    }

    /// As [`new`](Self::new), for waves that share what has been decoded.
    pub fn with_code(pc: u64, vgprs: usize, exec: u64, code: Arc<Code>) -> Self {
        let regs = Registers::new(vgprs, exec);
        Self { regs, pc, private: Vec::new(), code, executed: 0 }
    }

    /// Fills all registers but the mode, `exec` and what is set afterwards with [`POISON`], as the
    /// chip leaves in them what ran there before.
    pub fn poison(&mut self) {
        self.regs.poison();
    }

    /// Gives each lane `bytes` bytes of private memory full of [`POISON`] (scratch). The registers
    /// that say where scratch lies (`flat_scratch`, the private segment's buffer) may hold
    /// anything; the offset of the wave is zero.
    pub fn set_private(&mut self, bytes: usize) {
        self.private = poisoned(bytes * 64);
    }

    /// Sets a scalar register before the start.
    pub fn set_sgpr(&mut self, register: usize, value: u32) {
        self.regs.s[register] = value;
    }

    /// Sets one lane of a vector register before the start.
    pub fn set_vgpr(&mut self, register: usize, lane: usize, value: u32) {
        self.regs.v[register][lane] = value;
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.pc
    }

    /// Number of instructions that it has executed.
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// Runs at most `steps` instructions. `lds` is the workgroup's shared memory.
    ///
    /// # Errors
    ///
    /// A [`Fault`] names the instruction that could not be executed; the wave must not run again.
    pub fn run(&mut self, lds: &mut [u8], memory: &dyn Memory, steps: u32) -> Result<Pause, Fault> {
        let mut env = Env::new(lds, memory);
        let code = Arc::clone(&self.code);
        let mut page = code.page(self.pc);
        for _ in 0..steps {
            if !page.holds(self.pc) {
                page = code.page(self.pc);
            }
            let at = self.pc;
            let inst = page.inst(at, memory)?;
            let pause = self.step(inst, &mut env).map_err(|why| fault(at, inst, why))?;
            self.executed += 1;
            if let Some(pause) = pause {
                return Ok(pause);
            }
        }
        Ok(Pause::Steps)
    }

    pub(super) fn step(&mut self, inst: &Inst, env: &mut Env<'_>) -> Result<Option<Pause>, String> {
        self.pc = self.pc.wrapping_add(u64::from(inst.len));
        let indexed;
        let inst = if self.regs.indexing {
            indexed = self.regs.indexed(*inst);
            &indexed
        } else {
            inst
        };
        let mut pause = None;
        match inst.run {
            Run::Alu(run) => run(self, inst),
            Run::Flow(run) => pause = run(self, inst),
            Run::Memory(run) => run(self, inst, env).map_err(|bad| bad.to_string())?,
        }
        match self.regs.missing() {
            None => Ok(pause),
            Some(register) => {
                Err(format!("v{register}: the wave has {} of them", self.regs.v.len()))
            }
        }
    }
}

#[cold]
fn fault(pc: u64, inst: &Inst, why: String) -> Fault {
    Fault { pc, instruction: inst.text(), why }
}
