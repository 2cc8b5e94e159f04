//! Ring of calls on their way from the thread that made them to the one that writes them to files.

use super::api::Api;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Capacity of a thread's ring, in calls.
const CAPACITY: u64 = 4096;

/// Ended call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Function that was called.
    pub api: Api,
    /// Begin, in nanoseconds of the recorder's clock.
    pub start: u64,
    /// Host time, in nanoseconds.
    pub nanos: u64,
    /// Bytes of copies and allocations; threads of a kernel.
    pub amount: u64,
    /// Kernel or graph, by the driver's handle.
    pub what: u64,
    /// Stream, by the driver's handle.
    pub stream: u64,
}

/// Call, and the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Thread ID of the system.
    pub thread: u32,
    /// The call.
    pub call: Call,
}

/// Ring of one thread. The thread writes `head` and the entries; the draining thread writes `tail`.
#[derive(Debug)]
pub(super) struct Ring {
    /// Number of calls that were pushed, and that were drained.
    head: AtomicU64,
    tail: AtomicU64,
    entries: [[AtomicU64; 7]; CAPACITY as usize],
}

impl Ring {
    /// Pushes a call. Returns false if the ring is full.
    pub(super) fn push(&self, thread: u32, call: &Call) -> bool {
        let head = self.head.load(Relaxed);
        if head.wrapping_sub(self.tail.load(Acquire)) >= CAPACITY {
            return false;
        }
        let Call { api, start, nanos, amount, what, stream } = *call;
        let words = [api as u64, start, nanos, amount, what, stream, u64::from(thread)];
        let entry = &self.entries[(head % CAPACITY) as usize];
        entry.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        self.head.store(head.wrapping_add(1), Release); // `drain` reads the entry after this
        true
    }

    /// Takes all calls, in order. One thread at a time may call it.
    pub(super) fn drain(&self, mut take: impl FnMut(Event)) {
        let (mut tail, head) = (self.tail.load(Relaxed), self.head.load(Acquire));
        while tail != head {
            let entry = &self.entries[(tail % CAPACITY) as usize];
            let [api, start, nanos, amount, what, stream, thread] =
                std::array::from_fn(|at| entry[at].load(Relaxed));
            let api = Api::from_number(api);
            let call = Call { api, start, nanos, amount, what, stream };
            take(Event { thread: thread as u32, call });
            tail = tail.wrapping_add(1);
            self.tail.store(tail, Release); // `push` writes there again after this
        }
    }
}
