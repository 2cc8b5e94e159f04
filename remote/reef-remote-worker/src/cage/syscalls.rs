//! Calls of the system that a worker may not make. All others it may: the driver's change with its
//! releases.

use libc::*;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{MaskedEq, Ne};
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

/// Bit of the numbers by which programs of x32 make the same calls.
const X32: c_long = 0x4000_0000;

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

fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let own = std::process::id().into();
    let other_family = vec![SeccompCondition::new(0, Dword, Ne, FAMILY as u64)?];
    let others = || Ok(vec![SeccompCondition::new(0, Dword, Ne, own)?]);
    let thread = CLONE_THREAD as u64;
    let process = vec![SeccompCondition::new(0, Qword, MaskedEq(thread), 0)?];
    let some = [
        (SYS_socket, other_family),
        (SYS_clone, process),
        (SYS_kill, others()?),
        (SYS_tgkill, others()?),
        (SYS_rt_tgsigqueueinfo, others()?),
    ];
    let mut rules = BTreeMap::new();
    for call in REFUSED.iter().chain(REFUSED_HERE).flat_map(|call| numbers(*call)) {
        rules.insert(call, Vec::new());
    }
    for (call, conditions) in some {
        for number in numbers(call) {
            rules.insert(number, vec![SeccompRule::new(conditions.clone())?]);
        }
    }
    Ok(rules)
}

/// Calls that the process takes for missing. What `clone3` is to do stands in memory, where no
/// filter sees it: threads begin by `clone`.
fn unseen() -> BTreeMap<i64, Vec<SeccompRule>> {
    numbers(SYS_clone3).map(|call| (call, Vec::new())).collect()
}
