//! Words that host and device share: two for each enabled stream.
//!
//! *Invariant*: the numbers of a slot only grow, also from one stream to the next, and a slot that
//! was given back is taken only when the device has written the last of them.

use crate::driver::Driver;
use crate::fault::Result;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two words, alone in a cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Words {
    /// Written by the host: gates up to this number are open.
    gate: AtomicU32,
    /// Written by the device: it has come to gates up to this number.
    mark: AtomicU32,
}

/// Registering waits for the device, so there are many at once. It is never freed: a stream may
/// wait for it.
#[derive(Debug)]
#[repr(align(4096))]
struct Page([Words; PAGE]);

/// 64 KiB of them.
const PAGE: usize = (64 << 10) / size_of::<Words>();

/// The words of one stream.
#[derive(Debug)]
pub(crate) struct Slot {
    words: &'static Words,
    /// Address of them on the device.
    there: u64,
    /// The newest gate.
    newest: u32,
}

/// Slots of one context that no stream has.
#[derive(Debug, Default)]
pub(crate) struct Free(Vec<Slot>);

/// Makes a page of slots. It may wait for all of the device, so the caller has no lock that a
/// restore needs.
pub(crate) fn page(driver: &Driver) -> Result<Vec<Slot>> {
    // In place, because the stack of the caller's thread may be smaller.
    // SAFETY: a page is atomics, of which zero is a value.
    let page: &'static Page = Box::leak(unsafe { Box::<Page>::new_zeroed().assume_init() });
    let there = driver.share(page)?;
    let slot =
        |(at, words)| Slot { words, there: there + (at * size_of::<Words>()) as u64, newest: 0 };
    Ok(page.0.iter().enumerate().map(slot).collect())
}

impl Free {
    /// A slot, if there is one.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let at = self.0.iter().position(Slot::is_reached)?;
        Some(self.0.swap_remove(at))
    }

    pub(crate) fn give(&mut self, slot: Slot) {
        self.0.push(slot);
    }
}

impl Slot {
    /// Puts a mark into the stream, and a closed gate behind it.
    pub(crate) fn close(&mut self, driver: &Driver, stream: usize) -> Result<()> {
        self.mark(driver, stream)?;
        let closed = driver.wait(stream, self.there, self.newest);
        if closed.is_err() {
            self.open();
        }
        closed
    }

    /// Number of the newest gate.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// Puts a mark into the stream.
    pub(crate) fn mark(&mut self, driver: &Driver, stream: usize) -> Result<()> {
        self.newest = self.newest.wrapping_add(1);
        let marked = driver.write(stream, self.there + size_of::<AtomicU32>() as u64, self.newest);
        if marked.is_err() {
            self.newest = self.newest.wrapping_sub(1); // it will never come
        }
        marked
    }

    /// Opens all gates.
    pub(crate) fn open(&self) {
        self.words.gate.store(self.newest, Ordering::Release);
    }

    /// Returns whether the device has come to the newest mark.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached().is_past(self.newest)
    }

    /// Progress of the device, for threads that wait without the slot.
    pub(crate) fn reached(&self) -> Reached {
        Reached(self.words)
    }
}

/// Progress of the device in one stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached(&'static Words);

impl Reached {
    /// Returns whether it has come to this gate; numbers count in a circle.
    pub(crate) fn is_past(self, gate: u32) -> bool {
        self.0.mark.load(Ordering::Acquire).wrapping_sub(gate) as i32 >= 0
    }
}
