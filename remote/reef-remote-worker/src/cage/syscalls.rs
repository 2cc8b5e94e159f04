//! Calls of the system that a worker may not make. All others it may: the driver's change with its
//! releases.

use libc::*;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Calls that end with `EPERM`.
const REFUSED: &[c_long] = &[
    // Programs, and the memory and descriptors of other processes.
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_pidfd_getfd,
    SYS_kcmp,
    SYS_tkill,
    SYS_pidfd_send_signal,
    SYS_rt_sigqueueinfo,
    // Other users and rights.
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_setgroups,
    SYS_capset,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // File systems and namespaces.
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_open_by_handle_at,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
    // The kernel itself.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_acct,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_syslog,
    // Parts of the kernel that many holes were in.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_vmsplice,
];

/// As above, of this architecture.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[SYS_fork, SYS_vfork, SYS_iopl, SYS_ioperm, SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// Family of sockets: the server's, a daemon's, and those of commands, which connect a session that
/// moves to the other server.
const FAMILY: c_int = AF_UNIX;

/// Bit of the numbers by which programs of x32 make the same calls, and the numbers of those with
/// structs of their own, such as `execve`.
const X32: c_long = 0x4000_0000;
const X32_ALONE: (c_long, c_long) = (512, 547);

/// Commands of `fcntl` (`F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`) and `ioctl` (`FIOSETOWN`,
/// `SIOCSPGRP`) that choose the process that gets a file's signals, and the signal. They take each
/// process of the same user, and `SIGKILL`.
const SET_OWNER: [u64; 3] = [8, 10, 15];
const SET_OWNER_BY_IOCTL: [u64; 2] = [0x8901, 0x8902];
/// `PRIO_PROCESS` and `IOPRIO_WHO_PROCESS`: the other kinds mean groups and users. The calling
/// thread is zero of them; other numbers may be another process's.
const ONE_PROCESS: [u64; 2] = [0, 1];

type Result<T> = std::result::Result<T, BackendError>;

/// Returns the filters, each for one code.
///
/// # Errors
///
/// This architecture is not known.
pub(super) fn filters() -> Result<[BpfProgram; 2]> {
    Ok([program(refused()?, EPERM)?, program(unseen(), ENOSYS)?])
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, code: c_int) -> Result<BpfProgram> {
    let action = SeccompAction::Errno(code as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
}

/// Numbers of a call.
fn numbers(call: c_long) -> impl Iterator<Item = i64> {
    [call, call | X32].into_iter().take(if cfg!(target_arch = "x86_64") { 2 } else { 1 })
}

/// Rule for an argument that has another value.
fn unless(at: u8, value: u64) -> Result<SeccompRule> {
    SeccompRule::new(vec![SeccompCondition::new(at, Dword, Ne, value)?])
}

/// Rules for an argument that has one of these values.
fn if_any(at: u8, values: &[u64]) -> Result<Vec<SeccompRule>> {
    let rule = |value: &u64| SeccompRule::new(vec![SeccompCondition::new(at, Dword, Eq, *value)?]);
    values.iter().map(rule).collect()
}

fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let own = u64::from(std::process::id());
    let thread = CLONE_THREAD as u64;
    let process = SeccompRule::new(vec![SeccompCondition::new(0, Qword, MaskedEq(thread), 0)?])?;
    let other = unless(0, own)?;
    // By zero a process names itself.
    let named = SeccompRule::new(vec![
        SeccompCondition::new(0, Dword, Ne, own)?,
        SeccompCondition::new(0, Dword, Ne, 0)?,
    ])?;
    let some = [
        (SYS_socket, vec![unless(0, FAMILY as u64)?]),
        (SYS_clone, vec![process]),
        (SYS_kill, vec![other.clone()]),
        (SYS_tgkill, vec![other.clone()]),
        (SYS_rt_tgsigqueueinfo, vec![other]),
        (SYS_fcntl, if_any(1, &SET_OWNER)?),
        (SYS_ioctl, if_any(1, &SET_OWNER_BY_IOCTL)?),
        (SYS_prlimit64, vec![named.clone()]),
        (SYS_migrate_pages, vec![named.clone()]),
        (SYS_move_pages, vec![named]),
        (SYS_setpriority, vec![unless(0, ONE_PROCESS[0])?, unless(1, 0)?]),
        (SYS_ioprio_set, vec![unless(0, ONE_PROCESS[1])?, unless(1, 0)?]),
    ];
    let mut rules = BTreeMap::new();
    for call in REFUSED.iter().chain(REFUSED_HERE).flat_map(|call| numbers(*call)) {
        rules.insert(call, Vec::new());
    }
    for (call, of_call) in some {
        for number in numbers(call) {
            rules.insert(number, of_call.clone());
        }
    }
    if cfg!(target_arch = "x86_64") {
        let (first, last) = X32_ALONE;
        rules.extend((first..=last).map(|number| (number | X32, Vec::new())));
    }
    Ok(rules)
}

/// Calls that the process takes for missing. What `clone3` is to do stands in memory, where no
/// filter sees it: threads begin by `clone`.
fn unseen() -> BTreeMap<i64, Vec<SeccompRule>> {
    numbers(SYS_clone3).map(|call| (call, Vec::new())).collect()
}
