//! How many guests there may be, and for how long one may hold others.

use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// Descriptors that a guest takes: its socket, and its process.
const DESCRIPTORS: u64 = 2;

/// What holds for all guests of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Most guests of one user.
    pub per_user: usize,
    /// For how long a real-time guest holds others without a sign that it is at work: a launch, or
    /// work that has ended.
    pub hold_timeout: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { per_user: 128, hold_timeout: Duration::from_secs(1) }
    }
}

impl Rules {
    /// Most guests of all users together: they take half of the descriptors that this process may
    /// have.
    pub(super) fn max_guests(&self) -> usize {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit / (2 * DESCRIPTORS)).unwrap_or(usize::MAX)
        })
    }
}
