//! Circles between the files and folders of one folder.

use super::resolve::Arrow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Components, PathBuf};

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
            (a, b) => return (folder, entry(a, from), entry(b, to)),
        }
    }
}

/// An entry of a folder. Files of another crate are there by their folder in its `src`, as models
/// compile some of them.
fn entry(first: Option<Component<'_>>, rest: Components<'_>) -> PathBuf {
    let mut all = first.into_iter().chain(rest).peekable();
    let mut entry = PathBuf::new();
    while let Some(Component::ParentDir) = all.peek() {
        entry.extend(all.next());
    }
    let more = if entry.as_os_str().is_empty() { 1 } else { 2 };
    entry.extend(all.take(more));
    entry
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_another_crate_are_apart() {
        let of = |path: &str| {
            let path = PathBuf::from(path);
            let mut parts = path.components();
            entry(parts.next(), parts)
        };
        assert_eq!(of("../../src/hold/holders.rs"), PathBuf::from("../../src/hold"));
        assert_eq!(of("../../src/registry/gates.rs"), PathBuf::from("../../src/registry"));
        assert_eq!(of("page/mod.rs"), PathBuf::from("page"));
        assert_eq!(of("page.rs"), PathBuf::from("page.rs"));
    }
}
