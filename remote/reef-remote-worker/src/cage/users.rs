//! Users for workers: each session has one that no other session has at the same time.

use crate::state::lock::lock;
use reef_core::{Error, Result};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Lowest number of a user that is not the system's.
const FIRST: u32 = 1000;
/// Folder of MPS, where no variable names another one.
const MPS_FOLDER: &str = "/tmp/nvidia-mps";

/// Users that are free, and the one that was given last.
#[derive(Debug)]
pub(crate) struct Users {
    range: RangeInclusive<u32>,
    taken: Mutex<(BTreeSet<u32>, u32)>,
}

/// A user, until this is dropped.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) number: u32,
    of: Arc<Users>,
}

impl Users {
    /// Users of these numbers, if this process may start processes of theirs and nothing else wants
    /// all sessions to have one user.
    ///
    /// # Errors
    ///
    /// `Invalid` says what stands against it.
    pub(crate) fn new(range: RangeInclusive<u32>, has_compute: bool) -> Result<Arc<Self>> {
        let variable = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let own = rustix::process::geteuid().as_raw();
        let has_mps = variable("CUDA_MPS_PIPE_DIRECTORY") || Path::new(MPS_FOLDER).exists();
        let why = if range.is_empty() || *range.start() < FIRST {
            let (first, last) = (range.start(), range.end());
            format!("must be FIRST-LAST from {FIRST} on, got {first}-{last}")
        } else if own != 0 {
            format!("the server must be root, got user {own}")
        } else if has_mps {
            "cannot be with MPS, which serves one user at a time".into()
        } else if variable("REEF_GUESTS") {
            "cannot be with a daemon (REEF_GUESTS), which knows its guests by their user".into()
        } else if has_compute {
            "cannot be with compute in the rights: its accounts belong to one user".into()
        } else {
            return Ok(Arc::new(Self { range, taken: Mutex::default() }));
        };
        Err(Error::invalid("worker users", why))
    }

    /// Takes the next free user. `None`: all have sessions.
    pub(crate) fn take(self: &Arc<Self>) -> Option<User> {
        let mut taken = lock(&self.taken);
        let after = (taken.1.max(*self.range.start() - 1) + 1)..=*self.range.end();
        let mut next = after.chain(self.range.clone());
        let number = next.find(|number| !taken.0.contains(number))?;
        taken.0.insert(number);
        taken.1 = number;
        Some(User { number, of: self.clone() })
    }
}

impl Drop for User {
    fn drop(&mut self) {
        lock(&self.of.taken).0.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_has_one_session_at_a_time() {
        let users = Arc::new(Users { range: 2000..=2001, taken: Mutex::default() });
        let (first, second) = (users.take().unwrap(), users.take().unwrap());
        assert_eq!([first.number, second.number], [2000, 2001]);
        assert!(users.take().is_none());
        drop(second);
        assert_eq!(users.take().unwrap().number, 2001);
        drop(first);
        assert_eq!(users.take().unwrap().number, 2000);
    }

    #[test]
    fn users_of_the_system_are_refused() {
        for range in [0..=0, 999..=2000, RangeInclusive::new(2001, 2000)] {
            let said = Users::new(range, false).unwrap_err().to_string();
            assert!(said.contains("must be FIRST-LAST from 1000 on"), "{said}");
        }
    }

    #[test]
    fn users_and_parts_of_the_time_are_refused_together() {
        let said = Users::new(2000..=2001, true).unwrap_err().to_string();
        let is_root = rustix::process::geteuid().is_root();
        assert!(said.contains(if is_root { "cannot be with " } else { "must be root" }), "{said}");
    }
}
