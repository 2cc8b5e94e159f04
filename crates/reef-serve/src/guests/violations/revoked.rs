//! Processes that have lost the real-time class.

use reef_guest::page::Class;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Processes by their numbers, for as long as they live.
#[derive(Debug, Default)]
pub(in crate::guests) struct RevokedProcesses(Mutex<BTreeSet<u32>>);

impl RevokedProcesses {
    pub(in crate::guests) fn add(&self, pid: u32) {
        self.pids().insert(pid);
    }

    /// Refuses the real-time class to such a process.
    ///
    /// # Errors
    ///
    /// The reason, in words for the guest.
    pub(in crate::guests) fn check(&self, pid: u32, class: Class) -> Result<(), String> {
        if class == Class::RealTime && self.pids().contains(&pid) {
            return Err("class rt was revoked: this process changed its page".into());
        }
        Ok(())
    }

    /// Forgets ended processes, because their numbers may be reused.
    pub(in crate::guests) fn forget_ended(&self) {
        self.pids().retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
    }

    fn pids(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
