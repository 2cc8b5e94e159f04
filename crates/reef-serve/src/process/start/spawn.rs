//! Start of a process, so that it ends with the thread that starts it.

#![allow(unsafe_code)] // calls between fork and exec

use crate::error::{Error, Result};
use reef_suspend::Streams;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, geteuid, getpid, getppid, kill_process,
    kill_process_group, set_parent_process_death_signal, waitid, waitpid,
};
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Ends of a socket pair and of a pipe, for the daemon and for a process that is about to start.
pub(in crate::process) struct Ends {
    /// The daemon's end of the conversation. It does not block.
    pub(in crate::process) ours: UnixStream,
    /// Outputs of the process.
    pub(in crate::process) output: PipeReader,
    /// The process's ends.
    pub(in crate::process) theirs: (OwnedFd, OwnedFd),
}

impl Ends {
    /// Makes them.
    ///
    /// # Errors
    ///
    /// `Failed` if there are no descriptors left.
    pub(in crate::process) fn new() -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().map_err(|e| Error::system("a socket", e))?;
        ours.set_nonblocking(true).map_err(|e| Error::system("a socket", e))?;
        let (output, write) = io::pipe().map_err(|e| Error::system("a pipe", e))?;
        Ok(Self { ours, output, theirs: (theirs.into(), write.into()) })
    }

    /// Returns the identities of the process's ends.
    ///
    /// # Errors
    ///
    /// `Failed` if the system does not say them.
    pub(in crate::process) fn streams(&self) -> Result<Streams> {
        let inode = |end: &OwnedFd| fstat(end).map(|facts| facts.st_ino);
        let failed = |error: Errno| Error::system("a stream", error);
        let (socket, pipe) = &self.theirs;
        Ok(Streams { socket: inode(socket).map_err(failed)?, pipe: inode(pipe).map_err(failed)? })
    }
}

/// A child that was started.
#[derive(Debug)]
pub(in crate::process) enum Started {
    Cold(Child),
    /// From a folder.
    Warm(Pid),
}

impl Started {
    /// Returns the process, which leads its group.
    pub(in crate::process) fn pid(&self) -> Option<Pid> {
        match self {
            Self::Cold(child) => Pid::from_raw(i32::try_from(child.id()).ok()?),
            Self::Warm(pid) => Some(*pid),
        }
    }

    /// Waits for its end. Returns how it ended, in words.
    pub(in crate::process) fn wait(self) -> String {
        let status = match self {
            Self::Cold(mut child) => child.wait(),
            Self::Warm(pid) => wait(pid),
        };
        status.map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

fn wait(pid: Pid) -> io::Result<ExitStatus> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills a process that a refused start of this thread may have left, with its group, and waits for
/// its end. A process of this number that is not a child of this thread is another one, and stays.
pub(in crate::process) fn reap(pid: Pid) {
    let of_this_thread = WaitIdOptions::from_bits_retain(libc::__WNOTHREAD.cast_unsigned());
    let polled = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let options = polled | of_this_thread;
    if waitid(WaitId::Pid(pid), options).is_ok() {
        let _ = kill_process_group(pid, Signal::KILL); // it may have none yet
        let _ = kill_process(pid, Signal::KILL); // it may have ended
        let _ = wait(pid);
    }
}

/// Starts a process with these ends as its standard input and its outputs, in a process group of
/// its own. The system kills it when the calling thread ends.
///
/// A process of another user has that user's own group alone: the standard library takes the
/// daemon's groups away before it changes the user, but goes on if the system refuses that.
///
/// # Errors
///
/// Errors of the system: a program that is not there, a limit; `EPERM` if another user would have
/// groups of the daemon.
pub(in crate::process) fn spawn(
    mut command: Command,
    ends: (OwnedFd, OwnedFd),
) -> io::Result<Started> {
    let (input, output) = ends;
    let errors = output.try_clone()?;
    let (parent, user) = (getpid(), geteuid());
    let prepare = move || -> io::Result<()> {
        // A change of the user, which came before, would cancel it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            return Err(io::ErrorKind::NotFound.into()); // it ended before the call above
        }
        if geteuid() != user && group_count() != 0 {
            return Err(Errno::PERM.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls alone, none of which allocates
    // or takes a lock.
    unsafe { command.pre_exec(prepare) };
    command.process_group(0).stdin(Stdio::from(input));
    command.stdout(Stdio::from(output)).stderr(Stdio::from(errors)).spawn().map(Started::Cold)
}

/// Number of supplementary groups of this process; -1 if the system does not say it.
fn group_count() -> i32 {
    // SAFETY: without room for any, the call writes nothing.
    unsafe { libc::getgroups(0, std::ptr::null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// As another supervisor's process that has got the number of one that did not start.
    #[test]
    fn child_of_another_thread_is_not_reaped() {
        let start = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut other = start();
        std::thread::scope(|scope| scope.spawn(|| reap(pid_of(&other))).join().unwrap());
        assert!(other.wait().unwrap().success(), "it lived until its input ended");
        let mut own = start();
        reap(pid_of(&own));
        let error = own.wait().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD), "it has been waited for");
    }

    /// As when a start was refused after all of its processes were there.
    #[test]
    fn group_of_a_refused_start_is_killed() {
        // A shell gives programs in its background no input of its own.
        let script = "exec 3<&0; cat <&3 & echo; wait";
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        };
        let mut leader = start();
        let mut output = leader.stdout.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        reap(pid_of(&leader));
        output.read_to_end(&mut Vec::new()).unwrap(); // until all of the group have ended
        leader.wait().unwrap_err(); // it has been waited for
    }

    fn pid_of(child: &Child) -> Pid {
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
    }
}
