//! Bounds of a process, and its descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a worker may have.
const MAX_DESCRIPTORS: u64 = 8192;
/// Threads of a worker whose user has no other process.
const MAX_THREADS: u64 = 4096;

/// Closes descriptors that the process was not given on purpose, and bounds what it may have. Its
/// address space has no bound: the driver reserves more than any machine has.
///
/// # Errors
///
/// An error of the system, as a text.
pub(crate) fn limit(has_own_user: bool) -> Result<(), String> {
    close_others();
    bound(Resource::Core, 0)?;
    bound(Resource::Nofile, MAX_DESCRIPTORS)?;
    if has_own_user {
        bound(Resource::Nproc, MAX_THREADS)?; // of all processes of a user together
    }
    Ok(())
}

fn bound(what: Resource, most: u64) -> Result<(), String> {
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let Rlimit { current, maximum } = getrlimit(what);
    let limit = Rlimit { current: least(current), maximum: least(maximum) };
    setrlimit(what, limit).map_err(|e| format!("bound of {what:?}: {e}"))
}

/// Closes all but input, output and messages. What the server opens is closed in other programs by
/// itself; this is for what it got from others.
fn close_others() {
    // SAFETY: nothing of this process has opened a descriptor yet. An old system has no such call.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}
