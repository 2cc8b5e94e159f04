//! Suspension of other processes. The caller's own calls don't wait.

use crate::engine::checkpoint::{Request, ask, state};
use reef_cuda_abi::codes::*;

/// Exports functions that a locked process may call.
macro_rules! exports {
    ($($name:ident($pid:ident: i32, $args:ident: $type:ty) $body:block)+) => {
        $(
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($pid: i32, $args: $type) -> u32 $body
        )+
    };
}

exports! {
    cuCheckpointProcessGetState(pid: i32, to: *mut u32) {
        match state(pid) {
            Ok(state) => {
                // SAFETY: cuCheckpointProcessGetState demands that `to` may be written.
                unsafe { to.write(state) };
                SUCCESS
            }
            Err(code) => code,
        }
    }
    cuCheckpointProcessLock(pid: i32, args: *const u32) {
        // SAFETY: null, or `CUcheckpointLockArgs` as cuCheckpointProcessLock demands: the timeout,
        // and words that are reserved.
        let timeout = unsafe { args.as_ref() }.copied().unwrap_or(0);
        ask(pid, Request::Lock, if timeout == 0 { u32::MAX } else { timeout })
    }
    cuCheckpointProcessCheckpoint(pid: i32, _args: *const u64) {
        ask(pid, Request::Checkpoint, 0)
    }
    cuCheckpointProcessRestore(pid: i32, _args: *const u64) {
        ask(pid, Request::Restore, 0)
    }
    cuCheckpointProcessUnlock(pid: i32, _args: *const u64) {
        ask(pid, Request::Unlock, 0)
    }
}
