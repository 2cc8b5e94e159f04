//! Hashes with which a step has passed, a line for each package.

use blake3::Hash;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folder that commits carry.
const TRACKED: &str = ".ci/passed";

/// Files that know when a step has passed: of this machine in the target folder, and of commits.
pub(super) struct Passed {
    own: PathBuf,
    tracked: PathBuf,
}

impl Passed {
    pub(super) fn of(step: &str, target: &Path) -> Self {
        let file = format!("packages_{step}");
        Self { own: target.join("gate").join(&file), tracked: Path::new(TRACKED).join(file) }
    }

    /// Packages whose hash is not one with which they have passed.
    pub(super) fn stale(&self, hashes: &BTreeMap<String, Hash>) -> BTreeSet<String> {
        let (own, tracked) = (read(&self.own), read(&self.tracked));
        let has = |known: &BTreeMap<String, String>, name: &str, hash: &str| {
            known.get(name).is_some_and(|one| one == hash)
        };
        let is_stale = |(name, hash): &(&String, &Hash)| {
            let hash = hash.to_hex();
            !has(&own, name, &hash) && !has(&tracked, name, &hash)
        };
        hashes.iter().filter(is_stale).map(|(name, _)| name.clone()).collect()
    }

    /// Notes that packages have passed with these hashes, also for commits if `REEF_GATE_RECORD` is
    /// set: then with those that had passed before.
    pub(super) fn note(
        &self,
        hashes: &BTreeMap<String, Hash>,
        failed: &BTreeSet<String>,
    ) -> Result<(), String> {
        let passed = hashes.iter().filter(|(name, _)| !failed.contains(*name));
        let lines: String =
            passed.map(|(name, hash)| format!("{name} {}\n", hash.to_hex())).collect();
        write(&self.own, &lines)?;
        match std::env::var_os("REEF_GATE_RECORD") {
            Some(_) => write(&self.tracked, &lines),
            None => Ok(()),
        }
    }
}

/// Hashes by packages; none of a file that is not there.
fn read(file: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect()
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(file, text));
    written.map_err(|error| format!("{}: {error}", file.display()))
}
