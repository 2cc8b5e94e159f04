//! Calls on their way from the thread that made them to the one that writes them down.

use super::api::Api;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Calls of a thread that are on their way at most.
const CAPACITY: u64 = 4096;

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which function.
    pub api: Api,
    /// When it began, in nanoseconds of the recorder's clock.
    pub start: u64,
    /// How long it took on the host.
    pub nanos: u64,
    /// Bytes of copies and allocations; threads of a kernel.
    pub amount: u64,
    /// The kernel or graph, by the driver's handle.
    pub what: u64,
    /// The stream, by the driver's handle.
    pub stream: u64,
}

/// A call, and the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The system's number of the thread.
    pub thread: u32,
    /// The call.
    pub call: Call,
}

/// Of one thread. It writes `head` and what is between; whoever drains writes `tail`.
#[derive(Debug)]
pub(super) struct Ring {
    /// Calls that were put in, and that were taken out.
    head: AtomicU64,
    tail: AtomicU64,
    entries: [[AtomicU64; 7]; CAPACITY as usize],
}

impl Ring {
    /// Puts a call in. False: there is no room.
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

    /// Takes all out, in their order. One thread at a time does that.
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
