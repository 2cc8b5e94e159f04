//! Watch over moves of models' processes.

use parking_lot::Mutex;
use reef_suspend::Process;
use rustix::process::{Pid, Signal, kill_process_group};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Maximum time of a move. The memory of eight GPUs, 1.1 TiB, takes ten minutes if the driver
/// copies it, at 2 GB/s (driver 580, H200).
pub(super) const MOVE_TIMEOUT: Duration = Duration::from_secs(1800);

/// Processes whose moves have not ended. Each leads a group.
#[derive(Debug)]
pub(super) struct Moving(Mutex<Vec<Process>>);

impl Moving {
    pub(super) fn new(pids: &[u32]) -> Self {
        Self(Mutex::new(pids.iter().filter_map(|pid| Process::of(*pid).ok()).collect()))
    }

    /// Notes the end of a process's move.
    pub(super) fn end(&self, pid: u32) {
        self.0.lock().retain(|process| process.pid != pid);
    }

    /// Runs the moves. After `time`, kills the group of the first process whose move has not ended;
    /// after the same time again that of the next one. A stopped process would answer nothing, and
    /// the moves of all others wait for its own.
    pub(super) fn watch<T>(&self, time: Duration, work: impl FnOnce() -> T) -> T {
        let (end, ended) = channel::<()>();
        thread::scope(|scope| {
            let watch = move || {
                while ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                    let Some(process) = self.take_first() else { return };
                    kill(process);
                }
            };
            // Without a thread the moves have all the time that they take.
            let _ = thread::Builder::new().name("reef-moves".into()).spawn_scoped(scope, watch);
            let made = work();
            drop(end);
            made
        })
    }

    fn take_first(&self) -> Option<Process> {
        let mut all = self.0.lock();
        (!all.is_empty()).then(|| all.remove(0))
    }
}

fn kill(process: Process) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| process.is_alive()) {
        let number = process.pid;
        tracing::error!(pid = number, "the process is killed: its move to or off the GPU hangs");
        let _ = kill_process_group(pid, Signal::KILL); // it may have ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command, Stdio};

    /// A process that waits for the end of its input.
    fn start() -> Child {
        Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap()
    }

    #[test]
    fn process_whose_move_hangs_is_killed() {
        let (mut hangs, mut moved) = (start(), start());
        let moving = Moving::new(&[moved.id(), hangs.id()]);
        moving.end(moved.id());
        let _input = hangs.stdin.take(); // a wait would close it
        let status = moving.watch(Duration::from_millis(1), || hangs.wait().unwrap());
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(moved.try_wait().unwrap(), None, "it has moved");
        assert!(moved.wait().unwrap().success(), "its input has ended");
    }

    #[test]
    fn move_that_ends_is_left_alone() {
        let mut moves = start();
        let moving = Moving::new(&[moves.id()]);
        assert_eq!(moving.watch(MOVE_TIMEOUT, || 7), 7, "at once");
        assert!(moves.wait().unwrap().success(), "its input has ended");
    }
}
