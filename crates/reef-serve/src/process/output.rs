//! Output of a process, as lines of the daemon's log.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::sync::Arc;
use std::thread;

/// Maximum length of a line; a longer one is several.
const MAX_LINE_BYTES: u64 = 4096;

/// Logs the lines of a process until all of its outputs are closed, on a thread of its own.
pub(super) fn log(title: Arc<str>, pid: u32, output: PipeReader) {
    let read = move || {
        let mut output = BufReader::new(output);
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

    #[test]
    fn line_for_the_log_has_no_control_characters() {
        assert_eq!(printable(b"a\tb\x1b[31m\r\n"), "a\tb\u{fffd}[31m");
        assert_eq!(printable(b"\xff\n"), "\u{fffd}");
    }
}
