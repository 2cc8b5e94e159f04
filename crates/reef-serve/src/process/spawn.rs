//! Start of a process, so that it ends with the thread that starts it.

#![allow(unsafe_code)] // one call between fork and exec

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Starts a process with this standard input, in a process group of its own. Both outputs go to
/// `output`. The system kills it when the calling thread ends.
///
/// # Errors
///
/// Errors of the system: a program that is not there, a limit.
pub(super) fn spawn(mut command: Command, input: OwnedFd, output: OwnedFd) -> io::Result<Child> {
    let errors = output.try_clone()?;
    let parent = getpid();
    let end_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the call above.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls, and neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(end_with_parent) };
    command.process_group(0).stdin(Stdio::from(input));
    command.stdout(Stdio::from(output)).stderr(Stdio::from(errors)).spawn()
}

/// Returns the process, which leads its group.
pub(super) fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}
