//! Each of the driver's functions has one treatment (`treatments.txt`), and those that aren't jumps
//! have a hook: a name of a new version of CUDA can't be forgotten.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const TREATMENTS: &str = include_str!("../../treatments.txt");
/// Treatments without a hook.
const JUMPS: [&str; 5] = ["plain", "overhead", "foreign", "old", "withheld"];
/// The names that programs don't find.
const WITHHELD: &str = include_str!("../../src/driver/withheld.rs");

fn names() -> BTreeSet<&'static str> {
    reef_cuda_abi::names().collect()
}

/// A name without what marks a variant for per-thread default streams.
fn base(name: &str) -> &str {
    name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name)
}

/// The treatment of each name, if no name has two.
fn treatments() -> BTreeMap<&'static str, &'static str> {
    let (mut found, mut section) = (BTreeMap::new(), "");
    for line in TREATMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            Some((name, _)) => section = name,
            None => assert_eq!(found.insert(line, section), None, "{line} has two treatments"),
        }
    }
    found
}

/// The names that the sources of hooks declare, as build.rs finds them.
fn hooked() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hooks");
    let files = std::fs::read_dir(folder).unwrap();
    let text: String =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.map(|line| line.trim_end_matches(" /")); // further names are on the next line
    let declared =
        lines.filter(|line| line.starts_with("cu")).filter_map(|line| line.split('(').next());
    declared.flat_map(|names| names.split(" / ")).map(|name| name.trim().to_owned()).collect()
}

#[test]
fn each_name_of_the_headers_has_a_treatment() {
    let treatments = treatments();
    let bases: BTreeSet<_> = names().into_iter().map(base).collect();
    let forgotten: Vec<_> = bases.iter().filter(|name| !treatments.contains_key(*name)).collect();
    assert!(forgotten.is_empty(), "no treatment in treatments.txt: {forgotten:?}");
    let unknown: Vec<_> = treatments.keys().filter(|name| !bases.contains(*name)).collect();
    assert!(unknown.is_empty(), "not among the names: {unknown:?}");
}

#[test]
fn hooks_are_those_names_whose_treatment_is_no_jump() {
    let (treatments, hooked) = (treatments(), hooked());
    for name in names() {
        let treatment = treatments[base(name)];
        let (is_jump, is_hooked) = (JUMPS.contains(&treatment), hooked.contains(name));
        assert_ne!(is_jump, is_hooked, "{name} is {treatment}, hooked: {is_hooked}");
    }
}

#[test]
fn withheld_names_are_those_that_look_ups_refuse() {
    let treatments = treatments();
    let lines = WITHHELD.lines().filter_map(|line| line.trim().strip_prefix("c\""));
    let listed = lines.filter_map(|line| line.split('"').next());
    let listed: BTreeSet<_> = listed.collect();
    let is_withheld = |name: &&str| treatments[base(name)] == "withheld";
    assert_eq!(listed, names().into_iter().filter(is_withheld).collect());
}
