//! Results of each kernel.

use super::memory::Difference;
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Launches of one grid that are checked.
const LAUNCHES: u32 = 3;
/// Grids of a kernel whose launches are checked.
const GRIDS: usize = 16;

/// Counter-example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It left other memory when it ran on its own result.
    Twice(Difference),
    /// It left other memory when some of all its parts ran before the whole: these two numbers.
    AfterPart(Difference, usize, usize),
    /// It left other memory when it ran on the same memory.
    Noise(Difference),
}

/// A kernel.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) launches: u64,
    /// Checked launches, and those of them by parts.
    pub(super) checked: u64,
    pub(super) by_parts: u64,
    pub(super) found: Option<Found>,
    /// Verdict of its text.
    pub(super) verdict: String,
    /// Reason for which a launch was not checked, and not by parts.
    pub(super) left_out: Option<String>,
    pub(super) no_parts: Option<String>,
    grids: HashMap<([u32; 3], [u32; 3]), u32>,
}

#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) BTreeMap<String, Entry>);

/// All kernels.
pub(super) fn findings() -> MutexGuard<'static, Findings> {
    static FINDINGS: LazyLock<Mutex<Findings>> = LazyLock::new(Mutex::default);
    FINDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Findings {
    pub(super) fn entry(&mut self, name: &str) -> &mut Entry {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Entry::default());
        }
        self.0.get_mut(name).expect("it is there")
    }
}

impl Entry {
    /// Counts a launch. Returns whether it is to be checked.
    pub(super) fn begin(&mut self, grid: [u32; 3], block: [u32; 3]) -> bool {
        self.launches += 1;
        if self.grids.len() >= GRIDS && !self.grids.contains_key(&(grid, block)) {
            return false;
        }
        let count = self.grids.entry((grid, block)).or_default();
        *count += 1;
        *count <= LAUNCHES
    }

    /// Notes what a check found. Noise hides everything else, so it comes first.
    pub(super) fn note(&mut self, found: Option<Found>) {
        self.checked += 1;
        if matches!(self.found, None | Some(Found::AfterPart(..)))
            || matches!(found, Some(Found::Noise(_)))
        {
            self.found = found.or(self.found);
        }
    }
}
