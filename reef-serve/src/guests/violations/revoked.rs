//! Processes whose class was taken away.

use reef_guest::page::Class;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Processes by their numbers, for as long as they live.
#[derive(Debug, Default)]
pub(in crate::guests) struct Revoked(Mutex<BTreeSet<u32>>);

impl Revoked {
    pub(in crate::guests) fn add(&self, pid: u32) {
        self.pids().insert(pid);
    }

    /// Whether a process may have a class.
    ///
    /// # Errors
    ///
    /// In words for the guest: why not.
    pub(in crate::guests) fn check(&self, pid: u32, class: Class) -> Result<(), String> {
        match class == Class::RealTime && self.pids().contains(&pid) {
            true => Err("class rt was revoked: this process changed its page".into()),
            false => Ok(()),
        }
    }

    /// Numbers of processes that have ended will be others'.
    pub(in crate::guests) fn forget_the_dead(&self) {
        self.pids().retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
    }

    fn pids(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
