//! Active profile of this process, and the state of its writer.

use crate::driver::state::end_profile;
use crate::settings::settings;
use reef_guest::page::Time;
use reef_guest::profile::{Event, ProfileOptions, Recorder, Set, alnair};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::UNIX_EPOCH;

#[derive(Debug)]
pub(crate) struct ActiveProfile {
    pub(super) recorder: Box<Recorder>,
    pub(super) options: ProfileOptions,
    /// Functions whose calls are written one by one, and those among them that wait for room.
    pub(super) sent: Set,
    pub(super) lined: Set,
    /// Process of the profile: calls of a child process aren't recorded.
    pub(super) process: u32,
    /// Begin, by `CLOCK_MONOTONIC` and by the wall clock, in nanoseconds. Later jumps of the wall
    /// clock have no effect.
    pub(super) began: u64,
    pub(super) began_at: u64,
    pub(super) state: Mutex<WriterState>,
}

static ACTIVE: OnceLock<Option<&'static ActiveProfile>> = OnceLock::new();

/// Returns the profile, which the first inspected call begins.
#[inline]
pub(super) fn active() -> Option<&'static ActiveProfile> {
    *ACTIVE.get_or_init(start)
}

fn start() -> Option<&'static ActiveProfile> {
    let options = match &settings().profile {
        Ok(options) => options.clone()?,
        Err(why) => {
            say(why);
            return None;
        }
    };
    // SAFETY: a function that touches an atomic alone.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    let day = UNIX_EPOCH.elapsed().map_or(0, |day| u64::try_from(day.as_nanos()).unwrap_or(0));
    let active = ActiveProfile {
        recorder: Recorder::new(),
        sent: options.sent(),
        lined: alnair::timeline_calls(),
        process: std::process::id(),
        began: Time::now().0,
        began_at: day,
        state: Mutex::new(WriterState::new(&options)),
        options,
    };
    Some(Box::leak(Box::new(active)))
}

unsafe extern "C" fn in_child() {
    end_profile();
}

/// Prints once why a profile, or a part of it, is missing.
pub(super) fn say(why: &str) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Relaxed) {
        let _ = writeln!(std::io::stderr(), "reef: profile: {why}"); // a failure can't be reported
    }
}

/// State of the writer between two writes.
#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) folder: PathBuf,
    pub(super) trace: Option<PathBuf>,
    pub(super) spans: Vec<Event>,
    pub(super) dropped: u64,
    /// First error: printed at the end, because the writer thread has no stderr.
    pub(super) error: Option<String>,
    pub(super) is_over: bool,
}

impl WriterState {
    /// Notes why something wasn't written.
    pub(super) fn note(&mut self, path: &Path, written: std::io::Result<()>) {
        if let Err(error) = written {
            let why = || format!("reef: profile: {}: {error}\n", path.display());
            self.error.get_or_insert_with(why);
        }
    }

    /// Creates the state. Paths are made absolute, because the program may change its directory.
    pub(super) fn new(options: &ProfileOptions) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let folder =
            options.alnair.as_ref().map(|(_, folder)| absolute(folder)).unwrap_or_default();
        let trace = options.trace.as_ref().map(absolute);
        Self { folder, trace, spans: Vec::new(), dropped: 0, error: None, is_over: false }
    }
}
