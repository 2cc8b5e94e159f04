//! Verdicts as a table and as JSON.

use super::names::{demangled, shortened};
use super::verdicts::{Found, Row};
use crate::report::output::count;
use crate::report::table::table;
use reef_ptx::verdict::{KernelMemory, Reason, Rerun};
use serde_json::{Value, json};

/// Meaning of the columns.
const LEGEND: &str = "\
stop        blocks that have not begun may be held back, and run later
slice       a launch may be cut into several smaller ones
abandon     a running block may be thrown away before its first effect, and run again
idempotent  the whole kernel may run again after it has run";

/// The table, the reasons, and what was not read.
pub(super) fn lines(found: &Found) -> Vec<String> {
    let mut lines = Vec::new();
    if !found.kernels.is_empty() {
        let mut rows = table(&["kernel", "target", "stop", "slice", "abandon", "idempotent"]);
        for row in &found.kernels {
            let verdict = &row.verdict;
            let [stop, slice, abandon] =
                [&verdict.stop, &verdict.slice, &verdict.abandon].map(word);
            let name = shortened(&demangled(&row.name));
            let cells = [&*name, &row.target, stop, slice, abandon, verdict.rerun.name()];
            rows.add_row(cells);
        }
        lines.push(rows.to_string());
        lines.extend(["", LEGEND, ""].map(Into::into));
        lines.extend(found.kernels.iter().flat_map(reasons));
    }
    for (capability, number) in &found.without_ptx {
        let kernels = count(*number, "kernel");
        let (major, minor) = (capability / 10, capability % 10);
        lines.push(format!(
            "{kernels} for compute capability {major}.{minor} without PTX: preempted between launches alone"
        ));
    }
    for (container, error) in &found.unread {
        lines.push(format!("not read, in a {container}: {error}"));
    }
    if lines.is_empty() {
        lines.push("no kernels".into());
    }
    lines
}

fn word(answer: &Result<(), Reason>) -> &'static str {
    if answer.is_ok() { "yes" } else { "no" }
}

/// A line for each reason of a kernel, with the answers that it decides.
fn reasons(row: &Row) -> Vec<String> {
    let verdict = &row.verdict;
    let answers =
        [("stop", &verdict.stop), ("slice", &verdict.slice), ("abandon", &verdict.abandon)];
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    let refused = answers.iter().filter_map(|(name, answer)| {
        answer.as_ref().err().map(|reason| (*name, reason.to_string()))
    });
    let rerun = [("idempotent", verdict.rerun.to_string())];
    for (name, reason) in refused.chain(rerun) {
        match lines.iter_mut().find(|line| line.1 == reason) {
            Some(line) => line.0.push(name),
            None => lines.push((vec![name], reason)),
        }
    }
    let line = |(names, reason): (Vec<&str>, String)| {
        format!("{}: {}: {reason}", demangled(&row.name), names.join(", "))
    };
    lines.into_iter().map(line).collect()
}

/// All of [`lines`], for programs.
pub(super) fn json(found: &Found) -> Value {
    let without = found.without_ptx.iter();
    let without: Vec<_> = without
        .map(|(capability, kernels)| json!({ "capability": capability, "kernels": kernels }))
        .collect();
    let unread = found.unread.iter();
    let unread: Vec<_> = unread
        .map(|(container, error)| json!({ "container": container, "error": error.to_string() }))
        .collect();
    let kernels: Vec<_> = found.kernels.iter().map(kernel).collect();
    json!({ "kernels": kernels, "without_ptx": without, "unread": unread })
}

fn kernel(row: &Row) -> Value {
    let verdict = &row.verdict;
    json!({
        "kernel": row.name,
        "demangled": demangled(&row.name),
        "container": row.container,
        "target": row.target,
        "instructions": row.instructions,
        "stop": answer(&verdict.stop),
        "slice": answer(&verdict.slice),
        "abandon": answer(&verdict.abandon),
        "idempotent": rerun(&verdict.rerun),
    })
}

fn answer(answer: &Result<(), Reason>) -> Value {
    json!({ "may": answer.is_ok(), "reason": answer.as_ref().err().map(reason) })
}

fn rerun(rerun: &Rerun) -> Value {
    let pairs: Vec<_> = match rerun {
        Rerun::IfDistinct(pairs) => {
            pairs.iter().map(|(written, read)| json!([place(written), place(read)])).collect()
        }
        _ => Vec::new(),
    };
    json!({ "answer": rerun.name(), "distinct": pairs, "reason": rerun.reason().map(reason) })
}

fn place(place: &KernelMemory) -> Value {
    match place {
        KernelMemory::Parameter(at, offset) => json!({ "parameter": at, "offset": offset }),
        KernelMemory::Variable(name) => json!({ "variable": name }),
    }
}

fn reason(reason: &Reason) -> Value {
    let source = reason.source.as_ref();
    json!({
        "cause": reason.cause.name(),
        "text": reason.cause.to_string(),
        "ptx_line": reason.line,
        "file": source.map(|source| &source.file),
        "line": source.map(|source| source.line),
    })
}
