//! Reads and writes of a socket that ask now and then whether to go on.

use reef_files::descriptors::try_send;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// Interval of the question.
const ASK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Answer to the question whether to wait on: an error ends the call.
pub(super) type Ask<'a> = dyn FnMut(&UnixStream) -> io::Result<()> + 'a;

/// A socket that does not block, and the question.
pub(super) struct Patient<'a, 'b> {
    pub(super) stream: &'a UnixStream,
    pub(super) ask: &'a mut Ask<'b>,
    /// Time until which it tries again at once. A thread that sleeps is woken later.
    pub(super) awake_until: Option<Instant>,
}

impl Patient<'_, '_> {
    /// Calls `try_once` until it does not have to wait.
    fn retry(
        &mut self,
        flags: PollFlags,
        mut try_once: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match try_once(self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.awake_until.is_some_and(|until| Instant::now() < until) {
                thread::yield_now(); // the process may need this processor
                continue;
            }
            (self.ask)(self.stream)?;
            wait(self.stream, flags, &ASK_INTERVAL)?;
        }
    }

    /// Writes bytes, and a descriptor with the first of them.
    pub(super) fn send(&mut self, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let sent =
            self.retry(PollFlags::OUT, |stream| try_send(stream, bytes, Some(descriptor)))?;
        self.write_all(&bytes[sent..])
    }
}

impl Read for Patient<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.retry(PollFlags::IN, |mut stream| stream.read(bytes))
    }
}

impl Write for Patient<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry(PollFlags::OUT, |mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Time that a process has until it is ready.
pub(super) struct LoadTime {
    since: Instant,
    timeout: Duration,
}

impl LoadTime {
    /// Begins now.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { since: Instant::now(), timeout }
    }

    /// Begins anew while the process is held: it has all of its time once it may go on.
    ///
    /// # Errors
    ///
    /// `TimedOut` once it is over.
    pub(super) fn check(&mut self, is_held: bool) -> io::Result<()> {
        if is_held {
            self.since = Instant::now();
        }
        if is_held || self.since.elapsed() < self.timeout {
            return Ok(());
        }
        let text = format!("must be ready within {:?} (process.load_ms)", self.timeout);
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }
}

/// True if something can be read: also the end.
pub(super) fn is_readable(stream: &UnixStream) -> bool {
    wait(stream, PollFlags::IN, &Timespec { tv_sec: 0, tv_nsec: 0 }).unwrap_or(true)
}

fn wait(stream: &UnixStream, flags: PollFlags, time: &Timespec) -> io::Result<bool> {
    match poll(&mut [PollFd::new(stream, flags)], Some(time)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn question_is_not_asked_before_it_sleeps() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let asked_with = |awake_until: Option<Instant>| {
            let (asked, tried) = (Cell::new(0), Cell::new(0));
            let ask = &mut |_: &UnixStream| -> io::Result<()> {
                asked.set(asked.get() + 1);
                Ok(())
            };
            let mut patient = Patient { stream: &ours, ask, awake_until };
            let third = |_: &UnixStream| -> io::Result<usize> {
                tried.set(tried.get() + 1);
                if tried.get() < 3 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(7) }
            };
            // It can be written to, so no sleep lasts.
            assert_eq!(patient.retry(PollFlags::OUT, third).unwrap(), 7);
            asked.get()
        };
        assert_eq!(asked_with(None), 2);
        assert_eq!(asked_with(Some(Instant::now())), 2);
        assert_eq!(asked_with(Some(Instant::now() + Duration::from_secs(3600))), 0);
    }

    /// As one that an operator has suspended while it loads its weights.
    #[test]
    fn process_that_is_held_has_its_time_to_load_afterwards() {
        let mut time = LoadTime::new(Duration::from_secs(3600));
        let before = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        time.since = before;
        time.check(true).unwrap();
        assert!(time.since > before, "it begins anew");
        time.timeout = Duration::ZERO;
        time.check(true).unwrap();
        let why = time.check(false).unwrap_err();
        assert_eq!(why.to_string(), "must be ready within 0ns (process.load_ms)");
    }
}
