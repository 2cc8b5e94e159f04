//! The gates that one preemptor closes and opens together.
//!
//! While they are closed, a thread of its own checks whether a call of the driver hangs because of
//! them, and opens them if so. Then only work that was launched before runs next to real-time work.

use crate::driver::context::Context;
use crate::hal::calls::Vendor;
use crate::preempt::gate::Gate;
use parking_lot::Mutex;
use reef_core::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// A call that takes longer than one to two of these while gates are closed is taken to hang.
/// Others take microseconds.
const HANG_AFTER: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct GateSet<V: Vendor> {
    shared: Arc<Shared<V>>,
    watchdog: Thread,
}

#[derive(Debug)]
struct Shared<V: Vendor> {
    gates: Mutex<Vec<Weak<Gate<V>>>>,
    closed: AtomicBool,
    /// The set is gone, or about to be.
    over: AtomicBool,
    context: Arc<Context<V>>,
}

impl<V: Vendor> GateSet<V> {
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let shared = Arc::new(Shared::new(context));
        let watched = Arc::downgrade(&shared);
        let watchdog = thread::Builder::new().name(format!("reef-{}-gates", V::NAME));
        let watchdog = watchdog.spawn(move || watch(&watched));
        let watchdog = watchdog.map_err(|e| Error::host("no thread for gates", &e))?;
        Ok(Self { shared, watchdog: watchdog.thread().clone() })
    }

    /// Closes and opens this one, too, from now on.
    pub(crate) fn join(&self, gate: &Arc<Gate<V>>) {
        let mut gates = self.shared.gates.lock();
        gates.retain(|gate| gate.strong_count() > 0);
        gates.push(Arc::downgrade(gate));
        if self.shared.closed.load(Ordering::Acquire) {
            gate.close();
        }
    }

    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.each(Gate::close);
        self.watchdog.unpark();
    }

    pub(crate) fn open(&self) {
        self.shared.closed.store(false, Ordering::Release);
        self.shared.each(Gate::open);
    }
}

impl<V: Vendor> Drop for GateSet<V> {
    fn drop(&mut self) {
        self.shared.closed.store(false, Ordering::Release);
        // The watchdog may have a reference, and sleep after that.
        self.shared.over.store(true, Ordering::Release);
        self.watchdog.unpark();
    }
}

impl<V: Vendor> Shared<V> {
    fn new(context: &Arc<Context<V>>) -> Self {
        let [closed, over] = [false; 2].map(AtomicBool::new);
        Self { gates: Mutex::default(), closed, over, context: context.clone() }
    }

    fn each(&self, act: impl Fn(&Gate<V>)) {
        self.gates.lock().iter().filter_map(Weak::upgrade).for_each(|gate| act(&gate));
    }

    /// Opens the gates if a call hangs while they are closed. Returns when they are open.
    fn watch(&self) {
        while self.closed.load(Ordering::Acquire) {
            if self.hangs_for(|| thread::sleep(HANG_AFTER)) {
                return self.each(Gate::open);
            }
        }
    }

    /// Returns whether a call lasts as long as `time` does, and the gates are closed then.
    fn hangs_for(&self, time: impl FnOnce()) -> bool {
        let before = self.context.calls.snapshot();
        time();
        self.closed.load(Ordering::Acquire) && self.context.calls.hangs_since(&before)
    }
}

/// The watchdog: watches gates while they are closed, for as long as the set is there.
fn watch<V: Vendor>(gates: &Weak<Shared<V>>) {
    while let Some(gates) = gates.upgrade() {
        gates.watch();
        if gates.over.load(Ordering::Acquire) {
            return;
        }
        drop(gates);
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;

    /// Ends the threads of a test, also if that fails.
    struct AtLast<'a>(&'a AtomicBool);

    impl Drop for AtLast<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn wait_until(what: &str, holds: impl Fn() -> bool) {
        let begin = std::time::Instant::now();
        while !holds() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
            thread::sleep(HANG_AFTER); // sleep: poll of a condition
        }
    }

    fn gates() -> (Arc<Context<Fake>>, GateSet<Fake>, Arc<Gate<Fake>>) {
        let context = Arc::new(Context::new(Fake::default()));
        let gates = GateSet::new(&context).unwrap();
        let gate = Arc::new(Gate::new(&context).unwrap());
        gates.join(&gate);
        (context, gates, gate)
    }

    #[test]
    fn a_call_that_hangs_opens_the_gates() {
        let (context, gates, gate) = gates();
        let call = context.calls.enter();
        gates.close();
        wait_until("open", || gate.closed_for().is_none());
        drop(call);
        gates.close();
        assert!(gate.closed_for().is_some(), "the next time they close as ever");
    }

    /// A capture, say, hangs in one thread while another launches real-time work.
    #[test]
    fn call_that_hangs_while_others_return_opens_the_gates() {
        let (context, gates, gate) = gates();
        let _hanging = context.calls.enter();
        gates.close();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        drop(context.calls.enter());
                    }
                });
            }
            let _end = AtLast(&is_over);
            wait_until("open", || gate.closed_for().is_none());
        });
    }

    /// The watchdog may have taken hold of the set when that is dropped.
    #[test]
    fn the_watchdog_ends_with_its_set() {
        let (_, gates, _gate) = gates();
        let taken = gates.shared.clone();
        drop(gates);
        wait_until("the watchdog has ended", || Arc::weak_count(&taken) == 0);
    }

    /// Without a watchdog, whose clock a busy machine may stop in the midst of a call.
    #[test]
    fn calls_that_return_leave_them_closed() {
        let context = Arc::new(Context::new(Fake::default()));
        let shared = Shared::new(&context);
        shared.closed.store(true, Ordering::Release);
        let mut inside = Some(context.calls.enter());
        for _ in 0..100 {
            let next = || {
                inside = None; // it returns before the next one begins
                inside = Some(context.calls.enter());
            };
            assert!(!shared.hangs_for(next), "each is another call");
        }
        assert!(shared.hangs_for(|| {}), "this one has not returned");
        shared.closed.store(false, Ordering::Release);
        assert!(!shared.hangs_for(|| {}), "nothing hangs because of gates that are open");
        drop(inside);
    }

    #[test]
    fn gate_that_joins_a_closed_set_is_closed() {
        let (context, gates, _gate) = gates();
        // Before they close: on a busy machine its calls of the driver may last, and open them.
        let late = Arc::new(Gate::new(&context).unwrap());
        gates.close();
        gates.join(&late);
        assert!(late.closed_for().is_some());
    }
}
