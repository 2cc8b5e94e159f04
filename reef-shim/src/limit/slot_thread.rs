//! A thread that has this process's place in the accounts of a device, because the file's lock says
//! that it lives.
//!
//! The thread's files are its own, so a program that closes all files doesn't end the lock, and a
//! child doesn't inherit it.

use super::refusal::say;
use crate::driver::state::end_limits;
use crate::settings::settings;
use crate::thread;
use reef_guest::limit::{Account, AccountsFile, Limits, Slot};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long an allocation waits until the dead have been looked for.
const RECLAIM_TIMEOUT: Duration = Duration::from_millis(200);
/// How often they are looked for anyway.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(1);

/// The thread, as others see it.
#[derive(Debug, Default)]
pub(super) struct SlotThread {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    account: Option<Result<Account, String>>,
    /// Looks at the dead that were asked for, and that were made.
    asked: u64,
    made: u64,
}

impl SlotThread {
    /// Joins the accounts of a device for the life of the process.
    ///
    /// # Errors
    ///
    /// In words: why not.
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
        thread::leave_files();
        let (memory, compute) = (limits.memory_of(ordinal), limits.compute_of(ordinal));
        let slot = AccountsFile::open(&settings().accounts, &uuid)
            .and_then(|file| Slot::join(file, &limits.name, memory, compute));
        let account = slot.as_ref().map(Slot::account).map_err(ToString::to_string);
        self.state().account = Some(account);
        self.changed.notify_all();
        if let Ok(slot) = slot {
            self.keep(&slot);
        }
    }

    /// Looks for the dead, now and then and when it is asked to.
    fn keep(&self, slot: &Slot) {
        loop {
            let state = self.state();
            let is_idle = |state: &mut State| state.asked == state.made;
            let wait = self.changed.wait_timeout_while(state, RECLAIM_INTERVAL, is_idle);
            let asked = wait
                .map_or_else(|poisoned| poisoned.into_inner().0.asked, |(state, _)| state.asked);
            if let Err(error) = slot.reclaim() {
                say(&format!("the accounts' locks: {error}"));
            }
            self.state().made = asked;
            self.changed.notify_all();
        }
    }

    /// Has the dead looked for, and waits until that is done, or not for ever.
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
