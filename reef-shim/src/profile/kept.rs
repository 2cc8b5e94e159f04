//! What the thread that writes keeps from one look to the next.

use reef_guest::profile::{Event, Wanted};
use std::path::{Path, PathBuf};

/// What stands between two looks.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) folder: PathBuf,
    pub(super) trace: Option<PathBuf>,
    pub(super) spans: Vec<Event>,
    pub(super) dropped: u64,
    /// What went wrong first: said at the end, since the thread that writes has no stderr.
    pub(super) error: Option<String>,
    pub(super) is_over: bool,
}

impl Kept {
    /// Notes why something wasn't written.
    pub(super) fn note(&mut self, path: &Path, written: std::io::Result<()>) {
        if let Err(error) = written {
            let why = || format!("reef: profile: {}: {error}\n", path.display());
            self.error.get_or_insert_with(why);
        }
    }

    /// Paths are those of where the program begins: it may go elsewhere.
    pub(super) fn new(wanted: &Wanted) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let folder = wanted.alnair.as_ref().map(|(_, folder)| absolute(folder)).unwrap_or_default();
        let trace = wanted.trace.as_ref().map(absolute);
        Self { folder, trace, spans: Vec::new(), dropped: 0, error: None, is_over: false }
    }
}
