//! Errors of a group.

use crate::api::State;
use crate::refusal::Refusal;
use reef_cuda_abi::codes::{NOT_PERMITTED, NOT_SUPPORTED};

/// Failure of a suspension or a return.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no driver here.
    #[error("{0}")]
    Absent(String),
    /// The driver is older than the calls.
    #[error("driver must be 570 or newer (CUDA 12.8), got one without {0}")]
    TooOld(&'static str),
    /// Not a process that this caller can suspend.
    #[error("process {pid}: {refusal}: it must be a running CUDA program of the same user")]
    NoProcess {
        /// Process number.
        pid: u32,
        /// The refused call.
        refusal: Refusal,
    },
    /// The process is in another state.
    #[error("process {pid} must be {want}, is {}", .have.name())]
    State {
        /// Process number.
        pid: u32,
        /// The state before this step.
        want: &'static str,
        /// Its state.
        have: State,
    },
    /// The work of the process did not end in time. It runs on.
    #[error(
        "process {pid}: its work on the GPU did not end within {seconds} s; it runs on; allow more with --timeout"
    )]
    Busy {
        /// Process number.
        pid: u32,
        /// The timeout.
        seconds: f64,
    },
    /// The driver can't save what the process has. It runs on.
    #[error(
        "process {pid}: {refusal}: the driver cannot suspend managed memory, memory opened from \
         another process, NCCL or clients of MPS; the process runs on"
    )]
    Unsupported {
        /// Process number.
        pid: u32,
        /// The refused call.
        refusal: Refusal,
    },
    /// The program can't move its own memory. It runs on, or stays as it is after a refused return.
    #[error("process {pid}: {why}")]
    NotSwapped {
        /// Process number.
        pid: u32,
        /// Its own words.
        why: String,
    },
    /// CRIU: absent, too old, or its own error.
    #[error("{why}")]
    Criu {
        /// The reason.
        why: String,
    },
    /// Too little memory for a return. The process stays suspended.
    #[error(
        "process {pid}: needs {need} MiB on GPU {device} with {margin} MiB to spare, {free} MiB are free"
    )]
    NoRoom {
        /// Process number.
        pid: u32,
        /// Ordinal of the GPU.
        device: usize,
        /// Memory at its suspension, in MiB.
        need: u64,
        /// Memory kept free, in MiB.
        margin: u64,
        /// Memory that is free now, in MiB.
        free: u64,
    },
    /// A call failed, and what was done before it was undone as far as `left` says.
    #[error("process {pid}: {refusal}; {left}")]
    Step {
        /// Process number.
        pid: u32,
        /// The refused call.
        refusal: Refusal,
        /// State of the group after it.
        left: String,
    },
    /// Another GPU refused the processes, which run again on the GPUs they had.
    #[error("{0}; it runs where it was")]
    NotMoved(String),
    /// A GPU that is not there.
    #[error("no GPU {name} (have: {have})")]
    NoDevice {
        /// The name asked for.
        name: String,
        /// Ordinals and identities of those that are there.
        have: String,
    },
    /// The records of suspended processes.
    #[error("{what}: {error}")]
    Record {
        /// File or folder.
        what: String,
        /// The system's error.
        error: std::io::Error,
    },
}

impl Error {
    /// A refused lock or checkpoint: why the process could not be suspended.
    pub(crate) fn of_suspension(pid: u32, refusal: Refusal, timeout: std::time::Duration) -> Self {
        match refusal.code {
            Refusal::NOT_READY => Self::Busy { pid, seconds: timeout.as_secs_f64() },
            NOT_SUPPORTED | NOT_PERMITTED => Self::Unsupported { pid, refusal },
            _ => Self::Step { pid, refusal, left: "it runs on".into() },
        }
    }
}
