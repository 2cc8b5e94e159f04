//! Rules for guests: their maximum number, and the maximum time of a hold.

use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// Descriptors of each guest: its socket, and its process.
const DESCRIPTORS: u64 = 2;

/// Rules for all guests of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Maximum guests of one user.
    pub per_user: usize,
    /// Maximum time for which a real-time guest holds others without progress: a launch, or work
    /// that has ended.
    pub hold_timeout: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { per_user: 128, hold_timeout: Duration::from_secs(1) }
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
