//! Processes that have lost the real-time class.

use reef_guest::limit::{has_process_ended, process_start};
use reef_guest::page::Class;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Processes by their numbers and start times, for as long as they live: a number may be another
/// process's before the next scan.
#[derive(Debug, Default)]
pub(in crate::guests) struct RevokedProcesses(Mutex<BTreeSet<(u32, u64)>>);

impl RevokedProcesses {
    pub(in crate::guests) fn add(&self, pid: u32) {
        self.processes().insert(identity(pid));
    }

    /// Refuses the real-time class to such a process.
    ///
    /// # Errors
    ///
    /// The reason, in words for the guest.
    pub(in crate::guests) fn check(&self, pid: u32, class: Class) -> Result<(), String> {
        if class == Class::RealTime && self.processes().contains(&identity(pid)) {
            return Err("class rt was revoked: this process changed its page".into());
        }
        Ok(())
    }

    pub(in crate::guests) fn forget_ended(&self) {
        self.processes().retain(|(pid, start)| !has_process_ended(*pid, *start));
    }

    fn processes(&self) -> MutexGuard<'_, BTreeSet<(u32, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number and the start time of a process; zero if the system does not state it.
fn identity(pid: u32) -> (u32, u64) {
    (pid, process_start(pid).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_process_of_a_revoked_number_is_admitted() {
        let (revoked, own) = (RevokedProcesses::default(), std::process::id());
        let (_, start) = identity(own);
        revoked.processes().insert((own, start - 1));
        assert_eq!(revoked.check(own, Class::RealTime), Ok(()));
        revoked.add(own);
        assert!(revoked.check(own, Class::RealTime).is_err());
        assert_eq!(revoked.check(own, Class::BestEffort), Ok(()));
        revoked.forget_ended();
        assert!(revoked.check(own, Class::RealTime).is_err(), "it lives");
        assert_eq!(revoked.processes().len(), 1, "the earlier one has ended");
    }
}
