//! Checks all documents, then makes the book where mdBook is installed.

use super::{calls, commands, diagrams, links, named, render, scripts, summary, variables};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Documents that have the names of their day.
const DATED: &[&str] = &[
    "CHANGELOG.md",
    "docs/internals/names.md",
    "docs/lab/",
    "docs/measured.md",
    "docs/research/results.md",
    "docs/results/",
];
/// Files that commands name at least, if what reads them works.
const MIN_NAMED: usize = 20;

/// Task of one call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Checks, and builds where mdBook is installed.
    Build,
    /// Writes the drawings from their texts first.
    Draw,
    /// Checks, and shows the book at a local address until interrupted.
    Serve,
}

/// Checks the documents and calls mdBook; returns `false` after printing what is wrong with a
/// document.
///
/// # Errors
///
/// Git, a file or mdBook fails, or mdBook is missing and must serve.
pub(crate) fn run(mode: Mode, target: &Path) -> Result<bool, String> {
    let list = read(summary::SUMMARY)?;
    let stale = diagrams::run(mode != Mode::Draw)?;
    let faults = [faults(&list)?, stale].concat();
    for fault in &faults {
        println!("{fault}");
    }
    if !faults.is_empty() {
        return Ok(false);
    }
    println!("{} pages: list, links, anchors and variables agree", summary::pages(&list).len());
    let book = render::copy(target, &list).map_err(|error| format!("copy of the book: {error}"))?;
    let verb = if mode == Mode::Serve { "serve" } else { "build" };
    let is_made = render::mdbook(&book, verb)?;
    if is_made {
        println!("{}", book.join("html/index.html").display());
        return Ok(true);
    }
    let remedy = "mdbook: not found; install it by `cargo install mdbook --locked`";
    if mode == Mode::Serve {
        return Err(remedy.to_owned());
    }
    println!("skipped: {remedy}");
    Ok(true)
}

fn faults(list: &str) -> Result<Vec<String>, String> {
    let documents = tracked(&["*.md"])?;
    let pages: BTreeSet<_> = summary::pages(list).into_iter().collect();
    let (mut faults, mut named) = (summary::faults(list, &documents), 0);
    for document in &documents {
        let text = read(document)?;
        let is_page = pages.contains(document);
        faults.extend(links::faults(document, &text, is_page));
        if is_page {
            faults.extend(summary::unlisted(document, &links::targets(document, &text), &pages));
        }
        if document == named::PAGE {
            faults.extend(named::faults(&text, &tracked(&[])?));
        }
        if !DATED.iter().any(|folder| document.starts_with(folder)) {
            let (lost, count) = commands::faults(document, &text);
            faults.extend(lost);
            named += count;
        }
    }
    if named <= MIN_NAMED {
        return Err(format!("commands of documents: name {named} files, must be more"));
    }
    let (mut used, mut others) = (BTreeSet::new(), BTreeSet::new());
    let sources = tracked(&["*.rs", "tools/*.sh", "tools/*.py", ".ci/run"])?;
    for source in sources.iter().filter(|path| !path.starts_with("xtask/")) {
        let text = read(source)?;
        used.extend(variables::in_source(source, &text));
        others.extend(variables::of_others(source, &text));
    }
    let programs = tracked(&["*.py", "*.sh", ".ci/run"])?;
    faults.extend(scripts::faults(&programs)?);
    faults.extend(calls::faults(&programs)?);
    let page = read(variables::PAGE)?;
    faults.extend(variables::faults(&page, &variables::constants()?, &used));
    faults.extend(variables::unlisted(&page, &others));
    Ok(faults)
}

/// Files that git tracks, or would: new ones are seen before they are committed.
fn tracked(patterns: &[&str]) -> Result<Vec<String>, String> {
    let args = ["ls-files", "--cached", "--others", "--exclude-standard", "--"];
    let output = Command::new("git").args(args).args(patterns).output();
    let output = output.map_err(|error| format!("git ls-files: {error}"))?;
    let paths = String::from_utf8_lossy(&output.stdout);
    // A file that is deleted and not committed is still listed.
    let paths: Vec<_> = paths.lines().filter(|path| Path::new(path).is_file()).collect();
    if paths.is_empty() {
        return Err("git ls-files: no tracked files, must run in a checkout".to_owned());
    }
    Ok(paths.into_iter().map(str::to_owned).collect())
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}
