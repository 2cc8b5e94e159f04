//! Totals as a table for display.

use super::super::api::Api;
use super::super::histogram::Histogram;
use super::super::totals::{KernelTotal, Totals};
use crate::limit::quantity::format_bytes;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum kernels in the table.
const MAX_KERNELS: usize = 30;
/// Maximum characters of a kernel's name.
const MAX_NAME: usize = 48;

/// Returns the table of a process: its calls, and its kernels. `name` returns the name of a
/// driver's handle. All times are host times, from a call's begin to its return.
pub fn table(totals: &Totals, pid: u32, name: impl Fn(u64) -> Option<String>) -> String {
    let mut text = format!("reef: process {pid}: calls of the driver, host time\n");
    header(&mut text, "call", "bytes");
    let mut calls: Vec<_> = Api::ALL.into_iter().filter(|api| totals.of(*api).count > 0).collect();
    calls.sort_by_key(|api| std::cmp::Reverse(totals.of(*api).nanos));
    for api in calls {
        let total = totals.of(api);
        let has_bytes = !matches!(api, Api::Launch) && total.amount > 0;
        let bytes = if has_bytes { format_bytes(total.amount) } else { String::new() };
        row(&mut text, api.name(), total.count, total.nanos, &total.times, &bytes);
    }
    if !totals.kernels.is_empty() {
        kernels(&mut text, totals, name);
    }
    if totals.lost > 0 {
        let _ = writeln!(text, "  {} calls of more threads than are recorded", totals.lost);
    }
    text
}

fn kernels(text: &mut String, totals: &Totals, name: impl Fn(u64) -> Option<String>) {
    let mut by_name: BTreeMap<String, KernelTotal> = BTreeMap::new();
    for (handle, kernel) in &totals.kernels {
        let unknown = || if *handle == 0 { "others".into() } else { format!("{handle:#x}") };
        let all = by_name.entry(name(*handle).unwrap_or_else(unknown)).or_default();
        all.count += kernel.count;
        all.nanos += kernel.nanos;
        all.times.add(&kernel.times);
    }
    let mut all: Vec<_> = by_name.into_iter().collect();
    all.sort_by_key(|(_, kernel)| std::cmp::Reverse(kernel.nanos));
    header(text, "kernel, its launches", "");
    for (name, kernel) in all.iter().take(MAX_KERNELS) {
        row(text, name, kernel.count, kernel.nanos, &kernel.times, "");
    }
    if let Some(more) = all.len().checked_sub(MAX_KERNELS).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more kernels");
    }
}

fn header(text: &mut String, what: &str, last: &str) {
    let line = format!(
        "  {what:<MAX_NAME$} {:>10} {:>12} {:>10} {:>10} {last:>10}",
        "count", "total ms", "p50 µs", "p99 µs"
    );
    let _ = writeln!(text, "{}", line.trim_end()); // a string takes all
}

fn row(text: &mut String, name: &str, count: u64, nanos: u64, times: &Histogram, last: &str) {
    let name: String = name.chars().take(MAX_NAME).collect();
    let [p50, p99] = [0.5, 0.99].map(|part| times.quantile(part) as f64 / 1e3);
    let total = nanos as f64 / 1e6;
    let line =
        format!("  {name:<MAX_NAME$} {count:>10} {total:>12.3} {p50:>10.2} {p99:>10.2} {last:>10}");
    let _ = writeln!(text, "{}", line.trim_end()); // a string takes all
}
