//! A bounded single-producer single-consumer ring whose entries stay until they complete.
//!
//! Three cursors count up and never wrap:
//!
//! ```text
//! completed ≤ launched ≤ submitted ≤ completed + capacity
//! ```
//!
//! Entries in `completed..launched` are with the hardware; those in `launched..submitted` wait.
//! Because an entry stays in place until it completes, undoing a launch is setting `launched` back.
//!
//! Ownership of a slot: the producer owns it outside `completed..submitted`, the consumer inside.
//! `submitted` is stored with `Release` by the producer and loaded with `Acquire` by the consumer;
//! `completed` the other way round. `launched` is private to the consumer.

use crate::sync::drops::drop_caught;
use crate::sync::primitives::{Arc, AtomicU64, Cell, Ordering};
use std::mem::MaybeUninit;

/// Keeps a cursor on a cache line of its own (two lines: adjacent lines are fetched together).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

#[derive(Debug)]
struct Ring<T> {
    /// Written by the producer only.
    submitted: Padded,
    /// Written by the consumer only.
    completed: Padded,
    slots: Box<[Cell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is accessed by one side at a time (see the module docs), so sharing the ring moves
// values between threads but never shares them.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: the values are `Send`, and all else in the ring is atomics and memory that it owns.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    fn slot(&self, at: u64) -> &Cell<MaybeUninit<T>> {
        &self.slots[at as usize & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let completed = self.completed.0.load(Ordering::Relaxed);
        for at in completed..self.submitted.0.load(Ordering::Relaxed) {
            // SAFETY: slots in `completed..submitted` hold values, and `&mut self` is exclusive.
            self.slot(at).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
        }
    }
}

/// Creates a ring with room for `capacity` entries, a power of two.
pub(crate) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    ring_at(capacity, 0)
}

/// As [`ring`], whose first entry has position `at`: all before it have completed elsewhere.
pub(crate) fn ring_at<T>(capacity: usize, at: u64) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "capacity must be a power of two, got {capacity}");
    let slots = (0..capacity).map(|_| Cell::new(MaybeUninit::uninit())).collect();
    let cursor = || Padded(AtomicU64::new(at));
    let ring = Arc::new(Ring { submitted: cursor(), completed: cursor(), slots });
    (
        Producer { ring: ring.clone(), submitted: at, completed: at },
        Consumer { ring, submitted: at, launched: at, completed: at },
    )
}

/// The submitting side.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
    submitted: u64,
    /// A copy that may lag; refreshed when the ring looks full.
    completed: u64,
}

impl<T> Producer<T> {
    /// Adds `value` and returns its position, or gives it back if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> Result<u64, T> {
        if self.submitted - self.completed == self.ring.slots.len() as u64 {
            self.completed = self.completed();
            if self.submitted - self.completed == self.ring.slots.len() as u64 {
                return Err(value);
            }
        }
        let at = self.submitted;
        // SAFETY: `at` is outside `completed..submitted`, so the slot is ours and holds nothing.
        self.ring.slot(at).with_mut(|slot| unsafe { (*slot).write(value) });
        self.submitted = at + 1;
        self.ring.submitted.0.store(self.submitted, Ordering::Release);
        Ok(at)
    }

    /// Number of entries that have been pushed.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Number of entries that have completed.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.ring.completed.0.load(Ordering::Acquire)
    }
}

/// A poll of the cursors from a third side, that of a scheduler.
#[derive(Debug)]
pub(crate) struct Cursors<T>(Arc<Ring<T>>);

impl<T> Cursors<T> {
    /// Numbers of entries that have completed and been submitted. Both may have grown since.
    #[inline]
    pub(crate) fn read(&self) -> (u64, u64) {
        let completed = self.0.completed.0.load(Ordering::Acquire);
        (completed, self.0.submitted.0.load(Ordering::Acquire))
    }
}

/// The launching side.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// A copy that may lag; refreshed when nothing seems to wait.
    submitted: u64,
    launched: u64,
    completed: u64,
}

impl<T> Consumer<T> {
    /// For a third side.
    pub(crate) fn cursors(&self) -> Cursors<T> {
        Cursors(self.ring.clone())
    }

    /// The next entry to launch, with its position.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u64, &T)> {
        if self.launched == self.submitted {
            self.submitted = self.ring.submitted.0.load(Ordering::Acquire);
            if self.launched == self.submitted {
                return None;
            }
        }
        let at = self.launched;
        // SAFETY: `at` is inside `completed..submitted`, so the slot is ours and holds a value, and
        // it stays there until `complete_to`, which takes `&mut self`.
        Some((at, self.ring.slot(at).with(|slot| unsafe { (*slot).assume_init_ref() })))
    }

    /// Marks the entry that [`next`](Self::next) returned as launched.
    #[inline]
    pub(crate) fn launch(&mut self) {
        debug_assert!(self.launched < self.submitted);
        self.launched += 1;
    }

    /// Entries that are with the hardware.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.launched - self.completed
    }

    /// Position of the next entry to launch.
    #[inline]
    pub(crate) fn launched(&self) -> u64 {
        self.launched
    }

    /// Drops entries before `to` and frees their slots. Returns whether there were any.
    #[inline]
    pub(crate) fn complete_to(&mut self, to: u64) -> bool {
        assert!(to <= self.launched, "completed {to} of {} launched", self.launched);
        if to <= self.completed {
            return false;
        }
        for at in self.completed..to {
            // SAFETY: `at` is inside `completed..submitted`, so the slot is ours and holds a value;
            // `completed` passes it in the next lines, so it is not read again.
            let value = self.ring.slot(at).with_mut(|slot| unsafe { (*slot).assume_init_read() });
            self.completed = at + 1;
            self.ring.completed.0.store(at + 1, Ordering::Release);
            drop_caught(value);
        }
        true
    }

    /// Undoes launches that didn't complete.
    #[inline]
    pub(crate) fn rewind(&mut self) -> u64 {
        let undone = self.in_flight();
        self.launched = self.completed;
        undone
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_until_they_complete() {
        let (mut p, mut c) = ring(2);
        assert_eq!(p.push('a'), Ok(0));
        assert_eq!(p.push('b'), Ok(1));
        assert_eq!(p.push('c'), Err('c'), "full");

        assert_eq!(c.next(), Some((0, &'a')));
        c.launch();
        assert_eq!(p.push('c'), Err('c'), "launched, but not complete");

        c.complete_to(1);
        assert_eq!(p.push('c'), Ok(2));
        assert_eq!(c.cursors().read(), (1, 3), "completed and submitted");
    }

    #[test]
    fn rewind_launches_again_from_the_first_incomplete() {
        let (mut p, mut c) = ring(4);
        for value in 0..4 {
            p.push(value).unwrap();
        }
        for _ in 0..3 {
            c.next().unwrap();
            c.launch();
        }
        c.complete_to(1);
        assert_eq!(c.rewind(), 2);
        assert_eq!(c.next(), Some((1, &1)));
    }

    #[test]
    fn ring_begins_at_any_position() {
        let (mut p, mut c) = ring_at(2, 7);
        assert_eq!((p.push('a'), p.push('b'), p.push('c')), (Ok(7), Ok(8), Err('c')));
        assert_eq!(c.next(), Some((7, &'a')));
        c.launch();
        c.complete_to(8);
        assert_eq!((p.push('c'), c.cursors().read()), (Ok(9), (8, 10)));
    }

    #[test]
    fn ring_drops_its_remaining_entries() {
        let value = Arc::new(());
        let (mut p, c) = ring(4);
        p.push(value.clone()).unwrap();
        drop((p, c));
        assert_eq!(Arc::strong_count(&value), 1);
    }

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "on purpose");
        }
    }

    #[test]
    fn entry_whose_drop_panics_completes_with_those_after_it() {
        let (mut p, mut c) = ring(2);
        for _ in 0..2 {
            assert!(p.push(PanicsWhenDropped).is_ok());
            assert!(c.next().is_some());
            c.launch();
        }
        assert!(c.complete_to(2));
        assert_eq!(c.cursors().read(), (2, 2));
    }

    #[test]
    fn entries_pass_between_threads_in_order() {
        const COUNT: u64 = if cfg!(miri) { 200 } else { 200_000 };
        let (mut p, mut c) = ring(8);
        std::thread::scope(|s| {
            s.spawn(move || {
                for value in 0..COUNT {
                    while p.push(value).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            let mut seen = 0;
            while seen < COUNT {
                let Some((at, &value)) = c.next() else {
                    std::thread::yield_now();
                    continue;
                };
                assert_eq!((at, value), (seen, seen));
                c.launch();
                seen += 1;
                c.complete_to(seen);
            }
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// Loom tracks each slot: a value read before it was written, or written while it is read,
    /// fails.
    #[test]
    fn slots_pass_between_the_sides() {
        loom::model(|| {
            let (mut p, mut c) = ring(2);
            let producer = loom::thread::spawn(move || {
                for value in 0..3u64 {
                    while p.push(value).is_err() {
                        loom::thread::yield_now();
                    }
                }
            });
            let mut seen = 0;
            while seen < 3 {
                match c.next() {
                    Some((at, &value)) => assert_eq!((at, value), (seen, seen)),
                    None => {
                        loom::thread::yield_now();
                        continue;
                    }
                }
                c.launch();
                if seen == 1 {
                    assert_eq!(c.rewind(), 1);
                    assert_eq!(c.next(), Some((1, &1)));
                    c.launch();
                }
                seen += 1;
                c.complete_to(seen);
            }
            producer.join().unwrap();
        });
    }
}
