//! Series that are written as they are read, and labels of those that come and go: a family of
//! series does not list its own.

use parking_lot::RwLock;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

/// Writes a family of these series.
pub(crate) fn write_family<L: EncodeLabelSet, M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (L, M)>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in series {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

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
