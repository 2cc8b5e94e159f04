//! What is asked of a device's processes.

use crate::error::Error;
use std::fmt;

/// What names a device, or a MIG instance of one.
pub type Uuid = [u8; 16];

/// A process on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number, in the system's first namespace.
    pub pid: u32,
    /// The device memory that it has, in bytes. `None`: the driver doesn't say.
    pub memory: Option<u64>,
}

/// How much a process used a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Its number, in the system's first namespace.
    pub pid: u32,
    /// Per cent of the time in which its kernels ran, of the driver's last sample.
    pub percent: u32,
    /// When the sample was taken, in microseconds of the driver's clock.
    pub at: u64,
}

/// Whoever knows what processes have of devices.
pub trait Monitor: fmt::Debug + Send + Sync {
    /// The processes that have something of a device.
    ///
    /// # Errors
    ///
    /// It isn't known, as on MIG instances and under WSL.
    fn processes(&self, device: &Uuid) -> Result<Vec<Process>, Error>;

    /// How much processes used a device, in samples after `since`, which is a sample's `at`; one of
    /// each process.
    ///
    /// # Errors
    ///
    /// It isn't known.
    fn busy(&self, device: &Uuid, since: u64) -> Result<Vec<Busy>, Error>;
}
