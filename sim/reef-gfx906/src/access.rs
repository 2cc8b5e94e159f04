//! Memory access of the queues: like waves, only where memory is mapped.

use crate::isa::wave::Memory as _;
use crate::memory::View;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// An address that is not mapped, or not aligned for what was wanted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unmapped(pub(crate) u64);

impl fmt::Display for Unmapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}: not mapped", self.0)
    }
}

impl View<'_> {
    fn check(&self, address: u64, bytes: usize, alignment: u64) -> Result<(), Unmapped> {
        let good = address.is_multiple_of(alignment) && self.is_mapped(address, bytes);
        if good { Ok(()) } else { Err(Unmapped(address)) }
    }

    /// A 16-bit word that the host may write at any time.
    pub(crate) fn word16(&self, address: u64) -> Result<&AtomicU16, Unmapped> {
        self.check(address, 2, 2)?;
        // SAFETY: mapped for as long as the view lives, aligned, and any bits are a value.
        Ok(unsafe { AtomicU16::from_ptr(address as *mut u16) })
    }

    /// A 32-bit word that the host may write at any time.
    pub(crate) fn word32(&self, address: u64) -> Result<&AtomicU32, Unmapped> {
        self.check(address, 4, 4)?;
        // SAFETY: mapped for as long as the view lives, aligned, and any bits are a value.
        Ok(unsafe { AtomicU32::from_ptr(address as *mut u32) })
    }

    /// A 64-bit word that the host may write at any time.
    pub(crate) fn word64(&self, address: u64) -> Result<&AtomicU64, Unmapped> {
        self.check(address, 8, 8)?;
        // SAFETY: mapped for as long as the view lives, aligned, and any bits are a value.
        Ok(unsafe { AtomicU64::from_ptr(address as *mut u64) })
    }

    /// `N` bytes as they are now.
    pub(crate) fn bytes<const N: usize>(&self, address: u64) -> Result<[u8; N], Unmapped> {
        self.check(address, N, 1)?;
        // SAFETY: mapped for as long as the view lives; bytes have no alignment.
        Ok(unsafe { (address as *const [u8; N]).read_volatile() })
    }

    /// Copies; the ranges may overlap.
    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Unmapped> {
        self.check(to, bytes, 1)?;
        self.check(from, bytes, 1)?;
        self.forget_code(to, bytes);
        // SAFETY: both ranges are mapped for as long as the view lives, and `copy` allows overlaps.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    /// Repeats `pattern` over `bytes` bytes; the last one may be cut.
    pub(crate) fn fill(&self, to: u64, bytes: usize, pattern: &[u8]) -> Result<(), Unmapped> {
        self.check(to, bytes, 1)?;
        self.forget_code(to, bytes);
        for (offset, &byte) in (0..bytes as u64).zip(pattern.iter().cycle()) {
            // SAFETY: within the range that was checked.
            unsafe { ((to + offset) as *mut u8).write(byte) };
        }
        Ok(())
    }
}

/// A little-endian field of a packet.
pub(crate) fn field<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    packet[at..at + N].try_into().expect("the range has N bytes")
}

/// The 16-bit field at byte `at`.
pub(crate) fn u16_at(packet: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(packet, at))
}

/// The 32-bit field at byte `at`.
pub(crate) fn u32_at(packet: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(packet, at))
}

/// The 64-bit field at byte `at`.
pub(crate) fn u64_at(packet: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(packet, at))
}
