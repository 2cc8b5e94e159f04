//! Circles between the files and folders of one folder.

use super::resolve::Arrow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Entries of a folder that need each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle<'a> {
    pub(super) folder: PathBuf,
    pub(super) entries: BTreeSet<PathBuf>,
    pub(super) arrows: Vec<Arrow<'a>>,
}

type Needs = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// All circles of a crate.
pub(super) fn circles<'a>(arrows: &[Arrow<'a>]) -> Vec<Circle<'a>> {
    let mut folders: BTreeMap<PathBuf, Needs> = BTreeMap::new();
    for arrow in arrows {
        let (folder, from, to) = meeting(arrow);
        folders.entry(folder).or_default().entry(from).or_default().insert(to);
    }
    let all = folders.into_iter().flat_map(|(folder, needs)| {
        knots(&needs).into_iter().map(move |entries| (folder.clone(), entries))
    });
    all.map(|(folder, entries)| {
        let inside = |arrow: &&Arrow<'a>| {
            let (at, from, to) = meeting(arrow);
            at == folder && entries.contains(&from) && entries.contains(&to)
        };
        let arrows = arrows.iter().filter(inside).cloned().collect();
        Circle { folder, entries, arrows }
    })
    .collect()
}

/// The deepest folder that holds both ends, and its entries that lead to them.
fn meeting(arrow: &Arrow<'_>) -> (PathBuf, PathBuf, PathBuf) {
    let (mut from, mut to) = (arrow.from.components(), arrow.to.components());
    let mut folder = PathBuf::new();
    loop {
        match (from.next(), to.next()) {
            (Some(a), Some(b)) if a == b => folder.push(a),
            (a, b) => {
                let entry = |c: Option<std::path::Component<'_>>| {
                    c.map(|c| Path::new(&c).to_path_buf()).unwrap_or_default()
                };
                return (folder, entry(a), entry(b));
            }
        }
    }
}

/// Sets of entries each of which reaches all others of its set.
fn knots(needs: &Needs) -> Vec<BTreeSet<PathBuf>> {
    let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        needs.keys().map(|entry| (entry, reached(needs, entry))).collect();
    let mut knots: Vec<BTreeSet<PathBuf>> = Vec::new();
    for (entry, reached) in &reach {
        if !reached.contains(*entry) || knots.iter().any(|knot| knot.contains(*entry)) {
            continue;
        }
        let back = |other: &&&PathBuf| reach.get(**other).is_some_and(|r| r.contains(*entry));
        knots.push(reached.iter().filter(back).map(|&other| other.clone()).collect());
    }
    knots
}

fn reached<'a>(needs: &'a Needs, from: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&PathBuf> = needs.get(from).into_iter().flatten().collect();
    while let Some(entry) = next.pop() {
        if seen.insert(entry) {
            next.extend(needs.get(entry).into_iter().flatten());
        }
    }
    seen
}
