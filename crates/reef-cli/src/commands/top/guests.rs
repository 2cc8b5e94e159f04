//! Unmodified programs, as the daemon counts them.

use super::rates::Rates;
use crate::remote::scrape::Labels;
use serde::Serialize;

/// A program on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Guest {
    pub(crate) guest: String,
    pub(crate) class: String,
    pub(crate) pid: String,
    /// Programs of a job are held together; empty: none.
    pub(crate) job: String,
    /// Kernels and graphs.
    pub(crate) launches_per_second: f64,
    /// Launches that found the gate closed.
    pub(crate) delayed_per_second: f64,
    /// Launches of long kernels in slices.
    pub(crate) sliced_per_second: f64,
    /// Launches of long kernels as a whole.
    pub(crate) whole_per_second: f64,
    /// The part of the time in which it was held, or held others.
    pub(crate) held: f64,
    /// The part of the time in which it seemed to use its device: an estimate, rather too much.
    pub(crate) busy: f64,
    /// The part of the time that passes next to busy real-time programs; of a real-time program
    /// with a target, what it lets through.
    pub(crate) colocated: f64,
    /// Latency of a real-time program with a target by that alone; `None`: not measured.
    pub(crate) growth: Option<f64>,
    /// It is held, if it is best-effort, or it holds others.
    pub(crate) is_active: bool,
    /// Program and machine that it works for, if these are elsewhere.
    pub(crate) client: Option<String>,
    /// Memory that it had on its devices when it was suspended; `None`: it is on them.
    pub(crate) suspended_bytes: Option<u64>,
}

/// The guests that are there now, in the order in which they came.
pub(super) fn guests(rates: Rates<'_>) -> Vec<Guest> {
    let mut all: Vec<Guest> = rates
        .after
        .all("reef_guest_active")
        .iter()
        .map(|(of, value)| guest(rates, of, *value))
        .collect();
    all.sort_by_key(|guest| guest.guest.parse::<u64>().unwrap_or(u64::MAX));
    all
}

fn guest(rates: Rates<'_>, labels: &Labels, active: f64) -> Guest {
    let text = |name: &str| labels.get(name).cloned().unwrap_or_default();
    let number = text("guest");
    let mine = |of: &Labels| of.get("guest") == Some(&number);
    let rate = |name: &str| rates.rate(name, mine);
    let pid = text("pid");
    let same_process = |of: &Labels| of.get("pid") == Some(&pid);
    let suspended = rates.after.sum("reef_suspended_bytes", same_process);
    Guest {
        client: None,
        suspended_bytes: suspended.map(|bytes| bytes as u64),
        class: text("class"),
        pid: pid.clone(),
        job: text("job"),
        launches_per_second: rate("reef_guest_kernels_total") + rate("reef_guest_graphs_total"),
        delayed_per_second: rate("reef_guest_delayed_total"),
        sliced_per_second: rate("reef_guest_sliced_total"),
        whole_per_second: rate("reef_guest_whole_total"),
        held: rate("reef_guest_held_seconds_total").min(1.0),
        busy: rate("reef_guest_busy_seconds_total").min(1.0),
        colocated: rates.after.sum("reef_guest_colocation_ratio", mine).unwrap_or_default(),
        growth: rates.after.sum("reef_guest_growth_ratio", mine),
        is_active: active > 0.0,
        guest: number.clone(),
    }
}
