//! Test programs: each is linked with all that is below it, so a package has one, unless tests need
//! a process of their own. Those are listed with their reason.

use super::workspace::{Package, Packages};
use std::collections::BTreeMap;

/// Lines of a package, a program and its reason.
const LIST: &str = "xtask/test_programs.txt";

/// Says which programs are not listed and not the only one, and which lines name none.
pub(super) fn faults(packages: &Packages) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(LIST).map_err(|error| format!("{LIST}: {error}"))?;
    Ok(compare(packages, &text))
}

fn compare(packages: &Packages, list: &str) -> Vec<String> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut listed: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut all = Vec::new();
    for line in lines {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next().map(str::trim)) {
            (Some(package), Some(program), Some(reason)) if !reason.is_empty() => {
                listed.insert((package.into(), program.into()), reason.into());
            }
            _ => all.push(format!("{LIST}: must be PACKAGE PROGRAM REASON, got {line:?}")),
        }
    }
    for (name, package) in packages {
        all.extend(not_listed(name, package, &mut listed));
    }
    let gone = listed.keys().map(|(package, program)| {
        format!("{LIST}: {package} {program} must be a test program next to another one")
    });
    all.extend(gone);
    all
}

/// Takes a package's programs from the list. One may be without a line.
fn not_listed(
    name: &str,
    package: &Package,
    listed: &mut BTreeMap<(String, String), String>,
) -> Option<String> {
    let others = package
        .tests
        .iter()
        .filter(|program| listed.remove(&(name.to_owned(), (*program).clone())).is_none());
    let others: Vec<&str> = others.map(String::as_str).collect();
    let fault = format!(
        "{name}: must have one test program and those that {LIST} gives a reason for, got {}",
        others.join(", ")
    );
    (others.len() > 1).then_some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(tests: &[&str]) -> Packages {
        let package = Package {
            folder: "core".into(),
            uses: Default::default(),
            tests_use: Default::default(),
            has_library: true,
            has_doctests: false,
            tests: tests.iter().map(|name| (*name).to_owned()).collect(),
        };
        [("core".to_owned(), package)].into()
    }

    #[test]
    fn second_program_needs_a_reason() {
        let faults = |tests: &[&str], list| compare(&packages(tests), list).len();
        assert_eq!(faults(&["integration"], ""), 0);
        assert_eq!(faults(&["integration", "lost"], ""), 1);
        assert_eq!(faults(&["integration", "lost"], "# why\ncore lost  the device is lost\n"), 0);
        assert_eq!(faults(&["integration", "lost"], "core lost\n"), 2, "no reason");
    }

    #[test]
    fn line_of_a_program_that_is_gone_is_a_fault() {
        let faults = compare(&packages(&["integration"]), "core lost it is gone\n");
        assert_eq!(faults.len(), 1, "{faults:?}");
    }
}
