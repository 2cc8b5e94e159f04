//! Samples of one kind of work, and the limit that they give.

use crate::quantile::quantile;

/// Share of runs above the 99th percentile: by so much more may be late than are alone.
pub const LATE_SHARE: f64 = 0.01;
/// Samples above a limit: with fewer the limit would be chance.
const ABOVE: f64 = 4.0;
/// Samples without which a kind's lengths say nothing, and those of a measurement.
const FEW: usize = 8;
const FRESH: usize = 16;
/// Samples that are kept: the last ones.
const KEPT: usize = 1024;
/// Part of the kept samples among which the median of a measurement should be.
const MIDDLE: [f64; 2] = [0.05, 0.95];

/// Runs of one kind alone.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: u64,
    /// Lengths of the measurement that lasts, or of earlier ones that had too few.
    fresh: Vec<f64>,
    /// Number of lengths from the measurement that lasts.
    pub(crate) latest: usize,
    kept: Vec<f64>,
    /// The kept lengths by their size.
    sorted: Vec<f64>,
    /// Number of kept lengths of the last measurement: a change may have come in the middle of it.
    recent: usize,
    /// Lengths of the last measurements that are far from the kept ones, and their number.
    apart: Vec<f64>,
    pub(crate) odd: u32,
    /// Number of lengths of the first of them: some may be from before the change.
    first: usize,
    /// Length that few runs alone exceed.
    limit: Option<f64>,
}

impl Kind {
    pub(crate) fn new(name: u64) -> Self {
        let (fresh, kept, sorted, apart) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            name,
            fresh,
            latest: 0,
            kept,
            sorted,
            recent: 0,
            apart,
            odd: 0,
            first: 0,
            limit: None,
        }
    }

    pub(crate) fn note(&mut self, length: f64) {
        self.fresh.push(length);
        self.latest += 1;
    }

    pub(crate) fn limit(&self) -> Option<f64> {
        self.limit
    }

    /// Returns the share of runs alone that are longer than this: that of the kept ones, and half a
    /// run more because there are so few.
    pub(crate) fn share_above(&self, length: f64) -> f64 {
        let count = self.sorted.len();
        let above = count - self.sorted.partition_point(|kept| *kept <= length);
        (above as f64 + 0.5) / count.max(1) as f64
    }

    /// Returns the number of lengths that are kept.
    pub(crate) fn kept_count(&self) -> usize {
        self.sorted.len()
    }

    /// Keeps the lengths of a measurement. Returns whether the older ones were dropped: the work or
    /// the device has changed. A measurement with few lengths waits for the next one.
    pub(crate) fn settle(&mut self, patience: u32, tolerance: f64) -> bool {
        let is_known = self.limit.is_some();
        if is_known && self.fresh.len() < FRESH {
            return false;
        }
        let Some(median) = quantile(&mut self.fresh, 0.5) else { return false };
        self.odd = if is_known && self.is_apart(median, tolerance) { self.odd + 1 } else { 0 };
        let count = self.fresh.len();
        if self.odd == 1 {
            self.first = count;
        }
        self.apart.append(&mut self.fresh);
        let is_changed = self.odd >= patience;
        if is_changed {
            self.drop_older();
        }
        if self.odd == 0 {
            self.keep();
            self.recent = count;
        }
        is_changed
    }

    /// Keeps nothing from before a change.
    fn drop_older(&mut self) {
        (self.odd, self.kept) = (0, Vec::new());
        if self.apart.len() > self.first {
            self.apart.drain(..self.first);
        }
    }

    fn is_apart(&self, median: f64, tolerance: f64) -> bool {
        let older = self.kept.len().saturating_sub(self.recent);
        let mut kept = self.kept[..if older < FEW { self.kept.len() } else { older }].to_vec();
        let [low, high] = MIDDLE.map(|part| quantile(&mut kept, part).unwrap_or(median));
        median < low * (1.0 - tolerance) || median > high * (1.0 + tolerance)
    }

    /// Keeps what was apart. Samples stay in the order of time: the oldest ones go first.
    fn keep(&mut self) {
        self.kept.append(&mut self.apart);
        let extra = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..extra);
        self.sorted = self.kept.clone();
        self.sorted.sort_unstable_by(f64::total_cmp);
        let count = self.kept.len();
        if count >= FEW {
            let share = (ABOVE / count as f64).max(LATE_SHARE);
            self.limit = quantile(&mut self.kept.clone(), 1.0 - share);
        }
    }
}
