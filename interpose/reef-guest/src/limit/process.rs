//! Liveness of a process, by its ID and its start time.

use std::fs;

/// Returns the start time of this process, in ticks since boot. Zero: unknown.
pub(super) fn own_start() -> u64 {
    start_of(std::process::id()).unwrap_or(0)
}

/// Returns the start time of a process, in ticks since boot. `None`: there is none of this number.
pub fn start_of(process: u32) -> Option<u64> {
    start_and_state(process).map(|(start, _)| start)
}

/// Returns whether a process has ended, as far as can be seen from here. A process of another
/// namespace looks ended or like a different one; its lock in the accounts file counts then.
pub fn is_gone(process: u32, started: u64) -> bool {
    match start_and_state(process) {
        None => true,
        Some((start, _)) if start != started => true,
        // The first thread has ended. Other threads may still run, and keep the memory.
        Some((_, 'Z' | 'X')) => threads(process) <= 1,
        Some(_) => false,
    }
}

/// Returns whether a process is stopped, by a signal or by a debugger.
pub(crate) fn is_stopped(process: u32) -> bool {
    start_and_state(process).is_some_and(|(_, state)| matches!(state, 'T' | 't'))
}

/// Reads fields 22 and 3 of `/proc/PID/stat` (proc_pid_stat(5)).
#[expect(clippy::disallowed_methods, reason = "of /proc")]
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
    fn process_is_gone_only_after_its_end() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let started = start_and_state(child.id()).unwrap().0;
        assert!(!is_gone(child.id(), started) && is_gone(child.id(), started + 1));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_gone(child.id(), started));
        assert!(!is_gone(std::process::id(), own_start()));
    }
}
