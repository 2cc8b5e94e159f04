//! `reef check --exec`: a program runs, and its kernels run again.
//!
//! The library in the driver's place writes a line for each kernel to a file.

use super::names::{demangled, shortened};
use crate::commands::exec::library::{SHIM, driver, library};
use crate::commands::exec::run::Shims;
use crate::report::output::print;
use crate::report::table::table;
use crate::report::usage::Usage;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

/// Results of a kernel, in all processes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    launches: u64,
    checked: u64,
    by_parts: u64,
    /// Verdict of its text on running again.
    verdict: String,
    found: Option<Found>,
    left_out: String,
    no_parts: String,
}

/// Counter-example.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    kind: Kind,
    parameter: u64,
    byte: u64,
    /// Parts that ran before the whole, and all parts.
    parts: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Twice,
    Part,
    Noise,
}

/// Runs the program, and prints what was found.
///
/// # Errors
///
/// There is no library or no driver; the program isn't found, or ends with an error.
pub(super) fn run(program: &[OsString], is_json: bool) -> Result<()> {
    let [name, arguments @ ..] = program else { bail!(Usage("--exec needs a program".into())) };
    let shim = library(SHIM, None, "REEF_SHIM").context("not run")?;
    driver().context("not run")?;
    let folder = tempfile::tempdir().context("a folder for what is found")?;
    let file = folder.path().join("kernels");
    let shown = name.display();
    let status = Command::new(name)
        .args(arguments)
        .envs(Shims::of_driver(shim).variables()?)
        .env("REEF_RERUN", &file)
        .env_remove("REEF_GUESTS")
        .status()
        .map_err(|error| Usage(format!("{shown}: {error}")))?;
    let text = match reef_files::read_to_string(&file, reef_files::MAX_INPUT_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("what was found"),
    };
    let rows = read(&text).context("what was found is not understood")?;
    if is_json {
        print(serde_json::to_string_pretty(
            &rows.iter().map(|(name, row)| as_json(name, row)).collect::<Vec<_>>(),
        )?)?;
    } else {
        lines(&rows).into_iter().try_for_each(print)?;
    }
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Reads the file: `interpose/reef-shim/src/rerun/report.rs` has its fields.
fn read(text: &str) -> Option<BTreeMap<String, Row>> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<_> = line.split('\t').collect();
        let fields: [&str; 12] = fields.try_into().ok()?;
        let [name, launches, checked, by_parts, verdict, found, place @ ..] = fields;
        let [parameter, byte, some, all, left_out, no_parts] = place;
        let kind = match found {
            "none" => None,
            "twice" => Some(Kind::Twice),
            "part" => Some(Kind::Part),
            "noise" => Some(Kind::Noise),
            _ => return None,
        };
        let row = rows.entry(name.to_owned()).or_default();
        row.launches += launches.parse::<u64>().ok()?;
        row.checked += checked.parse::<u64>().ok()?;
        row.by_parts += by_parts.parse::<u64>().ok()?;
        row.verdict = verdict.to_owned();
        let (parameter, byte) = (parameter.parse().ok()?, byte.parse().ok()?);
        let parts = [some.parse().ok()?, all.parse().ok()?];
        let found = kind.map(|kind| Found { kind, parameter, byte, parts });
        row.found = row.found.take().or(found);
        for (kept, new) in [(&mut row.left_out, left_out), (&mut row.no_parts, no_parts)] {
            if kept.is_empty() {
                new.clone_into(kept);
            }
        }
    }
    Some(rows)
}

impl Row {
    fn answer(&self) -> &'static str {
        match &self.found {
            Some(found) => match found.kind {
                Kind::Twice => "not idempotent",
                Kind::Part => "not idempotent after a part",
                Kind::Noise => "differs by itself",
            },
            None if self.checked == 0 => "not checked",
            None => "no counter-example",
        }
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(Found { kind, parameter, byte, parts: [some, all] }) = &self.found {
            let how = match kind {
                Kind::Twice => "when it ran on its own result".to_owned(),
                Kind::Part => {
                    format!("when {some} of {all} parts of its blocks ran before the whole")
                }
                Kind::Noise => "when it ran on the same memory".to_owned(),
            };
            let place = format!("byte {byte} of the memory of parameter {parameter}");
            reasons.push(format!("{}: it left another value {how}: {place}", self.answer()));
        }
        if !self.left_out.is_empty() {
            reasons.push(format!("launches that were not checked: {}", self.left_out));
        }
        if !self.no_parts.is_empty() {
            reasons.push(format!("not run by parts: {}", self.no_parts));
        }
        reasons
    }
}

/// Meaning of the columns.
const LEGEND: &str = "\
launches   launches that were seen; checked are those whose kernel ran again
by parts   launches of which a part of the blocks ran before the whole
text says  whether the whole kernel may run again, as its text tells
found      what running it again left: a counter-example, or none";

fn lines(rows: &BTreeMap<String, Row>) -> Vec<String> {
    if rows.is_empty() {
        return vec!["no launches of kernels were seen".into()];
    }
    let mut table = table(&["kernel", "launches", "checked", "by parts", "text says", "found"]);
    for (name, row) in rows {
        let numbers = [row.launches, row.checked, row.by_parts].map(|number| number.to_string());
        let [launches, checked, by_parts] = &numbers;
        let name = shortened(&demangled(name));
        table.add_row([name.as_str(), launches, checked, by_parts, &row.verdict, row.answer()]);
    }
    let mut lines = vec![table.to_string(), String::new(), LEGEND.into(), String::new()];
    for (name, row) in rows.iter().map(|(name, row)| (demangled(name), row)) {
        lines.extend(row.reasons().into_iter().map(|reason| format!("{name}: {reason}")));
    }
    lines
}

fn as_json(name: &str, row: &Row) -> Value {
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let found = row.found.as_ref();
    let parts = found.filter(|found| found.kind == Kind::Part).map(|found| found.parts);
    json!({
        "kernel": name,
        "demangled": demangled(name),
        "launches": row.launches,
        "checked": row.checked,
        "by_parts": row.by_parts,
        "text": row.verdict,
        "found": row.answer(),
        "parameter": found.map(|found| found.parameter),
        "byte": found.map(|found| found.byte),
        "parts": parts,
        "left_out": text(&row.left_out),
        "no_parts": text(&row.no_parts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_processes_are_one_row() {
        let text = "k\t5\t3\t0\tunknown\ttwice\t1\t8\t0\t0\t\tno PTX\nk\t2\t1\t0\tunknown\tnone\t0\t0\t0\t0\twhy\t\n";
        let rows = read(text).unwrap();
        let row = &rows["k"];
        assert_eq!((row.launches, row.checked, row.answer()), (7, 4, "not idempotent"));
        assert_eq!(row.reasons().len(), 3);
    }

    #[test]
    fn damaged_lines_are_refused() {
        for text in
            ["k", "k\t1\t1\t0\t\tnever\t0\t0\t0\t0\t\t", "k\tx\t1\t0\t\tnone\t0\t0\t0\t0\t\t"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
