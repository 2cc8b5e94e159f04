//! The command: finds hits in all tracked sources, documents and scripts, and compares them with
//! the baseline.

use super::baseline::{self, Counts};
use super::lexer::tokens;
use super::rules::{Hit, RULES};
use super::{documents, glossary, names, prose, struck};
use std::collections::BTreeMap;
use std::process::Command;

const BASELINE: &str = "xtask/words.baseline";

/// Folders whose words are not ours to choose: records, and the words that this check names.
const LEFT_OUT: &[&str] = &["docs/lab/", "docs/results/", "xtask/src/words/"];

const HELP: &str = "\
cargo xtask words                check against xtask/words.baseline
cargo xtask words --list [PATH]  print all hits, or those of a file or folder
cargo xtask words --update       write the baseline anew; refused if a folder has more hits

The rules, by their numbers in docs/internals/words.md:";

/// Hits of each file, by its path.
type Hits = BTreeMap<String, Vec<Hit>>;

/// Runs `cargo xtask words` with these arguments. Returns whether all is well.
pub(crate) fn run(args: &[&str]) -> Result<bool, String> {
    match *args {
        [] => check(),
        ["--update"] => update(),
        ["--list"] => list(""),
        ["--list", path] => list(path),
        _ => {
            println!("{HELP}");
            RULES.iter().for_each(|(number, text)| println!("  {number:>2}  {text}"));
            Ok(matches!(args, ["--help" | "-h"]))
        }
    }
}

fn check() -> Result<bool, String> {
    let hits = all_hits()?;
    let allowed = read_baseline()?;
    let now = count(&hits);
    let faults = glossary::faults(&read(glossary::FILE)?, &tracked(&[])?);
    faults.iter().for_each(|fault| println!("{fault}"));
    let mut is_well = faults.is_empty();
    for ((path, rule), found) in &now {
        let allowed = allowed.get(&(path.clone(), *rule)).copied().unwrap_or(0);
        if *found > allowed {
            is_well = false;
            println!("{path}: rule {rule}: {found} hits, at most {allowed} allowed");
            hits[path].iter().filter(|hit| hit.rule == *rule).for_each(|hit| print_hit(path, hit));
        }
    }
    let (found, most) = (now.values().sum::<usize>(), allowed.values().sum::<usize>());
    println!("words: {found} hits, {most} in the baseline");
    if !is_well {
        println!("`cargo xtask words --help` says what the rules are");
    } else if found < most {
        println!("fewer than the baseline: lower it by `cargo xtask words --update`");
    }
    Ok(is_well)
}

fn list(path: &str) -> Result<bool, String> {
    let hits = all_hits()?;
    let mut sums: BTreeMap<u32, usize> = BTreeMap::new();
    for (file, hits) in hits.iter().filter(|(file, _)| file.starts_with(path)) {
        for hit in hits {
            print_hit(file, hit);
            *sums.entry(hit.rule).or_default() += 1;
        }
    }
    sums.iter().for_each(|(rule, sum)| println!("rule {rule}: {sum}"));
    println!("all: {}", sums.values().sum::<usize>());
    Ok(true)
}

fn update() -> Result<bool, String> {
    let now = count(&all_hits()?);
    let before = std::fs::exists(BASELINE).is_ok_and(|exists| exists).then(read_baseline);
    if let Some(before) = before.transpose()? {
        let raised = baseline::raised(&before, &now);
        if !raised.is_empty() {
            raised.iter().for_each(|line| println!("{line}"));
            println!("words: the baseline is not written: its numbers only fall");
            return Ok(false);
        }
    }
    std::fs::write(BASELINE, baseline::write(&now)).map_err(|e| format!("{BASELINE}: {e}"))?;
    println!("words: {} hits written to {BASELINE}", now.values().sum::<usize>());
    Ok(true)
}

fn print_hit(path: &str, hit: &Hit) {
    println!("{path}:{}: rule {}: {}", hit.line, hit.rule, hit.text);
}

fn read_baseline() -> Result<Counts, String> {
    baseline::parse(&read(BASELINE)?).map_err(|e| format!("{BASELINE}: {e}"))
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn count(hits: &Hits) -> Counts {
    let mut counts = Counts::new();
    for (path, hits) in hits {
        for hit in hits {
            *counts.entry((path.clone(), hit.rule)).or_default() += 1;
        }
    }
    counts
}

fn all_hits() -> Result<Hits, String> {
    let mut all = Hits::new();
    for path in tracked(&["*.rs", "*.md", "*.py", "*.sh"])? {
        let is_ours = !LEFT_OUT.iter().any(|folder| path.starts_with(folder));
        // A file may be deleted and not yet committed.
        let text = std::fs::read_to_string(&path).ok().filter(|_| is_ours);
        let Some(text) = text else { continue };
        let mut hits = hits_in(&path, &text);
        hits.sort();
        all.insert(path, hits);
    }
    Ok(all)
}

/// Hits in one file. A script is checked for struck names alone.
pub(super) fn hits_in(path: &str, text: &str) -> Vec<Hit> {
    if path.ends_with(".rs") {
        let mut hits = hits_of(text);
        hits.extend(struck::hits(path, &tokens(text)));
        return hits;
    }
    let mut hits = struck::in_document(path, text);
    if path.ends_with(".md") {
        hits.extend(documents::hits(text));
    }
    hits
}

/// Hits in one source file, in the order of their lines.
pub(super) fn hits_of(source: &str) -> Vec<Hit> {
    let tokens = tokens(source);
    let mut hits = prose::hits(source, &tokens);
    hits.extend(names::hits(&tokens));
    hits.sort();
    hits
}

/// Files that git tracks, or would: new ones are seen before they are committed.
fn tracked(patterns: &[&str]) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]).args(patterns);
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    let text = String::from_utf8(output.stdout).map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(text.lines().map(str::to_owned).collect())
}
