//! Absence of a guest while its process is written to a folder.
//!
//! A process can be written if all its threads share one file table, and if it has no connection to
//! a process that stays. So the link's thread, which has a table of its own, ends. The page stays
//! mapped, and the watchdog keeps its file meanwhile: gates wait on that page.
//!
//! | step | thread |
//! |---|---|
//! | the page says that the guest must leave | the writer's |
//! | offers the page's file, and waits until the watchdog has it | link, which ends |
//! | opens the file | watchdog |
//! | the page says that the guest may join again | the writer's, or that of a restore |
//! | starts the next link with the file | watchdog |

use crate::explain;
use reef_files::descriptors::above_standard;
use reef_guest::page::PageFile;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Maximum time for which a link waits for the watchdog. After that it goes on.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Step of an absence, and a way to wait for the next one.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    /// The link's thread runs.
    #[default]
    Linked,
    /// The link's thread, by its number, offers this file of its table.
    Offered(i32, RawFd),
    /// There is no link.
    Away(PageFile),
}

impl Absence {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Offers the page's file to the watchdog. Returns true if the watchdog has it: then this
    /// thread, the link's, must end.
    pub(super) fn leave(&self, file: &PageFile) -> bool {
        // SAFETY: returns a number.
        let thread = unsafe { libc::gettid() };
        *self.state() = State::Offered(thread, file.as_fd().as_raw_fd());
        let is_offered = |state: &mut State| matches!(state, State::Offered(..));
        let waited = self.changed.wait_timeout_while(self.state(), TIMEOUT, is_offered);
        let mut state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        match *state {
            State::Away(_) => true,
            _ => {
                *state = State::Linked;
                false
            }
        }
    }

    /// Makes the watchdog's step, if there is one. Returns the page's file if the guest may join
    /// again.
    pub(super) fn check(&self, is_away: bool) -> Option<PageFile> {
        let mut state = self.state();
        let (next, file) = match std::mem::take(&mut *state) {
            State::Offered(thread, file) => {
                self.changed.notify_all();
                (take(thread, file).map_or(State::Linked, State::Away), None)
            }
            State::Away(file) if !is_away => (State::Linked, Some(file)),
            other => (other, None),
        };
        *state = next;
        file
    }
}

/// Opens a file of another thread's table.
fn take(thread: i32, file: RawFd) -> Option<PageFile> {
    let open = || -> io::Result<PageFile> {
        let path = format!("/proc/self/task/{thread}/fd/{file}");
        let file = OwnedFd::from(OpenOptions::new().read(true).write(true).open(path)?);
        PageFile::open(above_standard(file)?).map(|(_, file, _)| file)
    };
    open().map_err(|error| explain::refuse::<()>(&format!("page's file: {error}"))).ok()
}
