//! Thread that keeps this process's slot in a device's accounts file. The file's lock shows that
//! the process lives.
//!
//! The thread has a descriptor table of its own, so a program that closes all files doesn't end the
//! lock. The file is in the program's table as well: a process that it forks inherits the driver's
//! files, by which the memory stays, so it inherits the lock too. A program that it starts has
//! neither.
//!
//! The number of the file is the same in both tables. In a process that starts from a folder all
//! threads have the program's table, and this one finds its file there.

use super::refusal::say;
use crate::driver::state::end_limits;
use crate::settings::settings;
use crate::thread;
use reef_guest::limit::{Account, AccountsFile, Limits, Slot};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// Maximum time that an allocation waits for dead processes to be reclaimed.
const RECLAIM_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval at which dead processes are reclaimed anyway.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(1);

/// Function that these threads call after each reclaim, with a device's ordinal and its account.
static AFTER_RECLAIM: OnceLock<fn(i32, &Account)> = OnceLock::new();

/// Has these threads call a function after each reclaim. Only the first function counts.
pub(super) fn call_after_reclaims(call: fn(i32, &Account)) {
    let _ = AFTER_RECLAIM.set(call);
}

/// State of the thread that other threads see.
#[derive(Debug, Default)]
pub(super) struct SlotThread {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    account: Option<Result<Account, String>>,
    /// Number of requested and of finished reclaims.
    asked: u64,
    made: u64,
}

impl SlotThread {
    /// Joins a device's accounts file for the life of the process.
    ///
    /// # Errors
    ///
    /// The reason, as a text.
    pub(super) fn start(
        limits: &'static Limits,
        uuid: [u8; 16],
        ordinal: u32,
    ) -> Result<(&'static Self, Account), String> {
        // SAFETY: a function that touches an atomic alone.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        let slot_thread: &Self = Box::leak(Box::default());
        let started =
            thread::spawn("reef-accounts", move || slot_thread.run(limits, uuid, ordinal));
        started.map_err(|error| format!("no thread for the accounts: {error}"))?;
        let mut state = slot_thread.state();
        while state.account.is_none() {
            state =
                slot_thread.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let account = state.account.clone().unwrap_or_else(|| Err("no answer".into()))?;
        Ok((slot_thread, account))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run(&self, limits: &Limits, uuid: [u8; 16], ordinal: u32) {
        let (memory, compute) = (limits.memory_of(ordinal), limits.compute_of(ordinal));
        let file = AccountsFile::open(&settings().accounts, &uuid);
        thread::leave_files_but(file.as_ref().ok().map(|file| file.as_fd()));
        let slot = file.and_then(|file| Slot::join(file, &limits.name, memory, compute));
        let account = slot.as_ref().map(Slot::account).map_err(ToString::to_string);
        self.state().account = Some(account);
        self.changed.notify_all();
        if let Ok(slot) = slot {
            self.keep(&slot, ordinal as i32);
        }
    }

    /// Reclaims memory of dead processes periodically and on request.
    fn keep(&self, slot: &Slot, ordinal: i32) {
        loop {
            let state = self.state();
            let is_idle = |state: &mut State| state.asked == state.made;
            let wait = self.changed.wait_timeout_while(state, RECLAIM_INTERVAL, is_idle);
            let asked = wait
                .map_or_else(|poisoned| poisoned.into_inner().0.asked, |(state, _)| state.asked);
            if let Err(error) = slot.reclaim() {
                say(&format!("the accounts' locks: {error}"));
            }
            if let Some(call) = AFTER_RECLAIM.get() {
                call(ordinal, &slot.account());
            }
            self.state().made = asked;
            self.changed.notify_all();
        }
    }

    /// Requests a reclaim, and waits until it is done, at most for the timeout.
    pub(super) fn reclaim(&self) {
        let mut state = self.state();
        state.asked += 1;
        let mine = state.asked;
        self.changed.notify_all();
        let is_open = |state: &mut State| state.made < mine;
        drop(self.changed.wait_timeout_while(state, RECLAIM_TIMEOUT, is_open));
    }
}

unsafe extern "C" fn in_child() {
    end_limits();
}
