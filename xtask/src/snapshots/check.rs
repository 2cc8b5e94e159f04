//! The command: makes the snapshots and compares them with the tracked ones.

use super::crates::Crate;
use super::{api, crates, errors, keys, metrics, versions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = "tests/snapshots";

/// Subfolders that hold files of this check alone.
const OWN: &[&str] = &["api", "errors", "json"];

const HELP: &str = "\
cargo xtask snapshots           compare the sources with tests/snapshots
cargo xtask snapshots --update  write tests/snapshots anew

api/CRATE.txt     public items: names, signatures, fields
errors/CRATE.txt  texts of errors
json/CRATE.txt    keys of JSON, each with the number of places that have it
metrics.txt       names of metrics: the daemon's, and those of servers of devices
versions.txt      numbers of formats and protocols

A test keeps the help of commands in the same way: `REEF_UPDATE_SNAPSHOTS=1 cargo test -p reef-cli
--test help` writes it anew.";

/// Texts of snapshots by their files.
type Snapshots = BTreeMap<PathBuf, String>;

/// Runs `cargo xtask snapshots` with these arguments. Returns whether all is well.
pub(crate) fn run(args: &[&str]) -> Result<bool, String> {
    match *args {
        [] => check(&snapshots()?),
        ["--update"] => update(&snapshots()?),
        _ => {
            println!("{HELP}");
            Ok(matches!(args, ["--help" | "-h"]))
        }
    }
}

fn snapshots() -> Result<Snapshots, String> {
    let crates = crates::all(&manifests()?)?;
    let mut all = Snapshots::new();
    let folder = Path::new(FOLDER);
    let (mut numbers, mut names) = (BTreeSet::new(), BTreeSet::new());
    for of in &crates {
        if of.is_library {
            add(&mut all, "api", of, &api::lines(of));
        }
        add(&mut all, "errors", of, &errors::lines(of));
        add(&mut all, "json", of, &keys::lines(of));
        numbers.extend(versions::lines(of));
        if ["reef-remote", "reef-serve"].contains(&&*of.name) {
            names.extend(metrics::lines(of));
        }
    }
    all.insert(folder.join("metrics.txt"), joined(&names));
    all.insert(folder.join("versions.txt"), joined(&numbers));
    Ok(all)
}

fn add(all: &mut Snapshots, kind: &str, of: &Crate, lines: &BTreeSet<String>) {
    if !lines.is_empty() {
        let file = Path::new(FOLDER).join(kind).join(format!("{}.txt", of.name));
        all.insert(file, joined(lines));
    }
}

fn joined(lines: &BTreeSet<String>) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn manifests() -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*Cargo.toml"]);
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Files of this check that are there now.
fn tracked() -> Vec<PathBuf> {
    let folders = OWN.iter().filter_map(|own| std::fs::read_dir(Path::new(FOLDER).join(own)).ok());
    folders.flatten().flatten().map(|entry| entry.path()).collect()
}

fn check(now: &Snapshots) -> Result<bool, String> {
    let mut is_well = true;
    for (file, text) in now {
        let before = std::fs::read_to_string(file).unwrap_or_default();
        let changes = changes(&before, text);
        if !changes.is_empty() {
            println!("{}", file.display());
            changes.iter().for_each(|line| println!("  {line}"));
            is_well = false;
        }
    }
    for file in tracked().iter().filter(|file| !now.contains_key(*file)) {
        println!("{}: of no crate", file.display());
        is_well = false;
    }
    println!("snapshots: {} files", now.len());
    if !is_well {
        println!(
            "if the changes are meant: `cargo xtask snapshots --update`, and say so in CHANGELOG.md"
        );
    }
    Ok(is_well)
}

/// Lines that only one of two texts has, those of the old one with a minus.
pub(super) fn changes(old: &str, new: &str) -> Vec<String> {
    let [of_old, of_new] = [old, new].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = of_old.difference(&of_new).map(|line| format!("- {line}"));
    let added = of_new.difference(&of_old).map(|line| format!("+ {line}"));
    gone.chain(added).collect()
}

fn update(now: &Snapshots) -> Result<bool, String> {
    let fault = |file: &Path, error| format!("{}: {error}", file.display());
    for file in tracked().iter().filter(|file| !now.contains_key(*file)) {
        std::fs::remove_file(file).map_err(|error| fault(file, error))?;
    }
    for (file, text) in now {
        let folder = file.parent().unwrap_or(Path::new(FOLDER));
        std::fs::create_dir_all(folder).map_err(|error| fault(folder, error))?;
        std::fs::write(file, text).map_err(|error| fault(file, error))?;
    }
    println!("snapshots: {} files written", now.len());
    Ok(true)
}
