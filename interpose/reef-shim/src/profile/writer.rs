//! Writer of the profile's files, periodically and at the end.

use super::active::{ActiveProfile, WriterState};
use super::finish::{self, WriterGuard};
use super::{memory, names};
use crate::guest::attach;
use crate::thread;
use reef_guest::page::{CallKind, ENDS};
use reef_guest::profile::{Api, Event, Histogram, Version, alnair, table, trace};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::Duration;

/// Interval between writes; with spans of every call it is shorter, before a thread's ring is full.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);
const TRACE_WRITE_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum spans of a trace.
const MAX_SPANS: usize = 1 << 20;

pub(super) fn run(active: &'static ActiveProfile, _writing: WriterGuard) {
    thread::leave_files();
    let tick = if active.options.trace.is_some() { TRACE_WRITE_INTERVAL } else { WRITE_INTERVAL };
    loop {
        let is_asked = finish::wait(tick);
        active.write();
        if is_asked {
            finish::done(active.finish());
            return;
        }
    }
}

impl ActiveProfile {
    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes new calls and totals.
    fn write(&self) {
        let state = &mut *self.state();
        let mut lines = String::new();
        self.recorder.drain(|event| {
            let start = self.began_at.saturating_add(event.call.start.saturating_sub(self.began));
            lines.extend(self.line(&event, start));
            if self.options.trace.is_none() {
                return;
            }
            if state.spans.len() < MAX_SPANS {
                state.spans.push(event);
            } else {
                state.dropped += 1;
            }
        });
        self.show();
        let Some((version, _)) = self.options.alnair else { return };
        let folder = state.folder.clone();
        let written = self.lines(&folder, &lines).and_then(|()| self.metrics(version, &folder));
        state.note(&folder, written);
    }

    /// Publishes the times of calls to the daemon, if this process has joined one.
    fn show(&self) {
        let Some(device) = attach::any() else { return };
        let totals = self.recorder.calls();
        let of = |counted| match counted {
            CallKind::Kernels => &[Api::Launch][..],
            CallKind::Graphs => &[Api::GraphLaunch],
            CallKind::Copies => &[Api::CopyIn, Api::CopyInAsync, Api::CopyOut, Api::Copy],
        };
        for counted in CallKind::ALL {
            let (mut nanos, mut times) = (0, Histogram::default());
            for api in of(counted) {
                nanos += totals.of(*api).nanos;
                times.add(&totals.of(*api).times);
            }
            device.page.times.show(counted, nanos, &times.within(&ENDS));
        }
    }

    fn line(&self, event: &Event, start: u64) -> Option<String> {
        match self.options.alnair.as_ref()?.0 {
            Version::One => alnair::line_1(&event.call, start),
            Version::Two => alnair::line_2(&event.call, start),
            Version::Three => None,
        }
    }

    fn lines(&self, folder: &Path, lines: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        if lines.is_empty() { Ok(()) } else { append(&folder.join("timeline.log"), lines) }
    }

    fn metrics(&self, version: Version, folder: &Path) -> std::io::Result<()> {
        let (totals, used) = (self.recorder.calls(), memory::used());
        let text = match version {
            Version::One => alnair::metrics_1(&totals),
            Version::Two => alnair::metrics_2(&totals, used),
            Version::Three => alnair::metrics_3(&totals, self.process, used),
        };
        replace(&folder.join("metrics.log"), &text)
    }

    /// Writes the outputs of the end, once. Returns the text to print.
    pub(super) fn finish(&self) -> String {
        self.write();
        let state = &mut *self.state();
        if std::mem::replace(&mut state.is_over, true) {
            return String::new();
        }
        let (all, totals) = (names::all(), self.recorder.totals());
        let name = |handle: u64| all.get(&handle).cloned();
        if let Some(path) = state.trace.as_ref().map(|path| self.own_file(path)) {
            let dropped = state.dropped + totals.missed;
            let text = trace::json(&state.spans, self.process, self.began, dropped, name);
            state.note(&path, replace(&path, &text));
        }
        let table = self.options.table.then(|| table::table(&totals, self.process, name));
        table.into_iter().chain(state.error.take()).collect()
    }

    /// Returns the file of a trace. It has the process ID in its name, except for the first process
    /// of the program.
    fn own_file(&self, path: &Path) -> PathBuf {
        let first = reef_files::variable("REEF_PROFILE_FIRST");
        if first.is_none_or(|first| first == *self.process.to_string()) {
            return path.to_owned();
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!("{stem}-{}.json", self.process))
    }
}

// Files that other processes read during writes. Other processes may write to their folder, so no
// link is followed.

/// Replaces a file by a text. A reader finds the old one or the new one.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}", std::process::id()));
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // of a process of this number that was killed
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&temporary, path)
}

/// Appends lines to a file, which is created if it is missing. It isn't kept open, because writing
/// threads have descriptor tables of their own.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).append(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    file.write_all(text.as_bytes())
}
