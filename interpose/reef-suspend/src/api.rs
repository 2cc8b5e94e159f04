//! The driver's calls, as the rest of the crate sees them.

use crate::refusal::Refusal;
use std::time::Duration;

/// Identity of a GPU.
pub type Uuid = [u8; 16];

/// State of a CUDA process (`CUprocessState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// Its calls of the driver wait.
    Locked,
    /// It has nothing on a GPU; its calls wait.
    Suspended,
    /// The driver lost it: it never runs again.
    Failed,
}

impl State {
    /// The state in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Locked => "locked",
            Self::Suspended => "suspended",
            Self::Failed => "failed",
        }
    }
}

/// A GPU that a process had, and the GPU that it gets.
#[repr(C)] // `CUcheckpointGpuPair`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The GPU at the checkpoint.
    pub from: Uuid,
    /// The GPU of the restore. It must be of the same chip.
    pub to: Uuid,
}

/// The five calls of the driver on another process. Each blocks until it is done.
pub trait Api: Send + Sync {
    /// Returns the state of a process.
    ///
    /// # Errors
    ///
    /// `pid` is not a CUDA process, or belongs to another user.
    fn state(&self, pid: u32) -> Result<State, Refusal>;

    /// Makes new calls of the process wait, then waits until its work is done.
    ///
    /// # Errors
    ///
    /// `NotReady`: the work did not end within `timeout`; the process runs on.
    fn lock(&self, pid: u32, timeout: Duration) -> Result<(), Refusal>;

    /// Copies the device memory of a locked process to the host and frees it.
    ///
    /// # Errors
    ///
    /// `NotSupported`: the process has something that the driver can't save. It stays locked.
    fn checkpoint(&self, pid: u32) -> Result<(), Refusal>;

    /// Brings a suspended process back, locked. `pairs` names every GPU it had, or is empty.
    ///
    /// # Errors
    ///
    /// Too little memory: the process is lost.
    fn restore(&self, pid: u32, pairs: &[Pair]) -> Result<(), Refusal>;

    /// Lets the calls of a locked process go on.
    ///
    /// # Errors
    ///
    /// The process is not locked.
    fn unlock(&self, pid: u32) -> Result<(), Refusal>;
}
