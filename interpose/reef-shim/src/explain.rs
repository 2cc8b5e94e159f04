//! Report of intercepted calls for `reef exec --explain`, written to a file when the process ends.

use crate::driver::library;
use crate::settings::settings;
use reef_guest::page::Counts;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Maximum reasons that are kept.
const MAX_REASONS: usize = 16;

/// Look-ups of functions by `cuGetProcAddress`, and the number of them that got a hook.
pub(crate) static LOOKUPS: AtomicU64 = AtomicU64::new(0);
pub(crate) static HOOKED: AtomicU64 = AtomicU64::new(0);
/// Look-ups of functions that the driver doesn't have.
pub(crate) static MISSING: AtomicU64 = AtomicU64::new(0);
/// Requests for the driver's private tables of functions, whose calls aren't seen.
pub(crate) static TABLES: AtomicU64 = AtomicU64::new(0);

static REASONS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Graphs that lack gates inside, by which ones they have and the reason.
static UNGATED_GRAPHS: Mutex<BTreeMap<[&str; 2], u64>> = Mutex::new(BTreeMap::new());
/// Further lines of the report.
static LINES: Mutex<Vec<Box<Line>>> = Mutex::new(Vec::new());

type Line = dyn Fn() -> String + Send;

/// Notes the reason for which something isn't scheduled. Returns `None`, for the caller to return.
pub(crate) fn refuse<T>(why: &str) -> Option<T> {
    let mut reasons = REASONS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if reasons.len() < MAX_REASONS && !reasons.iter().any(|reason| reason == why) {
        reasons.push(why.to_owned());
    }
    None
}

/// Notes a graph with a gate before it but none inside, and the reason.
pub(crate) fn note_ungated(why: &'static str) {
    note_graph("a gate in front alone", why);
}

/// Notes a graph that has gates before some of its kernels and not before others, and the reason.
pub(crate) fn note_partly_gated(why: &'static str) {
    note_graph("gates before some kernels alone", why);
}

fn note_graph(has: &'static str, why: &'static str) {
    let mut graphs = UNGATED_GRAPHS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *graphs.entry([has, why]).or_default() += 1;
}

/// Adds a line to the report.
pub(crate) fn add(line: impl Fn() -> String + Send + 'static) {
    LINES.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Box::new(line));
}

/// Process that writes the report: a child process has neither its pages nor its devices.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Has the report written at the process's end, if it is enabled.
pub(crate) fn begin() {
    let is_first = PROCESS.compare_exchange(0, std::process::id(), Relaxed, Relaxed).is_ok();
    if is_first && settings().report.is_some() {
        // SAFETY: a function that calls no driver.
        unsafe { libc::atexit(end) };
    }
}

extern "C" fn end() {
    if PROCESS.load(Relaxed) != std::process::id() {
        return;
    }
    if let Some(path) = &settings().report {
        let _ = append(path, report().as_bytes()); // a failure can't be reported
    }
}

/// Appends to a file. The standard error stream is used as it is: it may be a socket or another
/// user's terminal, which can't be opened, or a file at whose shared place others write.
fn append(path: &Path, text: &[u8]) -> io::Result<()> {
    if path == Path::new("/dev/stderr") {
        return io::stderr().write_all(text);
    }
    OpenOptions::new().create(true).append(true).open(path)?.write_all(text)
}

fn report() -> String {
    let mut text = format!("process {}\n", std::process::id());
    match library::path() {
        Some(path) => writeln!(text, "  driver: {}", path.display()),
        None => writeln!(text, "  driver: none found"),
    }
    .and_then(|()| {
        let (lookups, hooked) = (LOOKUPS.load(Relaxed), HOOKED.load(Relaxed));
        let missing = MISSING.load(Relaxed);
        let counts = format!("{lookups}, intercepted: {hooked}, not found: {missing}");
        writeln!(text, "  functions looked up by name: {counts}")?;
        writeln!(text, "  private tables of the driver asked for: {}", TABLES.load(Relaxed))
    })
    .unwrap_or_default(); // a string takes all
    let others = LINES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    others.iter().for_each(|line| text.push_str(&line()));
    let graphs = UNGATED_GRAPHS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let line =
        |([has, why], count): (&[&str; 2], &u64)| format!("  graphs with {has}: {count} ({why})\n");
    graphs.iter().for_each(|graphs| text.push_str(&line(graphs)));
    let reasons = REASONS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    reasons.iter().for_each(|why| text.push_str(&format!("  not scheduled: {why}\n")));
    text
}

/// Formats a guest's counters.
pub(crate) fn counts(counts: &Counts) -> String {
    let counts = [
        ("kernels", &counts.kernels),
        ("graphs", &counts.graphs),
        ("captured", &counts.captured),
        ("gates", &counts.gates),
        ("gates in graphs", &counts.graph_gates),
        ("delayed", &counts.delayed),
        ("waits", &counts.waits),
        ("starvation reliefs", &counts.starvation_reliefs),
        ("refused by the driver", &counts.refused),
        ("variants not known", &counts.unhooked),
    ];
    let counts: Vec<_> =
        counts.iter().map(|(name, count)| format!("{name} {}", count.load(Relaxed))).collect();
    counts.join(", ")
}
