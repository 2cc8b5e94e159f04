//! Numbers of processes and threads in a folder, under which these start again.

use crate::error::Error;
use crate::record::Process;
use crate::written::proc::entries;
use reef_guest::limit::{ProcessStat, has_process_ended};
use std::fs;
use std::time::{Duration, Instant};

/// Maximum time in which the parent of an ended process waits for it, so that its number is free.
const REAP_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time in which a killed process ends: the system has to free its memory.
const END_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Numbers of processes and of their threads.
pub(crate) fn of(pids: &[u32]) -> Vec<u32> {
    let tasks = pids.iter().flat_map(|pid| entries(format!("/proc/{pid}/task")));
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// Blocks until killed processes have ended, for a minute at most.
pub(crate) fn wait_for_end(processes: &[Process]) {
    let begin = Instant::now();
    let has_ended = |process: &Process| has_process_ended(process.pid, process.start);
    while !processes.iter().all(has_ended) && begin.elapsed() < END_TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Checks that no process has one of these numbers. Blocks for two seconds at most, while a process
/// that has ended is waited for by its parent.
///
/// # Errors
///
/// `Criu`, with the number and the process that has it.
pub(crate) fn check(numbers: &[u32]) -> Result<(), Error> {
    let begin = Instant::now();
    while let Some((number, process)) = numbers.iter().find_map(|number| holder(*number)) {
        let has_ended = has_process_ended(process.pid, process.start);
        if !has_ended || begin.elapsed() >= REAP_TIMEOUT {
            return Err(taken(number, &process, has_ended));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// The process that has a number, or a thread of this number. `None`: there is none.
fn holder(number: u32) -> Option<(u32, Process)> {
    let status = fs::read(format!("/proc/{number}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    Some((number, Process::of(pid).ok()?))
}

fn taken(number: u32, process: &Process, has_ended: bool) -> Error {
    let shown = |process: &Process| format!("process {} ({})", process.pid, process.name());
    let parent = || Process::of(ProcessStat::of(process.pid).ok()?.parent).ok();
    let rest = if !has_ended {
        "a program starts under the numbers that it had".to_owned()
    } else if let Some(parent) = parent() {
        format!("ended, and its parent, {}, must wait for it", shown(&parent))
    } else {
        "ended, and its parent must wait for it".to_owned()
    };
    let why = format!("number {number} must be free, {} has it: {rest}", shown(process));
    Error::Criu { why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn number_of_a_running_process_or_thread_is_taken() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            let _ = ended.recv();
        });
        let task = told.recv().unwrap(); // such as 7/task/9
        let of_thread: u32 = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let own = std::process::id();
        let numbers = of(&[own]);
        for number in [own, of_thread] {
            assert!(numbers.contains(&number), "{number} of {numbers:?}");
            let error = check(&[number]).unwrap_err().to_string();
            let its = format!("number {number} must be free, process {own} (");
            assert!(error.starts_with(&its), "{error}");
        }
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    fn number_of_an_ended_process_is_free_once_it_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (numbers, process) = (of(&[child.id()]), Process::of(child.id()).unwrap());
        assert_eq!(numbers, [child.id()]);
        drop(child.stdin.take());
        wait_for_end(&[process]);
        let error = check(&numbers).unwrap_err().to_string();
        let parent = format!("its parent, process {} (", std::process::id());
        assert!(error.contains(" has it: ended, and ") && error.contains(&parent), "{error}");
        child.wait().unwrap();
        check(&numbers).unwrap();
    }
}
