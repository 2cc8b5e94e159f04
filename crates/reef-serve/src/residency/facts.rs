//! Facts about a process or network that is on its device on demand.

use crate::class::Class;
use reef_suspend::Uuid;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Process of a model, by the names that people and metrics have for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ProcessName {
    pub(crate) model: String,
    pub(crate) version: u32,
    pub(crate) class: Class,
    /// Number among those of its class.
    pub(crate) instance: usize,
    /// Name of its device.
    pub(crate) device: String,
}

/// Wishes of a process.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) name: ProcessName,
    /// Name in the log.
    pub(crate) title: Arc<str>,
    /// Time without a request after which it leaves.
    pub(crate) idle: Duration,
    /// Bytes of device memory that it may take; 0 if it has no limit.
    pub(crate) limit: u64,
    /// The device that it is told. `None`: not a GPU that others know.
    pub(crate) device: Option<Uuid>,
}

/// State of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResidencyState {
    /// Not started, or ended.
    Absent,
    /// Started, or about to be.
    Starting,
    Resident,
    Leaving,
    Away,
    Returning,
}

impl ResidencyState {
    /// Returns its name for people and in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Absent | Self::Starting => "starting",
            Self::Resident => "resident",
            Self::Leaving => "leaving",
            Self::Away => "away",
            Self::Returning => "returning",
        }
    }
}

/// Bytes of device memory.
pub(crate) type Held = Vec<(Uuid, u64)>;

/// Begin of the identities of [budgets](budget_of). No GPU has such an identity.
const BUDGET: [u8; 8] = [0xff; 8];

/// Returns the identity of the daemon's budget for a device, which counts as a device of its own:
/// the daemon's networks take memory of both. `index` is that of the device among the daemon's.
pub(crate) fn budget_of(index: usize) -> Uuid {
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&BUDGET);
    identity[8..].copy_from_slice(&(index as u64).to_be_bytes());
    identity
}

/// True if this is the identity of a budget.
pub(crate) fn is_budget(device: &Uuid) -> bool {
    device.starts_with(&BUDGET)
}

/// Way in which a process was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartKind {
    /// From nothing.
    Cold,
    /// From the folder that an earlier process was written to.
    Warm,
}

impl StartKind {
    /// All kinds, in the order of [`Residency::starts`].
    pub(crate) const ALL: [Self; 2] = [Self::Cold, Self::Warm];

    /// Returns its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// Starts of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Starts {
    pub(crate) count: u64,
    /// Sum of the times until the process was ready.
    pub(crate) time: Duration,
}

/// State of a process at one moment, for listings and metrics.
#[derive(Debug, Clone)]
pub(crate) struct Residency {
    pub(crate) name: ProcessName,
    pub(crate) state: ResidencyState,
    /// Bytes on its devices: 0 while it is away. `None`: not known.
    pub(crate) bytes: Option<u64>,
    pub(crate) returns: u64,
    /// Sum of the times of its returns.
    pub(crate) return_time: Duration,
    /// End of its last return.
    pub(crate) returned: Option<SystemTime>,
    /// Starts of each kind. A network has none.
    pub(crate) starts: [Starts; 2],
}

/// A departure or a return that has ended, for traces.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    /// Name of the process in the log.
    pub(crate) title: String,
    pub(crate) is_return: bool,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
    /// False if it was refused.
    pub(crate) is_done: bool,
}
