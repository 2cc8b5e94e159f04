//! Labels of series that come and go: a family of series does not list its own.

use parking_lot::RwLock;
use std::collections::HashSet;
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct SeriesLabels<L>(RwLock<HashSet<L>>);

impl<L> Default for SeriesLabels<L> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<L: Clone + Eq + Hash> SeriesLabels<L> {
    /// Notes a series, after it was made: so it is never forgotten and made again.
    pub(super) fn note(&self, labels: &L) {
        if !self.0.read().contains(labels) {
            self.0.write().insert(labels.clone());
        }
    }

    /// Forgets all labels but those that are kept, and returns them.
    pub(super) fn retain(&self, is_kept: impl Fn(&L) -> bool) -> Vec<L> {
        self.0.write().extract_if(|labels| !is_kept(labels)).collect()
    }
}
