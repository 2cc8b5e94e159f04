//! Stack of a program's main thread, which its caller bounds (`ulimit -s`).

use rustix::process::{Resource, getrlimit};
use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};

/// Stack size that a program counts on, in bytes: the default of Linux.
const STACK_BYTES: usize = 8 << 20;

/// Runs the work of a program's `main`, and returns its result. Blocks until it is done.
///
/// If the limit of the main thread's stack is below 8 MiB, the work runs on a thread with a stack
/// of 8 MiB, and a panic of it continues here. Otherwise it runs on the main thread: only a process
/// of one thread may enter a user namespace.
pub fn on_large_stack<T: Send + 'static>(work: fn() -> T) -> T {
    let is_small = |bytes: u64| bytes < STACK_BYTES as u64;
    if !getrlimit(Resource::Stack).current.is_some_and(is_small) {
        return call(work);
    }
    let thread = thread::Builder::new().name("main".into()).stack_size(STACK_BYTES).spawn(work);
    match thread.map(JoinHandle::join) {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => call(work), // the smaller stack may do
    }
}

/// Calls the work from a frame of its own: in the caller's, its variables would already take the
/// stack that is too small for them.
#[inline(never)]
fn call<T>(work: fn() -> T) -> T {
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_returns_its_result() {
        assert_eq!(on_large_stack(|| 7), 7);
    }
}
