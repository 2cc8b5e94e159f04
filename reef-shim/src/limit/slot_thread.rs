//! A thread that has this process's place in the books of a device, because the file's lock says
//! that it lives.
//!
//! The thread's files are its own, so a program that closes all files doesn't end the lock, and a
//! child doesn't inherit it.

use super::refusal::say;
use crate::driver::state::end_limits;
use crate::settings::settings;
use crate::thread;
use reef_guest::limit::{Account, BooksFile, Limits, Seat};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long an allocation waits until the dead have been looked for.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often they are looked for anyway.
const TICK: Duration = Duration::from_secs(1);

/// The thread, as others see it.
#[derive(Debug, Default)]
pub(super) struct Clerk {
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

impl Clerk {
    /// Joins the books of a device for the life of the process.
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
        let clerk: &Self = Box::leak(Box::default());
        let started = thread::spawn("reef-books", move || clerk.run(limits, uuid, ordinal));
        started.map_err(|error| format!("no thread for the books: {error}"))?;
        let mut state = clerk.state();
        while state.account.is_none() {
            state = clerk.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let account = state.account.clone().unwrap_or_else(|| Err("no answer".into()))?;
        Ok((clerk, account))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run(&self, limits: &Limits, uuid: [u8; 16], ordinal: u32) {
        thread::leave_files();
        let (memory, compute) = (limits.memory_of(ordinal), limits.compute_of(ordinal));
        let seat = BooksFile::open(&settings().books, &uuid)
            .and_then(|file| Seat::join(file, &limits.name, memory, compute));
        let account = seat.as_ref().map(Seat::account).map_err(ToString::to_string);
        self.state().account = Some(account);
        self.changed.notify_all();
        if let Ok(seat) = seat {
            self.keep(&seat);
        }
    }

    /// Looks for the dead, now and then and when it is asked to.
    fn keep(&self, seat: &Seat) {
        loop {
            let state = self.state();
            let is_idle = |state: &mut State| state.asked == state.made;
            let wait = self.changed.wait_timeout_while(state, TICK, is_idle);
            let asked = wait
                .map_or_else(|poisoned| poisoned.into_inner().0.asked, |(state, _)| state.asked);
            if let Err(error) = seat.reclaim() {
                say(&format!("the books' locks: {error}"));
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
        drop(self.changed.wait_timeout_while(state, PATIENCE, is_open));
    }
}

unsafe extern "C" fn in_child() {
    end_limits();
}
