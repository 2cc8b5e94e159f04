//! Rules for guests: their maximum number, the maximum time of a hold, and how fast one begins.

use crate::page::mps_cost::is_mps_served;
use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// Descriptors of each guest: its socket, and its process.
const DESCRIPTORS: u64 = 2;

/// Processors of the machine for each thread that polls.
const PROCESSORS_PER_WATCHER: usize = 8;

/// Rules for all guests of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Maximum guests of one user.
    pub per_user: usize,
    /// Maximum time for which a real-time guest holds others without progress: a launch, or work
    /// that has ended.
    pub hold_timeout: Duration,
    /// Time for which the thread that holds others for a real-time guest polls the guest's word
    /// after a hold, before it sleeps. A sleeping thread's wake-up delays the next hold.
    pub watch: Duration,
    /// Period in which a best-effort guest has one window while a real-time guest is busy.
    pub colocate_period: Duration,
    /// Maximum number of threads that poll at the same time, each on a processor.
    pub max_watchers: usize,
    /// Returns whether programs that start now use the device side by side, by MPS. Called when a
    /// real-time guest joins.
    pub is_under_mps: fn() -> bool,
}

impl Default for Rules {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            per_user: 128,
            hold_timeout: Duration::from_secs(1),
            watch: Duration::from_millis(20),
            colocate_period: Duration::from_millis(1),
            max_watchers: processors / PROCESSORS_PER_WATCHER,
            is_under_mps: || is_mps_served(|name| std::env::var_os(name)),
        }
    }
}

impl Rules {
    /// Returns the maximum guests of all users together: they may use a quarter of the descriptors
    /// of this process.
    pub(super) fn max_guests(&self) -> usize {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit / (4 * DESCRIPTORS)).unwrap_or(usize::MAX)
        })
    }
}
