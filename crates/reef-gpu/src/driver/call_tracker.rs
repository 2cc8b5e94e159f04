//! Detection of calls of the driver that hang.
//!
//! Some calls wait until the whole device is idle: the first launch of a function, say, or freeing.
//! While a gate is closed that is never, and if real-time work needs the call to end, the gate is
//! never opened. Drivers don't tell which calls those are, so threads note when they enter and
//! leave one, each call by itself: that others return says nothing of the one that hangs.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Calls at once that cost no lock.
const SLOTS: usize = 64;

/// Calls of one open device, by all threads.
#[derive(Debug)]
pub(crate) struct CallTracker {
    slots: [Slot; SLOTS],
    /// Calls that found no slot.
    others: Mutex<Overflow>,
}

/// Odd while a call is inside; each that enters or leaves adds one. Alone in its line, as each
/// thread has its own first.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Slot(AtomicU64);

#[derive(Debug, Default)]
struct Overflow {
    entered: u64,
    inside: Vec<u64>,
}

/// A call that has not returned.
#[derive(Debug)]
pub(crate) struct CallGuard<'a> {
    calls: &'a CallTracker,
    place: CallEntry,
}

#[derive(Debug, Clone, Copy)]
enum CallEntry {
    Slot(usize),
    Other(u64),
}

/// The calls that were inside at one time.
#[derive(Debug)]
pub(crate) struct CallSnapshot {
    slots: [u64; SLOTS],
    others: Vec<u64>,
}

impl Default for CallTracker {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| Slot::default()), others: Mutex::default() }
    }
}

impl CallTracker {
    /// Hold it while the call lasts.
    pub(crate) fn enter(&self) -> CallGuard<'_> {
        let own = own_slot();
        let slots = (0..SLOTS).map(|n| (own + n) % SLOTS);
        let free = slots.into_iter().find(|&at| self.slots[at].enter());
        let place =
            free.map_or_else(|| CallEntry::Other(self.others.lock().enter()), CallEntry::Slot);
        CallGuard { calls: self, place }
    }

    pub(crate) fn snapshot(&self) -> CallSnapshot {
        let slots = self.slots.each_ref().map(|slot| slot.0.load(Ordering::Relaxed));
        CallSnapshot { slots, others: self.others.lock().inside.clone() }
    }

    /// Returns whether a call that was inside at the snapshot is so still.
    pub(crate) fn hangs_since(&self, before: &CallSnapshot) -> bool {
        let now = self.snapshot();
        let is_same = |(now, before): (&u64, &u64)| now == before && !now.is_multiple_of(2);
        now.slots.iter().zip(&before.slots).any(is_same)
            || now.others.iter().any(|call| before.others.contains(call))
    }
}

impl Slot {
    /// Takes it, unless another call has it.
    fn enter(&self) -> bool {
        let calls = self.0.load(Ordering::Relaxed);
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        calls.is_multiple_of(2) && self.0.compare_exchange(calls, calls + 1, order, failed).is_ok()
    }
}

impl Overflow {
    fn enter(&mut self) -> u64 {
        self.entered += 1;
        self.inside.push(self.entered);
        self.entered
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        match self.place {
            CallEntry::Slot(at) => {
                self.calls.slots[at].0.fetch_add(1, Ordering::Relaxed);
            }
            CallEntry::Other(call) => {
                self.calls.others.lock().inside.retain(|other| *other != call)
            }
        }
    }
}

/// The slot that this thread tries first.
fn own_slot() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SLOT: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS);
    SLOT.try_with(|slot| *slot).unwrap_or(0) // a thread's last drops come behind its own memory's
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_hangs_while_others_return() {
        let calls = CallTracker::default();
        let idle = calls.snapshot();
        let call = calls.enter();
        assert!(!calls.hangs_since(&idle), "it has begun since");
        let inside = calls.snapshot();
        assert!(calls.hangs_since(&inside));
        drop(calls.enter());
        assert!(calls.hangs_since(&inside), "another one came through");
        drop(call);
        assert!(!calls.hangs_since(&inside));
        let _next = calls.enter();
        assert!(!calls.hangs_since(&inside), "another one has its slot");
    }

    #[test]
    fn call_without_a_slot_hangs_as_others_do() {
        let calls = CallTracker::default();
        let mut all: Vec<_> = (0..SLOTS + 2).map(|_| calls.enter()).collect();
        let [last, first] = [all.pop(), all.pop()];
        drop(all);
        let inside = calls.snapshot();
        drop(last);
        assert!(calls.hangs_since(&inside));
        drop(first);
        assert!(!calls.hangs_since(&inside));
    }

    #[test]
    fn calls_of_many_threads_leave_nothing_behind() {
        let calls = CallTracker::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..10_000).for_each(|_| drop((calls.enter(), calls.enter()))));
            }
        });
        let after = calls.snapshot();
        assert!(!calls.hangs_since(&after) && after.others.is_empty());
    }
}
