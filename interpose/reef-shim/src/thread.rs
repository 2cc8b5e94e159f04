//! Threads of this library in the program's process.

use crate::driver::state::Inside;
use std::fs::DirEntry;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread::{Builder, Thread};

/// Starts a thread. All signals are blocked in it, so that they go to the program's own threads.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    // SAFETY: sets of signals of ours; the old one is put back.
    let old = unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let started = Builder::new().name(name.into()).spawn(|| {
        let _inside = Inside::always();
        run();
    });
    // SAFETY: the set that was there before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    started.map(|thread| thread.thread().clone())
}

/// Gives this thread a table of file descriptors of its own, with nothing of the program's in it.
///
/// So a program that closes unknown descriptors, counts open ones or has a low limit finds none of
/// ours, a child process inherits none of ours, and we keep no file of the program open. Such a
/// thread must not call the driver, whose files are in the program's table. A sandbox that refuses
/// leaves the table shared.
pub(crate) fn leave_files() {
    leave_files_but(None);
}

/// Leaves the program's files as [`leave_files`] does, but keeps one. Returns false if the system
/// refused: the table is shared.
pub(crate) fn leave_files_but(kept: Option<BorrowedFd<'_>>) -> bool {
    const UNSHARE: u32 = 2; // CLOSE_RANGE_UNSHARE
    // SAFETY: closes what is in this thread's table alone, whose only file of ours is kept.
    let close = |from: i32, to: i32| unsafe {
        from > to || libc::syscall(libc::SYS_close_range, from, to, UNSHARE) == 0
    };
    let kept = kept.map_or(-1, |kept| kept.as_raw_fd());
    let is_own = close(0, kept - 1) && close(kept + 1, i32::MAX) || close_each_but(kept);
    if is_own {
        // Output of this thread (of a panic) must not go to the daemon. SAFETY: new files, at the
        // three lowest places.
        (0..3).for_each(|_| unsafe {
            libc::eventfd(0, libc::EFD_NONBLOCK);
        });
    }
    is_own
}

/// Leaves the program's files one by one, where there is no `close_range` (before Linux 5.9).
/// Returns false if the table is shared.
fn close_each_but(kept: i32) -> bool {
    // A table that can't be listed would keep the program's files open.
    let Ok(shared) = open_files() else { return false };
    // SAFETY: this thread's table of files becomes a copy, and nothing else changes.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    for number in open_files().unwrap_or(shared).into_iter().filter(|number| *number != kept) {
        // SAFETY: in this thread's table alone, none of whose other files is ours.
        unsafe { libc::close(number) };
    }
    true
}

/// Returns the numbers of this thread's open files.
fn open_files() -> io::Result<Vec<i32>> {
    let number = |file: io::Result<DirEntry>| file.ok()?.file_name().to_str()?.parse().ok();
    Ok(std::fs::read_dir("/proc/thread-self/fd")?.filter_map(number).collect())
}

/// Returns a number of this thread: the address of a word of its own.
pub(crate) fn number() -> usize {
    thread_local!(static WORD: u8 = const { 0 });
    WORD.with(|word| std::ptr::from_ref(word) as usize)
}
