//! The table of folders in ARCHITECTURE.md: what each package depends on, as its manifest says.

use super::workspace::Packages;
use std::collections::BTreeSet;
use std::path::Path;

const FILE: &str = "ARCHITECTURE.md";
const HEAD: &str = "| folder | holds | depends on |";

/// Says which rows name a package that is not used, or leave out one that none of the named uses.
pub(super) fn faults(packages: &Packages) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let rows = text.lines().skip_while(|line| *line != HEAD).skip(2);
    let rows: Vec<_> = rows.map_while(row).collect();
    if rows.is_empty() {
        return Err(format!("{FILE}: must have a table with the head \"{HEAD}\""));
    }
    Ok(rows.iter().flat_map(|(folder, named)| faults_of(packages, folder, named)).collect())
}

/// Folder and packages of a row: those of the folder itself, which come before a semicolon.
fn row(line: &str) -> Option<(String, Vec<String>)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let folder = cells.next()?.trim_matches('`').trim_end_matches('/');
    let named = cells.next_back().filter(|cell| cell.is_empty()).and(cells.next_back())?;
    let named = named.split(';').next()?.split(", ").filter(|name| *name != "–");
    Some((folder.to_owned(), named.flat_map(packages_of).collect()))
}

/// Packages that the table calls so.
fn packages_of(name: &str) -> Vec<String> {
    let names: &[&str] = match name {
        "backends" => &["cpu", "cuda", "hip"],
        "facade" => &["rt"],
        "core" => &["rt-core"],
        "images" => {
            &["cuda-images-sm70", "cuda-images-sm80", "cuda-images-sm86", "cuda-images-sm90"]
        }
        "calls" => &["remote-calls"],
        "worker" => &["remote-worker"],
        _ => &[name],
    };
    names.iter().map(|name| format!("reef-{name}")).collect()
}

fn faults_of(packages: &Packages, folder: &str, named: &[String]) -> Vec<String> {
    let folder = if folder == "src" { "" } else { folder };
    let Some(package) = packages.values().find(|one| one.folder == Path::new(folder)) else {
        return Vec::new(); // a folder of several packages, or of none
    };
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = named.iter().collect();
    while let Some(name) = next.pop() {
        if reached.insert(name) {
            next.extend(packages.get(name).into_iter().flat_map(|one| &one.uses));
        }
    }
    let unused = named.iter().filter(|name| !package.uses.contains(*name));
    let left_out = package.uses.iter().filter(|name| !reached.contains(name));
    let unused = unused.map(|name| format!("names {name}, on which it doesn't depend"));
    let left_out = left_out.map(|name| format!("must name {name}, or one that depends on it"));
    unused.chain(left_out).map(|fault| format!("{FILE}: row of `{folder}/`: {fault}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::workspace::Package;

    fn package(folder: &str, uses: &[&str]) -> Package {
        Package {
            folder: folder.into(),
            uses: uses.iter().map(|name| (*name).to_owned()).collect(),
            tests_use: BTreeSet::new(),
            has_library: true,
            has_doctests: false,
            tests: Vec::new(),
        }
    }

    #[test]
    fn row_names_all_that_is_used_and_no_more() {
        let packages: Packages = [
            ("reef-low", package("low", &[])),
            ("reef-middle", package("middle", &["reef-low"])),
            ("reef-top", package("top", &["reef-low", "reef-middle"])),
        ]
        .map(|(name, package)| (name.to_owned(), package))
        .into();
        let faults = |line| {
            let (folder, named) = row(line).expect("a row");
            faults_of(&packages, &folder, &named).len()
        };
        assert_eq!(faults("| `top/` | of all | middle |"), 0);
        assert_eq!(faults("| `top/` | of all | low, middle; tests: more |"), 0);
        assert_eq!(faults("| `top/` | of all | low |"), 1, "one is left out");
        assert_eq!(faults("| `low/` | of all | – |"), 0);
        assert_eq!(faults("| `low/` | of all | middle |"), 1, "one is not used");
        assert_eq!(faults("| `low/ top/` | of all | middle |"), 0, "of several packages");
    }
}
