//! The last step: from here on the process has what it has.

use super::syscalls;

/// Refuses the process calls of the system that it never needs, in all of its threads, and new
/// rights by programs that it starts. The driver is open: it may start NVIDIA's helper before.
///
/// # Errors
///
/// An error of the system, as a text.
pub(crate) fn close() -> Result<(), String> {
    for filter in syscalls::filters().map_err(|e| format!("system calls: {e}"))? {
        let applied = seccompiler::apply_filter_all_threads(&filter);
        applied.map_err(|e| format!("system calls: {e}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Calls that are tried, and the codes that they end with.
    fn tried() -> Vec<(&'static str, Option<i32>)> {
        let code = |result: i64| (result < 0).then(std::io::Error::last_os_error);
        let code = |result| code(result).and_then(|error| error.raw_os_error());
        let path = c"/bin/true".as_ptr();
        // SAFETY: arguments that are right or null, of calls that are refused or ask only, or that
        // name what is not there.
        unsafe {
            let (parent, own) = (libc::getppid(), libc::getpid());
            let limits =
                |of: libc::pid_t| libc::syscall(libc::SYS_prlimit64, of, libc::RLIMIT_CPU, 0, 0);
            let absent = 0x7fff_fff0; // no user and no process has this number
            let one = libc::PRIO_PROCESS;
            vec![
                ("execve", code(libc::syscall(libc::SYS_execve, path, 0, 0))),
                ("ptrace", code(libc::syscall(libc::SYS_ptrace, 0, 0, 0, 0))),
                ("unshare", code(libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUTS))),
                ("io_uring", code(libc::syscall(libc::SYS_io_uring_setup, 1, 0))),
                ("process", code(libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0))),
                ("clone3", code(libc::syscall(libc::SYS_clone3, 0, 0))),
                ("netlink", code(libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0).into())),
                ("kill", code(libc::kill(libc::getppid(), 0).into())),
                ("group", code(libc::kill(0, 0).into())),
                ("limits of another", code(limits(parent))),
                ("own limits", code(limits(0))),
                ("owner", code(libc::fcntl(0, libc::F_SETOWN, own).into())),
                ("owner by ioctl", code(libc::ioctl(0, 0x8901, &raw const own).into())),
                ("signal", code(libc::fcntl(0, 10, 0).into())),
                ("descriptor", code(libc::fcntl(1, libc::F_GETFD).into())),
                ("nice of another", code(libc::setpriority(one, absent, 19).into())),
                ("ionice of another", code(libc::syscall(libc::SYS_ioprio_set, 1, absent, 0))),
                ("own nice", code(libc::setpriority(one, 0, libc::getpriority(one, 0)).into())),
                ("nice", code(libc::setpriority(libc::PRIO_USER, absent, 0).into())),
                ("ionice", code(libc::syscall(libc::SYS_ioprio_set, 3, absent, 0))),
                ("x32", code(libc::syscall(0x4000_0000 | 514, -1, 0, 0))),
                ("unix", code(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).into())),
                ("inet", code(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into())),
                ("inet6", code(libc::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0).into())),
                ("vsock", code(libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).into())),
                ("itself", code(libc::kill(libc::getpid(), 0).into())),
                ("memfd", code(libc::memfd_create(c"x".as_ptr(), 0).into())),
            ]
        }
    }

    #[test]
    #[ignore = "is the process that the other test starts"]
    fn caged() {
        // A thread from before is in the cage too.
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let early = std::thread::spawn(move || asked.recv().map(|()| tried()));
        close().unwrap();
        ask.send(()).unwrap();
        let early = early.join().unwrap().unwrap();
        assert_eq!(early, tried());
        // Threads still begin.
        assert_eq!(std::thread::spawn(tried).join().unwrap(), early);
        early.into_iter().for_each(|(call, code)| println!("{call} {code:?}"));
    }

    #[test]
    fn caged_process_starts_nothing_and_reaches_no_other() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cage::close::tests::caged", "--ignored", "--nocapture"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        let refused = ["execve", "ptrace", "unshare", "io_uring", "process", "kill", "group"];
        let ways = ["limits of another", "owner", "owner by ioctl", "signal", "nice", "ionice"];
        let x32: &[&str] = if cfg!(target_arch = "x86_64") { &["x32"] } else { &[] };
        let others = ["nice of another", "ionice of another"];
        let sockets = ["netlink", "inet", "inet6", "vsock"];
        for call in refused.iter().chain(&ways).chain(&others).chain(x32).chain(&sockets) {
            assert!(said.contains(&format!("{call} Some(1)")), "{call}: {said}");
        }
        assert!(said.contains("clone3 Some(38)"), "threads begin the old way: {said}");
        for call in ["unix", "itself", "memfd", "own limits", "own nice", "descriptor"] {
            assert!(said.contains(&format!("{call} None")), "{call}: {said}");
        }
    }
}
