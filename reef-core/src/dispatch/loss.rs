//! What becomes of all work when the device is lost.
//!
//! Real-time work finds out by itself: its queue fails, and no other can be had. Best-effort work
//! that is held doesn't ask the device for anything, and would wait for ever to be restored.

use crate::backend::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a device may refuse to restore best-effort work, each time it is asked, before it is
/// given up.
const GIVE_UP_AFTER: Duration = Duration::from_millis(500);

/// Whether the device is lost.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    /// When it first refused to restore, unless it has answered since.
    refusing_since: Option<Duration>,
    /// Why it is given up. Read without the state's lock, which a pass that hangs in the driver
    /// keeps.
    why: Arc<OnceLock<Error>>,
}

impl Loss {
    /// Why the device is given up, if it is.
    pub(crate) fn why(&self) -> Option<&Error> {
        self.why.get()
    }

    /// The reason as it will be once there is one.
    pub(super) fn reason(&self) -> Arc<OnceLock<Error>> {
        self.why.clone()
    }

    /// The device has nothing to restore, or did.
    pub(super) fn note_answer(&mut self) {
        self.refusing_since = None;
    }

    /// Whether the device, which refuses at `now`, has done so for long.
    pub(super) fn note_refusal(&mut self, now: Duration) -> bool {
        let since = *self.refusing_since.get_or_insert(now);
        now.saturating_sub(since) >= GIVE_UP_AFTER
    }

    /// The device is given up; the first reason stays.
    pub(super) fn note(&mut self, why: &Error) {
        let _ = self.why.set(why.clone()); // unless there is one
    }
}

#[cfg(test)]
mod tests {
    use super::GIVE_UP_AFTER;
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

    const LONG: Duration = Duration::from_secs(60);

    fn lost() -> Error {
        Error::DeviceLost { backend: "fake", why: "reactivate".into() }
    }

    #[test]
    fn best_effort_work_that_a_device_never_restores_ends() {
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
        assert_eq!(be.wait_for(Seq(0), LONG), Err(lost()));
        eventually("given up", || dispatcher.best_effort(ClientConfig::default()).is_err());
        assert_eq!(rt.run(&task), Err(lost()), "so are those who come later");
        let retries = dispatcher.stats().retries;
        thread::sleep(Duration::from_millis(20));
        assert_eq!(dispatcher.stats().retries, retries, "it is not asked any more");
    }

    /// Passes of real-time work don't ask the device to restore; that they go well is no answer.
    #[test]
    fn device_that_never_restores_is_lost_between_real_time_tasks() {
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
            assert!(begin.elapsed() < 20 * GIVE_UP_AFTER, "each task is taken for an answer");
            thread::sleep(GIVE_UP_AFTER / 20);
        }
        assert_eq!(be.wait_for(Seq(0), LONG), Err(lost()));
    }

    #[test]
    fn who_is_given_up_ends_with_the_reason() {
        let device = Fake::default();
        let dispatcher = Dispatcher::start(&device, Box::new(Reef::default())).expect("it starts");
        device.0.be_hangs.store(true, Ordering::SeqCst);
        let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
        let _at_last = AtLast(device.clone());
        be.submit(&[kernel(), kernel()]).expect("room");
        dispatcher.give_up(&lost());
        assert_eq!(be.wait_for(Seq(1), LONG), Err(lost()), "it would wait for ever");
        assert_eq!(be.submit(&[kernel()]), Err(lost()));
        device.0.be_hangs.store(false, Ordering::SeqCst); // dropping waits for what the device has
    }
}
