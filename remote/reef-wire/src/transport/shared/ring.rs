//! Bytes between two cursors.

use super::cursor::Cursor;
use reef_files::{Mapping, Shared};
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes of a ring: a power of two.
pub(super) const LEN: usize = 1 << 20;

/// Both rings, as they lie in the memory.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Rings([Ring; 2]);

// SAFETY: positions are atomics, and bytes are in cells that only `Ring` touches, by raw pointers.
// Its halves keep bytes that are written apart from those that are read. Any bytes are a value.
// The mapping stays in the two halves of a link, which take nothing but rings from it.
unsafe impl Shared for Rings {}

impl Rings {
    /// Maps new memory, whose file the peer needs.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub(super) fn create() -> io::Result<(Mapping, OwnedFd)> {
        Mapping::create("reef-wire", size_of::<Self>())
    }

    /// Maps the memory that the peer has made.
    ///
    /// # Errors
    ///
    /// `InvalidData` for memory of another size, or that can shrink; an error of the system.
    pub(super) fn open(file: OwnedFd) -> io::Result<Mapping> {
        Mapping::open(file, size_of::<Self>())
    }

    pub(super) fn of(mapping: &Mapping, index: usize) -> &Ring {
        &mapping.at::<Self>(0).0[index]
    }
}

/// A ring: positions count bytes, and wrap around.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Ring {
    /// Moved by the sender.
    pub(super) sent: Cursor,
    /// Moved by the receiver. The sender does not sleep on it.
    taken: Cursor,
    bytes: UnsafeCell<[u8; LEN]>,
}

/// Sending end's own position, which the peer can't change.
#[derive(Debug, Default)]
pub(super) struct Sender(u32);

/// Receiving end's own position.
#[derive(Debug, Default)]
pub(super) struct Receiver(pub(super) u32);

fn wrong(what: &str, count: u32) -> io::Error {
    let text = format!("shared memory: the peer says that {count} bytes are {what}, of {LEN}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Ring {
    /// Puts as many bytes as there is room for. Returns their number, and whether the peer must be
    /// woken.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a position that can't be.
    pub(super) fn put(&self, end: &mut Sender, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let used = end.0.wrapping_sub(self.taken.get());
        let free = LEN.checked_sub(used as usize).ok_or_else(|| wrong("not taken", used))?;
        let count = free.min(bytes.len());
        if count == 0 {
            return Ok((0, false));
        }
        let at = end.0 as usize % LEN;
        let first = count.min(LEN - at);
        let to = self.bytes.get().cast::<u8>();
        // SAFETY: both parts lie in the ring's bytes, which only this end writes, and which the
        // peer does not read before the position has passed them. A peer that does gets nothing
        // that is not its own.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(at), first);
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), to, count - first);
        }
        end.0 = end.0.wrapping_add(count as u32);
        Ok((count, self.sent.set(end.0)))
    }

    /// Takes bytes, as many as there are and `to` has room for.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a position that can't be.
    pub(super) fn take(&self, end: &mut Receiver, to: &mut [u8]) -> io::Result<usize> {
        let there = self.sent.get().wrapping_sub(end.0);
        if there as usize > LEN {
            return Err(wrong("sent", there));
        }
        let count = (there as usize).min(to.len());
        let at = end.0 as usize % LEN;
        let first = count.min(LEN - at);
        let from = self.bytes.get().cast::<u8>();
        // SAFETY: both parts lie in the ring's bytes. The peer has written them before it moved the
        // position; one that writes them again only changes what it sends.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(at), to.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr().add(first), count - first);
        }
        end.0 = end.0.wrapping_add(count as u32);
        let _ = self.taken.set(end.0); // the sender looks by itself
        Ok(count)
    }

    /// True if there are bytes, or a position that can't be.
    pub(super) fn has_bytes(&self, end: &Receiver) -> bool {
        self.sent.get() != end.0
    }
}
