//! Whether a process is there, by its number and the time at which it started.

use std::fs;

/// When this process started, in ticks since the system did. Zero: the system doesn't say.
pub(super) fn own_start() -> u64 {
    start_and_state(std::process::id()).map_or(0, |(start, _)| start)
}

/// Whether nothing of a process is left, as far as can be seen from here. A process of another
/// namespace looks gone or like a different one: it is its lock in the books that counts then.
pub(super) fn is_gone(process: u32, started: u64) -> bool {
    match start_and_state(process) {
        None => true,
        Some((start, _)) if start != started => true,
        // Its first thread has ended; others may be about to, and have its memory still.
        Some((_, 'Z' | 'X')) => threads(process) <= 1,
        Some(_) => false,
    }
}

/// Field 22 and field 3 of `/proc/PID/stat` (proc_pid_stat(5)).
fn start_and_state(process: u32) -> Option<(u64, char)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, behind_name) = text.rsplit_once(") ")?;
    let mut fields = behind_name.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((fields.nth(18)?.parse().ok()?, state))
}

fn threads(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_gone_once_it_has_ended_and_not_before() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let started = start_and_state(child.id()).unwrap().0;
        assert!(!is_gone(child.id(), started) && is_gone(child.id(), started + 1));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_gone(child.id(), started));
        assert!(!is_gone(std::process::id(), own_start()));
    }
}
