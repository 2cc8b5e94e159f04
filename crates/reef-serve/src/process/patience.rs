//! Reads and writes of a socket that ask now and then whether to go on.

use reef_files::descriptors::try_send;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// Interval of the question.
const ASK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Answer to the question whether to wait on: an error ends the call.
pub(super) type Ask<'a> = dyn FnMut(&UnixStream) -> io::Result<()> + 'a;

/// A socket that does not block, and the question.
pub(super) struct Patient<'a, 'b> {
    pub(super) stream: &'a UnixStream,
    pub(super) ask: &'a mut Ask<'b>,
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
