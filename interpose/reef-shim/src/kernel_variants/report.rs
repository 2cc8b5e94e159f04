//! Report of long kernels: sliced, or with gates alone and why.

use super::kernels;
use super::shape::{Guard, Shape, ShapeKey, State};
use crate::explain;
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum number of lines.
const MAX_LINES: usize = 64;

/// Adds the lines of long kernels to the report.
pub(super) fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| explain::add(lines));
}

fn lines() -> String {
    let mut lines = Vec::new();
    for kernel in kernels::all() {
        let shapes = kernel.shapes();
        lines.extend(shapes.iter().filter_map(|(key, shape)| line(&kernel.name, key, shape)));
    }
    lines.sort();
    lines.dedup();
    lines.truncate(MAX_LINES);
    lines.concat()
}

fn line(name: &str, key: &ShapeKey, shape: &Shape) -> Option<String> {
    let how = match &shape.state {
        State::Measured | State::Short => return None,
        State::Long(_) => "gates only: its variant is not built yet".to_owned(),
        State::Plain(why) => format!("gates only: {why}"),
        State::Ready(plan, _) => {
            let (launches, slices) = (plan.launches.load(Relaxed), plan.slices());
            let stops = |guard: &Guard| {
                let place = if guard.has_preemption_points { ", inside of blocks too" } else { "" };
                format!(", told to stop {} times{place}", guard.count.load(Relaxed))
            };
            let stops = plan.guard.as_ref().map(stops).unwrap_or_default();
            format!("{launches} launches in {slices} slices{stops}")
        }
    };
    let nodes = in_graphs(shape);
    let [x, y, z] = key.grid;
    let millis = shape.plain.shortest.unwrap_or_default().as_secs_f64() * 1e3;
    Some(format!("  long kernel {name}, {x}x{y}x{z} blocks, {millis:.2} ms: {how}{nodes}\n"))
}

/// Returns how its nodes of graphs launch a kernel.
fn in_graphs(shape: &Shape) -> String {
    let number = |count: u64| format!("{count} node{}", if count == 1 { "" } else { "s" });
    let sliced = match &shape.state {
        State::Ready(..) if shape.nodes.sliced > 0 => {
            let slices = shape.nodes.slices;
            format!("; in {} of graphs in {slices} slices", number(shape.nodes.sliced))
        }
        _ => String::new(),
    };
    let whole = shape.nodes.whole.iter();
    let whole = whole.map(|(why, count)| format!("; whole in {} of graphs: {why}", number(*count)));
    sliced + &whole.collect::<String>()
}
