//! Messages over the Unix socket, with file descriptors.

use crate::error::{Error, Result};
use reef_files::descriptors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Interval at which a sleeping side checks that the other one still exists.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Sends a message, and a file descriptor with its first byte.
///
/// # Errors
///
/// `Unavailable` if the other side is gone.
pub(super) fn send(mut stream: &UnixStream, bytes: &[u8], fd: Option<&OwnedFd>) -> Result<()> {
    let sent = descriptors::send(stream, bytes, fd.map(AsFd::as_fd)).map_err(|e| gone(&e))?;
    stream.write_all(&bytes[sent..]).map_err(|e| gone(&e))
}

/// Receives a message of this length, and the file descriptor sent with it. The socket's timeout is
/// for the whole message, so one that arrives byte by byte is cut off.
///
/// # Errors
///
/// Errors of [`send`].
pub(super) fn receive(stream: &UnixStream, bytes: &mut [u8]) -> Result<Option<OwnedFd>> {
    let message = descriptors::receive_all(stream, bytes).map_err(|e| gone(&e))?;
    let got = message.bytes;
    if got < bytes.len() {
        return Err(gone(&format!("closed or timed out after {got} bytes")));
    }
    Ok(message.descriptor)
}

/// True if the other side has closed its end, or has sent an unexpected message.
pub(super) fn is_over(stream: &UnixStream) -> bool {
    is_ready(stream, Duration::ZERO)
}

/// True if there is a message, a connection or the end within `time`.
pub(super) fn is_ready(socket: &impl AsFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP)];
    let time = Timespec::try_from(time).ok();
    !matches!(poll(&mut fds, time.as_ref()), Ok(0) | Err(rustix::io::Errno::INTR))
}

fn gone(why: &dyn std::fmt::Display) -> Error {
    Error::Unavailable(format!("the other side has disconnected: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::time::Instant;

    #[test]
    fn message_brings_a_file_and_the_end_is_seen() {
        let (a, b) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        send(&a, b"hello", Some(&writer.into())).unwrap();
        let mut bytes = [0; 5];
        let fd = receive(&b, &mut bytes).unwrap().unwrap();
        assert_eq!(&bytes, b"hello");
        File::from(fd).write_all(b"!").unwrap();
        let mut said = String::new();
        File::from(OwnedFd::from(reader)).read_to_string(&mut said).unwrap();
        assert_eq!(said, "!");
        assert!(!is_over(&b));
        drop(a);
        assert!(is_over(&b));
        assert!(matches!(receive(&b, &mut bytes), Err(Error::Unavailable(_))));
    }
    #[test]
    fn slow_message_is_cut_off_at_the_timeout() {
        let (a, b) = UnixStream::pair().unwrap();
        b.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Ends when the other side closes its socket.
                while (&a).write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(100)); // sleep: pace of the bytes
                }
            });
            let said = receive(&b, &mut [0; 1000]);
            assert!(matches!(said, Err(Error::Unavailable(_))), "{said:?}");
            drop(b);
        });
        assert!(begin.elapsed() < Duration::from_secs(60), "all 1000 bytes: {:?}", begin.elapsed());
    }
}
