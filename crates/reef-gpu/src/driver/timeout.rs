//! Time that a best-effort queue may be silent before it is abandoned: the last resort against a
//! kernel that never ends.
//!
//! Drivers have no call that removes such a kernel. With `timeout=N` its queue ends with an error,
//! and its stream is left alone with what is in it; no thread waits for it. Memory, code and
//! signals that its commands use are kept for ever, because what is in the stream may still write
//! to them. All else is given back and used again, but by calls that would wait for the kernel:
//! those are made when it has ended after all.

use std::time::{Duration, Instant};

/// Time that a queue has been silent, and its limit.
#[derive(Debug)]
pub(crate) struct Timeout {
    /// `None`: for ever.
    limit: Option<Duration>,
    since: Option<Instant>,
}

impl Timeout {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { limit, since: None }
    }

    /// Returns whether there is a limit.
    pub(crate) fn is_set(&self) -> bool {
        self.limit.is_some()
    }

    /// Something has ended, or nothing is to be expected.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }

    /// Nothing has ended. Returns after how long that was too often.
    pub(crate) fn expired(&mut self) -> Option<Duration> {
        let limit = self.limit?;
        let Some(since) = self.since else {
            self.since = Some(Instant::now()); // none has passed, however late this thread goes on
            return None;
        };
        (since.elapsed() >= limit).then_some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use reef_core::{Args, Device, Error, Launch, Priority, Queue, Seq};

    const LIMIT: Duration = Duration::from_millis(20);

    /// A device whose words don't arrive, and a queue of this class with a launch.
    fn silent(class: Priority) -> (Gpu<Fake>, crate::launch::queue::hardware_queue::Queue<Fake>) {
        let options = Options { timeout: Some(LIMIT), ..Options::default() };
        let gpu = Gpu::new(Fake::default(), options).unwrap();
        gpu.vendor().slow_down();
        let mut queue = gpu.queue(class, None).unwrap();
        let kernel = gpu.kernel("append").unwrap();
        // SAFETY: nothing runs.
        let launch = unsafe { Launch::new(kernel, [1; 3], [32, 1, 1], Args::new(&[0; 3])) };
        queue.launch(Seq(0), &launch, None).unwrap();
        (gpu, queue)
    }

    #[test]
    fn abandoned_queue_keeps_its_own_memory() {
        let (gpu, mut queue) = silent(Priority::BestEffort);
        let is_freed = |address| gpu.vendor().freed.lock().contains(&address);
        let [used, other] = [(); 2].map(|()| gpu.alloc(8).unwrap());
        let addresses = [used.address(), other.address()];
        let kernel = gpu.kernel("append").unwrap();
        // SAFETY: nothing runs.
        let launch = unsafe { Launch::new(kernel, [1; 3], [32, 1, 1], Args::new(&[0; 3])) };
        queue.launch(Seq(1), &launch.keep(vec![used]), None).unwrap();
        assert_eq!(queue.completed(), Ok(Seq(0)));
        std::thread::sleep(LIMIT); // sleep: longer than a timeout that must have run
        assert!(!queue.is_abandoned());
        for _ in 0..2 {
            let error = queue.completed().unwrap_err();
            assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        }
        assert!(queue.is_abandoned());
        gpu.vendor().busy.store(true, std::sync::atomic::Ordering::SeqCst);
        drop((queue, other));
        assert_eq!(addresses.map(is_freed), [false, true]);
        let later = gpu.alloc(8).unwrap();
        let address = later.address();
        drop(later);
        assert!(is_freed(address), "of later clients too");
    }

    #[test]
    fn real_time_work_may_take_as_long_as_it_likes() {
        let (gpu, mut queue) = silent(Priority::RealTime);
        assert_eq!(queue.completed(), Ok(Seq(0)));
        std::thread::sleep(2 * LIMIT); // sleep: the time that passes is the subject
        assert_eq!(queue.completed(), Ok(Seq(0)));
        gpu.vendor().proceed(1);
        assert_eq!(queue.completed(), Ok(Seq(1)));
    }

    #[test]
    fn timeout_expires_after_silence() {
        let limit = Duration::from_secs(600);
        let mut timeout = Timeout::new(Some(limit));
        let pass = |timeout: &mut Timeout| timeout.since = timeout.since.map(|since| since - limit);
        assert_eq!(timeout.expired(), None, "it has just begun");
        pass(&mut timeout);
        timeout.restart();
        assert_eq!(timeout.expired(), None, "something has ended");
        pass(&mut timeout);
        assert_eq!(timeout.expired(), Some(limit));
    }

    #[test]
    fn timeout_without_a_limit_never_expires() {
        let mut timeout = Timeout::new(None);
        assert_eq!((timeout.expired(), timeout.since), (None, None));
    }
}
