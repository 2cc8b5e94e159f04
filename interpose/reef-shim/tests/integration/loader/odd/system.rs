//! Programs that use the system oddly: processes, signals, files.

use super::super::folder;
use super::Program;
use super::work::OF_ALL;
use crate::common::{self, Work, call, until};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Launches, and becomes a program that does so again.
pub(super) fn exec(program: &Program) -> String {
    program.launch_some(100);
    if std::env::var_os("REEF_TEST_AGAIN").is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(std::env::args_os().skip(1)).env("REEF_TEST_AGAIN", "1");
        panic!("{}", std::os::unix::process::CommandExt::exec(&mut again));
    }
    program.value().to_string()
}

/// Uses what a child may use: nothing, and is told so.
fn child(program: &Program) -> ! {
    let (driver, work) = (program.driver, &program.work);
    let mut exec = 0_usize;
    let codes = [
        program.launch(),
        call!(driver, cuStreamSynchronize(work.stream)),
        call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, 1, 0)),
        call!(driver, cuCtxSynchronize()),
        call!(driver, cuStreamDestroy_v2(work.stream)),
        call!(driver, cuInit(0)),
    ];
    // SAFETY: ends this process and runs nothing else.
    unsafe { libc::_exit(i32::from(codes != [3; 6])) };
}

pub(super) fn forks(program: &Program) -> String {
    program.launch_some(1);
    let is_over = AtomicBool::new(false);
    let codes: Vec<i32> = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                assert_eq!(call!(program.driver, cuCtxSetCurrent(1)), 0);
                while !is_over.load(SeqCst) {
                    let Work { stream, memory, mix } = program.driver.work(8);
                    let launch = || program.driver.launch("cuLaunchKernel", mix, stream, memory, 1);
                    (0..10).for_each(|_| assert_eq!(launch(), 0));
                    assert_eq!(call!(program.driver, cuStreamDestroy_v2(stream)), 0);
                }
            });
        }
        let codes = (0..30).map(|_| forked(|| child(program))).collect();
        is_over.store(true, SeqCst);
        codes
    });
    format!("{codes:?}")
}

/// Returns the result of a child.
fn forked(child: impl FnOnce()) -> i32 {
    // SAFETY: the child calls what children may, and ends.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::alarm(20);
            child();
            libc::_exit(9);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
        status
    }
}

pub(super) fn spawns(program: &Program) -> String {
    for _ in 0..10 {
        program.launch_some(20);
        assert!(Command::new("true").status().unwrap().success());
    }
    program.value().to_string()
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_signal(_: i32) {
    SIGNALS.fetch_add(1, SeqCst);
}

/// Signals come every millisecond, to threads of the program's, in calls that wait.
pub(super) fn signals(program: &Program) -> String {
    let often = libc::timeval { tv_sec: 0, tv_usec: 1000 };
    let often = libc::itimerval { it_interval: often, it_value: often };
    // SAFETY: a handler that touches an atomic alone.
    unsafe {
        libc::signal(libc::SIGALRM, count_signal as *const () as usize);
        libc::setitimer(libc::ITIMER_REAL, &raw const often, std::ptr::null_mut());
    }
    program.launch_some(600);
    let value = program.value();
    until("signals", || SIGNALS.load(SeqCst) > 10);
    value.to_string()
}

/// Closes all files but the standard ones, and opens others in their places, which no other thread
/// writes to or closes.
pub(super) fn files(program: &Program) -> String {
    let folder = folder("odd-files");
    program.launch_some(100);
    // SAFETY: this program uses none of them any more.
    (3..1024).for_each(|number| unsafe {
        libc::close(number);
    });
    let files: Vec<_> = (0..20)
        .map(|at| {
            std::fs::File::options()
                .create_new(true)
                .write(true)
                .read(true)
                .open(folder.join(at.to_string()))
        })
        .collect::<Result<_, _>>()
        .unwrap();
    (0..20).for_each(|_| {
        program.launch_some(50);
        program.wait();
        std::thread::sleep(Duration::from_millis(1)); // sleep: pace of the launches
    });
    let untouched =
        files.iter().filter(|file| file.metadata().is_ok_and(|about| about.len() == 0)).count();
    std::fs::remove_dir_all(&folder).unwrap();
    format!("{untouched} {}", program.value())
}

/// As [`files`], where `close_range` is unknown, as before Linux 5.9. It stays known in a container
/// that forbids the calls in its place.
pub(super) fn old_files(program: &Program) -> String {
    // SAFETY: the table of files of a thread that ends.
    let unshares = std::thread::spawn(|| unsafe { libc::unshare(libc::CLONE_FILES) } == 0);
    if !unshares.join().unwrap() {
        return files(program);
    }
    let rule = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    // Reads the number of a call, passes over the next rule if it is another one, and answers.
    let mut rules = [
        rule(0x20, 0, 0),
        rule(0x15, 1, libc::SYS_close_range as u32),
        rule(0x06, 0, unknown),
        rule(0x06, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 4, filter: rules.as_mut_ptr() };
    // SAFETY: numbers, and rules that live as long as the call. A system that refuses is as new as
    // it is.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_usize, 0_usize, 0_usize, 0_usize);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER as usize,
            &raw const filter,
            0_usize,
            0_usize,
        );
    }
    files(program)
}

/// The first launch comes when no file can be opened any more.
pub(super) fn no_files(program: &Program) -> String {
    let few = libc::rlimit { rlim_cur: 8, rlim_max: 8 };
    let mut last = 0;
    // SAFETY: a limit, and files that stay open.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few), 0);
        while let more @ 0.. = libc::dup(2) {
            last = more;
        }
    }
    program.launch_some(200);
    let value = program.value();
    // SAFETY: opened above; the report needs a place.
    unsafe { libc::close(last) };
    value.to_string()
}

/// Runs in an empty folder as root, if the system allows that, and without variables.
pub(super) fn nowhere(program: &Program) -> String {
    let folder = folder("odd-root");
    let path = std::ffi::CString::new(folder.to_str().unwrap()).unwrap();
    // SAFETY: this thread is alone; strings of ours.
    unsafe {
        libc::clearenv();
        libc::chroot(path.as_ptr());
        libc::chdir(c"/".as_ptr());
    }
    program.launch_some(200);
    program.value().to_string()
}

/// The process ends while a thread waits for its turn.
pub(super) fn ends(program: &Program) -> String {
    OF_ALL.store(std::ptr::from_ref(program) as usize, SeqCst);
    std::thread::spawn(|| {
        // SAFETY: the address that was stored above: `program` lives until the process ends, and
        // this thread with it.
        let program = unsafe { &*(OF_ALL.load(SeqCst) as *const Program) };
        assert_eq!(call!(program.driver, cuCtxSetCurrent(1)), 0);
        loop {
            program.launch_some(1);
        }
    });
    std::thread::sleep(Duration::from_millis(20)); // sleep: any length is right
    println!("odd: over");
    std::process::exit(0);
}
