//! Start of a process, so that it ends with the thread that starts it.

#![allow(unsafe_code)] // calls between fork and exec

use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Starts a process with this standard input, in a process group of its own. Both outputs go to
/// `output`. The system kills it when the calling thread ends.
///
/// A process of another user has that user's own group alone: the standard library takes the
/// daemon's groups away before it changes the user, but goes on if the system refuses that.
///
/// # Errors
///
/// Errors of the system: a program that is not there, a limit; `EPERM` if another user would have
/// groups of the daemon.
pub(super) fn spawn(mut command: Command, input: OwnedFd, output: OwnedFd) -> io::Result<Child> {
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
    command.stdout(Stdio::from(output)).stderr(Stdio::from(errors)).spawn()
}

/// Number of supplementary groups of this process; -1 if the system does not say it.
fn group_count() -> i32 {
    // SAFETY: without room for any, the call writes nothing.
    unsafe { libc::getgroups(0, std::ptr::null_mut()) }
}

/// Returns the process, which leads its group.
pub(super) fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}
