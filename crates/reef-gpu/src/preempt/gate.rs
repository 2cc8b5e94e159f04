//! A gate between batches of launches of a stream, for kernels without a guard.
//!
//! Batches are numbered from 1. Before each the stream writes the number to the host (`started`),
//! and then waits for a signal of the host: one that batches of even number wait for, or one for
//! those of odd number. Closing the gate is three steps, and costs no call of the driver:
//!
//! 1. both signals are closed;
//! 2. `started` is read: `running`;
//! 3. the signal of `running` is opened again.
//!
//! So `running` runs to its end, or has done so, and **no later batch starts until the gate
//! opens**: batch `running + 1` writes its number after step 2, or step 2 would have read it; so it
//! reads its signal after step 1, and waits. What follows waits behind it. This needs of the device
//! no more than that a stream's write reaches the host's memory before the stream's next wait reads
//! it, and of the bus that a read doesn't pass a write, which PCI Express promises.

use crate::driver::context::Context;
use crate::driver::signal::HostSignal;
use crate::hal::calls::Vendor;
use crate::hal::facts::GateSignal;
use parking_lot::Mutex;
use reef_core::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

/// Values of the signals.
pub(crate) const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// The gate of one stream.
#[derive(Debug)]
pub(crate) struct Gate<V: Vendor> {
    /// Batch `n` waits for signal `n % 2`.
    signals: [GateSignal; 2],
    /// Number of the batch that the stream came to last.
    started: HostSignal<V>,
    closed: Mutex<Option<Closed>>,
    context: Arc<Context<V>>,
}

/// State of a gate that is closed.
#[derive(Debug, Clone, Copy)]
struct Closed {
    since: Instant,
    /// The last batch that may run.
    running: u32,
}

// SAFETY: the signals are used through atomic accesses only.
unsafe impl<V: Vendor> Send for Gate<V> {}
// SAFETY: methods take `&self`, reach the signals by atomics alone, and `closed` is behind a lock.
unsafe impl<V: Vendor> Sync for Gate<V> {}

impl<V: Vendor> Gate<V> {
    /// An open one.
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let started = HostSignal::new(context)?;
        let even = context.call().alloc_gate()?;
        let odd = context.call().alloc_gate();
        // SAFETY: it was allocated above.
        let odd = odd.inspect_err(|_| unsafe { free(context, even) })?;
        let signals = [even, odd];
        Ok(Self { signals, started, closed: Mutex::new(None), context: context.clone() })
    }

    /// Address to which the stream writes the number of a batch that it has come to.
    pub(crate) fn started(&self) -> u64 {
        self.started.address()
    }

    /// Address of the signal in which batch `number` waits for [`OPEN`], after that.
    pub(crate) fn address(&self, number: u32) -> u64 {
        self.signals[number as usize % 2].device
    }

    fn set(&self, number: u32, value: u32) {
        let host = self.signals[number as usize % 2].host;
        // SAFETY: the signal is there for as long as this, and aligned.
        unsafe { AtomicU32::from_ptr(host) }.store(value, Ordering::SeqCst);
    }

    fn set_both(&self, value: u32) {
        [0, 1].into_iter().for_each(|number| self.set(number, value));
    }

    /// Closes it, if it is open.
    pub(crate) fn close(&self) {
        let mut closed = self.closed.lock();
        if closed.is_some() {
            return; // step 2 would read the number of a batch that waits
        }
        self.set_both(CLOSED);
        fence(Ordering::SeqCst); // the stream writes and then reads; here it is the other way round
        let running = self.started.get32();
        self.set(running, OPEN);
        *closed = Some(Closed { since: Instant::now(), running });
    }

    pub(crate) fn open(&self) {
        let mut closed = self.closed.lock();
        self.set_both(OPEN);
        *closed = None;
    }

    /// The last batch that may run while the gate stays closed, 0 if none may; `None` if it is
    /// open.
    pub(crate) fn running(&self) -> Option<u32> {
        self.closed.lock().map(|closed| closed.running)
    }

    /// Time that it has been closed; `None` if it is open.
    pub(crate) fn closed_for(&self) -> Option<Duration> {
        self.closed.lock().map(|closed| closed.since.elapsed())
    }
}

/// # Safety
///
/// The signal came from `alloc_gate` of this context, and no stream waits for it any more.
unsafe fn free<V: Vendor>(context: &Context<V>, signal: GateSignal) {
    if let Some(call) = context.call_that_waits() {
        // SAFETY: the signal came from `alloc_gate` of this context, and no stream waits for it:
        // `free` demands it. Each caller calls it once.
        unsafe { call.free_gate(signal) };
    }
}

impl<V: Vendor> Drop for Gate<V> {
    fn drop(&mut self) {
        for signal in self.signals {
            // SAFETY: allocated in `new`; the queue that waits for it keeps this until its stream
            // is idle.
            unsafe { free(&self.context, signal) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    const ROUNDS: u32 = if cfg!(miri) { 20 } else { 5_000 };

    /// The device's side of a stream of empty batches.
    struct Batches<'a> {
        gate: &'a Gate<Fake>,
        /// Number of the batch that runs or has run.
        ran: AtomicU32,
        ends: AtomicBool,
    }

    impl Batches<'_> {
        fn run(&self) {
            for number in 1.. {
                self.gate.started.set_from_device(number);
                while self.is_closed(number) {
                    if self.ends.load(Ordering::Relaxed) {
                        return;
                    }
                    std::hint::spin_loop();
                }
                self.ran.store(number, Ordering::SeqCst);
            }
        }

        fn is_closed(&self, number: u32) -> bool {
            let word = self.gate.address(number) as *mut u32;
            // SAFETY: a signal of the gate, which is there.
            unsafe { AtomicU32::from_ptr(word) }.load(Ordering::SeqCst) != OPEN
        }
    }

    /// Ends the device's thread, also when an assertion fails.
    struct End<'a>(&'a Batches<'a>);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.ends.store(true, Ordering::Relaxed);
            self.0.gate.close();
        }
    }

    #[test]
    fn closed_gate_lets_only_the_started_batch_run() {
        let context = Arc::new(Context::new(Fake::default()));
        let gate = Gate::new(&context).unwrap();
        let batches = Batches { gate: &gate, ran: AtomicU32::new(0), ends: AtomicBool::new(false) };
        thread::scope(|scope| {
            scope.spawn(|| batches.run());
            let _end = End(&batches);
            for round in 0..ROUNDS {
                gate.close();
                let running = gate.running().unwrap();
                while batches.ran.load(Ordering::SeqCst) < running {
                    thread::yield_now(); // it ends: its own signal is open
                }
                (0..round % 64).for_each(|_| std::hint::spin_loop());
                assert_eq!(batches.ran.load(Ordering::SeqCst), running, "another batch ran");
                gate.open();
                (0..round % 256).for_each(|_| std::hint::spin_loop());
            }
            while batches.ran.load(Ordering::SeqCst) < 2 {
                thread::yield_now(); // it goes on when the gate is open
            }
        });
    }

    #[test]
    fn closing_a_closed_gate_lets_no_other_batch_run() {
        let context = Arc::new(Context::new(Fake::default()));
        let gate = Gate::new(&context).unwrap();
        gate.close();
        gate.started.set_from_device(1); // it waits now
        gate.close();
        assert_eq!(gate.running(), Some(0));
    }
}
