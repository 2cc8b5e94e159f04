//! `--help` of all commands, as files in `tests/snapshots/help/`: a change of the command line
//! shows in a review.
//!
//! `REEF_UPDATE_SNAPSHOTS=1` writes them anew.

// The software gfx906 adds an option to every command.
#![cfg(not(feature = "gfx906-sim"))]

use crate::common::prints;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Folder of the snapshots: a file for each command of the first level, which has those below it as
/// well.
const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/help");
/// Page of the book with all of them.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/command.md");
/// Variable that has them written.
const UPDATE: &str = "REEF_UPDATE_SNAPSHOTS";

/// Adds the help of a command, and of all below it.
fn collect(path: &[&str], all: &mut String) {
    let help = prints(&[path, &["--help"]].concat());
    let name = path.iter().map(|part| format!(" {part}")).collect::<String>();
    all.push_str(&format!("$ reef{name} --help\n{help}\n"));
    for command in subcommands(&help) {
        collect(&[path, &[command]].concat(), all);
    }
}

/// Names in the section `Commands:`, without `help`.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| line.starts_with("  "));
    let names = names.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// The help of each command of the first level by its name, and that of `reef` itself.
fn snapshots() -> BTreeMap<String, String> {
    let top = prints(&["--help"]);
    let names = subcommands(&top);
    assert!(names.len() > 10, "{top}");
    let mut all: BTreeMap<String, String> = names
        .iter()
        .map(|name| {
            let mut text = String::new();
            collect(&[name], &mut text);
            ((*name).to_owned(), text)
        })
        .collect();
    all.insert("reef".into(), format!("$ reef --help\n{top}"));
    all
}

#[test]
fn help_of_every_command_equals_its_snapshot() {
    let (folder, have) = (Path::new(SNAPSHOTS), snapshots());
    if std::env::var_os(UPDATE).is_some() {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).unwrap();
        for (name, text) in &have {
            fs::write(folder.join(name).with_extension("txt"), text).unwrap();
        }
    }
    let files = fs::read_dir(folder).expect("snapshots").map(|entry| entry.unwrap().path());
    let want: BTreeMap<String, String> = files
        .map(|file| {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&file).unwrap())
        })
        .collect();
    let names = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&have), names(&want), "{UPDATE}=1 writes them anew");
    for (name, text) in &have {
        let differs = text.lines().zip(want[name].lines()).find(|(have, want)| have != want);
        assert!(
            *text == want[name],
            "help of {name}, first {differs:?}; {UPDATE}=1 writes it anew"
        );
    }
}

#[test]
fn page_of_the_command_has_every_snapshot() {
    let page = fs::read_to_string(PAGE).unwrap();
    let files = fs::read_dir(SNAPSHOTS).expect("snapshots").map(|entry| entry.unwrap().path());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let include = format!("{{{{#include ../../crates/reef-cli/tests/snapshots/help/{name}}}}}");
        assert!(page.contains(&include), "{PAGE} must have {include}");
    }
}
