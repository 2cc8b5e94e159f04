//! Monitor: the source of the memory and utilization of a device's processes.

use crate::error::Error;
use std::fmt;

/// UUID of a device, or of a MIG instance.
pub type Uuid = [u8; 16];

/// A process on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number, in the system's first namespace.
    pub pid: u32,
    /// The device memory that it has, in bytes. `None`: the driver doesn't say.
    pub memory: Option<u64>,
}

/// Utilization of a device by a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Its number, in the system's first namespace.
    pub pid: u32,
    /// Per cent of the time in which its kernels ran, of the driver's last sample.
    pub percent: u32,
    /// Time of the sample, in microseconds of the driver's clock.
    pub at: u64,
}

/// State of a device at one moment. `None`: the driver doesn't say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Per cent of the time of the driver's last sample in which a kernel ran.
    pub utilization: Option<u32>,
    /// Bytes of its memory, and those that are used.
    pub memory: Option<[u64; 2]>,
    /// Its power in milliwatts.
    pub power: Option<u32>,
    /// The power in milliwatts that it may take.
    pub power_limit: Option<u32>,
    /// Its energy in millijoules since the driver was loaded.
    pub energy: Option<u64>,
}

/// Source of processes' memory and utilization on devices.
pub trait Monitor: fmt::Debug + Send + Sync {
    /// The processes that have something of a device.
    ///
    /// # Errors
    ///
    /// It isn't known, as on MIG instances and under WSL.
    fn processes(&self, device: &Uuid) -> Result<Vec<Process>, Error>;

    /// Returns the utilization of a device by its processes, in samples after `since`, which is a
    /// sample's `at`; one of each process.
    ///
    /// # Errors
    ///
    /// It isn't known.
    fn busy(&self, device: &Uuid, since: u64) -> Result<Vec<Busy>, Error>;
}

/// The source of a device's free memory.
pub trait Memory {
    /// Returns the bytes of a device that no process has.
    ///
    /// # Errors
    ///
    /// Not known, as on MIG instances.
    fn free(&self, device: &Uuid) -> Result<u64, Error>;
}
