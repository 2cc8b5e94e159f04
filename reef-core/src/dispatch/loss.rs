//! Loss of the device: all work ends with an error.
//!
//! Real-time work finds out by itself: its queue fails, and no other can be opened. Best-effort
//! work that is held doesn't ask the device for anything, and would wait for ever to be restored.

use crate::backend::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time for which a device may refuse to restore best-effort work, each time it is asked, before it
/// is given up.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(500);

/// State of a device that may be lost.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    /// Time at which it first refused to restore, unless it has answered since.
    refusing_since: Option<Duration>,
    /// Reason for which it is given up. Read without the state's lock, which a pass that hangs in
    /// the driver keeps.
    why: Arc<OnceLock<Error>>,
}

impl Loss {
    /// Returns the reason for which the device is given up, if it is.
    pub(crate) fn why(&self) -> Option<&Error> {
        self.why.get()
    }

    /// Returns a handle of the reason, which is set later.
    pub(super) fn reason(&self) -> Arc<OnceLock<Error>> {
        self.why.clone()
    }

    /// The device has nothing to restore, or did.
    pub(super) fn note_answer(&mut self) {
        self.refusing_since = None;
    }

    /// Notes that the device refuses at `now`; returns whether it has refused for too long.
    pub(super) fn note_refusal(&mut self, now: Duration) -> bool {
        let since = *self.refusing_since.get_or_insert(now);
        now.saturating_sub(since) >= REFUSAL_TIMEOUT
    }

    /// The device is given up; the first reason stays.
    pub(super) fn note(&mut self, why: &Error) {
        let _ = self.why.set(why.clone()); // unless there is one
    }
}

#[cfg(test)]
mod tests {
    use super::REFUSAL_TIMEOUT;
    use crate::backend::error::Error;
    use crate::backend::info::Seq;
    use crate::dispatch::dispatcher::Dispatcher;
    use crate::dispatch::queues::task::Task;
    use crate::limits::ClientConfig;
    use crate::scheduler::Reef;
    use crate::testing::fake::{AtLast, Fake, eventually, kernel};
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::{Duration, Instant};

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    fn lost() -> Error {
        Error::DeviceLost { backend: "fake", why: "reactivate".into() }
    }

    #[test]
    fn best_effort_work_of_a_device_never_restored_ends() {
        let device = Fake::default();
        let dispatcher = Dispatcher::start(&device, Box::new(Reef::default())).expect("it starts");
        let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
        let _at_last = AtLast(device.clone());
        device.0.be_hangs.store(true, Ordering::SeqCst);
        be.submit(&[kernel()]).expect("room");
        device.0.reactivate_fails.store(u32::MAX, Ordering::SeqCst);
        let mut rt = dispatcher.real_time().expect("a client");
        let task = Task::new(vec![kernel()]).expect("a kernel");
        rt.run(&task).expect("its queue works");
        // Else the kernel ends before it is taken back.
        eventually("taken back", || device.0.drains.load(Ordering::SeqCst) > 0);
        device.0.be_hangs.store(false, Ordering::SeqCst);
        assert_eq!(be.wait_for(Seq(0), TEST_TIMEOUT), Err(lost()));
        eventually("given up", || dispatcher.best_effort(ClientConfig::default()).is_err());
        assert_eq!(rt.run(&task), Err(lost()), "so are later tasks");
        let retries = dispatcher.stats().retries;
        (0..100).for_each(|_| dispatcher.look());
        assert_eq!(dispatcher.stats().retries, retries, "it is not asked any more");
    }

    /// Passes of real-time work don't ask the device to restore; that they succeed is not an answer
    /// of the device.
    #[test]
    fn device_never_restoring_is_lost_between_real_time_tasks() {
        let device = Fake::default();
        let dispatcher = Dispatcher::start(&device, Box::new(Reef::default())).expect("it starts");
        let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
        let _at_last = AtLast(device.clone());
        device.0.be_hangs.store(true, Ordering::SeqCst);
        be.submit(&[kernel()]).expect("room");
        device.0.reactivate_fails.store(u32::MAX, Ordering::SeqCst);
        let mut rt = dispatcher.real_time().expect("a client");
        let task = Task::new(vec![kernel()]).expect("a kernel");
        rt.run(&task).expect("its queue works");
        eventually("taken back", || device.0.drains.load(Ordering::SeqCst) > 0);
        device.0.be_hangs.store(false, Ordering::SeqCst);
        let begin = Instant::now();
        while rt.run(&task).is_ok() {
            assert!(begin.elapsed() < TEST_TIMEOUT, "each task is taken for an answer");
            thread::sleep(REFUSAL_TIMEOUT / 20); // sleep: time for passes between the tasks
        }
        assert_eq!(be.wait_for(Seq(0), TEST_TIMEOUT), Err(lost()));
    }

    #[test]
    fn client_of_a_given_up_device_gets_the_reason() {
        let device = Fake::default();
        let dispatcher = Dispatcher::start(&device, Box::new(Reef::default())).expect("it starts");
        device.0.be_hangs.store(true, Ordering::SeqCst);
        let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
        let _at_last = AtLast(device.clone());
        be.submit(&[kernel(), kernel()]).expect("room");
        dispatcher.give_up(&lost());
        assert_eq!(be.wait_for(Seq(1), TEST_TIMEOUT), Err(lost()), "it would wait for ever");
        assert_eq!(be.submit(&[kernel()]), Err(lost()));
        device.0.be_hangs.store(false, Ordering::SeqCst); // dropping waits for what the device has
    }
}
