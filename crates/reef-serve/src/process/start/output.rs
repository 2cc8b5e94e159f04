//! Output of a process, as lines of the daemon's log.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::sync::Arc;
use std::thread;

/// Maximum length of a line; a longer one is several.
const MAX_LINE_BYTES: u64 = 4096;

/// Maximum number of bytes that are read after the end of a process: as many as a pipe may hold.
const MAX_LEFT_BYTES: usize = 1 << 20;

/// Output of a process until its end. Programs that it has left behind may still have the pipe.
struct Output {
    pipe: PipeReader,
    /// Its other end is closed once the process has ended.
    end: PipeReader,
    /// Bytes that may be read after that.
    left: usize,
}

impl Output {
    fn new(pipe: PipeReader, end: PipeReader) -> Self {
        Self { pipe, end, left: MAX_LEFT_BYTES }
    }
}

impl Read for Output {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let flags = PollFlags::IN;
        let mut both = [PollFd::new(&self.pipe, flags), PollFd::new(&self.end, flags)];
        poll(&mut both, None)?;
        let [has_some, has_ended] = both.map(|ready| !ready.revents().is_empty());
        if !has_ended {
            return self.pipe.read(bytes);
        }
        if !has_some {
            return Ok(0);
        }
        let most = bytes.len().min(self.left);
        let read = self.pipe.read(&mut bytes[..most])?;
        self.left -= read;
        Ok(read)
    }
}

/// Logs the lines of a process on a thread of its own: until all of its outputs are closed, or the
/// other end of `end` is and no output is left.
pub(in crate::process) fn log(title: Arc<str>, pid: u32, output: PipeReader, end: PipeReader) {
    let read = move || {
        let mut output = BufReader::new(Output::new(output, end));
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = output.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let text = printable(&line);
            tracing::info!(model = %title, pid, "{text}");
        }
    };
    // Without a thread the pipe is closed, and the process may get an error when it prints.
    let _ = thread::Builder::new().name("reef-output".into()).spawn(read);
}

/// Returns the text without its end and without control characters.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let replace =
        |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.trim_end_matches(['\n', '\r']).chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// As when a program that the process has left behind holds its output.
    #[test]
    fn output_ends_with_its_process() {
        let [(pipe, mut writer), (end, ended)] = [(); 2].map(|()| io::pipe().unwrap());
        writer.write_all(b"last words\n").unwrap();
        drop(ended);
        let mut text = String::new();
        Output::new(pipe, end).read_to_string(&mut text).unwrap();
        assert_eq!(text, "last words\n");
    }

    #[test]
    fn output_that_goes_on_after_its_process_is_left() {
        let [(pipe, mut writer), (end, ended)] = [(); 2].map(|()| io::pipe().unwrap());
        drop(ended);
        let flood = thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
        let mut bytes = Vec::new();
        Output::new(pipe, end).read_to_end(&mut bytes).unwrap();
        assert!(bytes.len() <= MAX_LEFT_BYTES, "{}", bytes.len());
        flood.join().unwrap();
    }

    #[test]
    fn line_for_the_log_has_no_control_characters() {
        assert_eq!(printable(b"a\tb\x1b[31m\r\n"), "a\tb\u{fffd}[31m");
        assert_eq!(printable(b"\xff\n"), "\u{fffd}");
    }
}
