//! The profile of this process.

use crate::driver::state::end_profile;
use crate::settings::settings;
use reef_guest::page::Time;
use reef_guest::profile::{Event, ProfileOptions, Recorder, Set, alnair};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::UNIX_EPOCH;

/// A profile that is taken.
#[derive(Debug)]
pub(crate) struct ActiveProfile {
    pub(super) recorder: Box<Recorder>,
    pub(super) options: ProfileOptions,
    /// Calls that are written down one by one, and those of them that wait for room.
    pub(super) sent: Set,
    pub(super) lined: Set,
    /// The process whose it is: a child's calls are its own business.
    pub(super) process: u32,
    /// When it began, by the system's clock since it started, and by that of the day. A day's clock
    /// that jumps later changes nothing.
    pub(super) began: u64,
    pub(super) began_at: u64,
    pub(super) state: Mutex<WriterState>,
}

static ACTIVE: OnceLock<Option<&'static ActiveProfile>> = OnceLock::new();

/// The profile, once the first call that is looked at has begun it.
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

/// Says once why there is no profile, or a part of one.
pub(super) fn say(why: &str) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Relaxed) {
        let _ = writeln!(std::io::stderr(), "reef: profile: {why}"); // nobody else could be told
    }
}

/// What stands between two looks.
#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) folder: PathBuf,
    pub(super) trace: Option<PathBuf>,
    pub(super) spans: Vec<Event>,
    pub(super) dropped: u64,
    /// What went wrong first: said at the end, since the thread that writes has no stderr.
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

    /// Paths are those of where the program begins: it may go elsewhere.
    pub(super) fn new(options: &ProfileOptions) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let folder =
            options.alnair.as_ref().map(|(_, folder)| absolute(folder)).unwrap_or_default();
        let trace = options.trace.as_ref().map(absolute);
        Self { folder, trace, spans: Vec::new(), dropped: 0, error: None, is_over: false }
    }
}
