//! The command.

use super::passed::Passed;
use super::workspace::{Packages, metadata, packages};
use super::{files, hashes, unify};
use crate::cargo::cargo;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A step that cargo takes for some packages.
struct Step {
    name: &'static str,
    /// Arguments before the packages, and behind them.
    arguments: [&'static str; 2],
    variable: Option<(&'static str, &'static str)>,
    is_of: fn(&super::workspace::Package) -> bool,
}

const STEPS: &[Step] = &[
    Step { name: "tests", arguments: ["test --no-fail-fast", ""], variable: None, is_of: |_| true },
    Step {
        name: "clippy",
        arguments: ["clippy --all-targets --features cuda,hip", "-- -D warnings"],
        variable: None,
        is_of: |_| true,
    },
    Step {
        name: "docs",
        arguments: ["doc --no-deps --features cuda,hip", ""],
        variable: Some(("RUSTDOCFLAGS", "-D warnings")),
        is_of: |package| package.has_library,
    },
];

/// Takes the step for the packages whose inputs have changed. Returns whether all passed.
pub(crate) fn run(step: &str, target: &Path) -> Result<bool, String> {
    let known = || STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", ");
    let found = STEPS.iter().find(|one| one.name == step);
    let step = found.ok_or_else(|| format!("step: must be one of {}, got {step}", known()))?;
    let metadata = metadata()?;
    let mut packages = packages(&metadata);
    packages.retain(|name, package| name != unify::NAME && (step.is_of)(package));
    let all = super::workspace::packages(&metadata);
    let mut hashes = hashes::all(&all, &files::all(&all)?, &step.arguments.join(" "))?;
    hashes.retain(|name, _| packages.contains_key(name));
    let passed = Passed::of(step.name, target);
    let stale = match std::env::var_os("REEF_GATE_ALL") {
        Some(_) => hashes.keys().cloned().collect(),
        None => passed.stale(&hashes),
    };
    let (rest, count) = (packages.len() - stale.len(), stale.len());
    let names = stale.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    println!("{}: {count} packages; {rest} passed before with the same inputs", step.name);
    if count > 0 {
        println!("{}: {names}", step.name);
    }
    let end = if stale.is_empty() { End::default() } else { take(step, &packages, &stale)? };
    passed.note(&hashes, &end.failed)?;
    if step.name == "tests" {
        let Counts { passed, failed, ignored } = end.counts;
        let said = format!(
            "tests: {passed} passed, {failed} failed, {ignored} ignored, of {count} packages; \
             {rest} packages passed before with the same inputs\n"
        );
        print!("\n{said}");
        let file = target.join("gate/tests.txt");
        std::fs::write(&file, said).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(end.failed.is_empty())
}

/// Prints the files that tests and benches of these packages depend on.
pub(crate) fn print_inputs(names: &[&str]) -> Result<bool, String> {
    let all = packages(&metadata()?);
    if let Some(name) = names.iter().find(|name| !all.contains_key(**name)) {
        return Err(format!("package: must be one of the workspace, got {name}"));
    }
    let files = files::all(&all)?;
    let inputs = names.iter().flat_map(|name| hashes::files_of(&all, &files, name));
    inputs.collect::<BTreeSet<_>>().iter().for_each(|file| println!("{}", file.display()));
    Ok(true)
}

/// Tests by their ends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Counts {
    /// Adds what a test program says at its end.
    fn add(&mut self, line: &str) {
        let Some(line) = line.strip_prefix("test result: ") else { return };
        let of = |what: &str| {
            let part = line.split([';', '.']).find(|part| part.trim_end().ends_with(what));
            part.and_then(|part| part.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
        };
        self.passed += of(" passed");
        self.failed += of(" failed");
        self.ignored += of(" ignored");
    }
}

/// Packages that failed, and numbers of tests.
#[derive(Debug, Default)]
struct End {
    failed: BTreeSet<String>,
    counts: Counts,
}

/// Calls cargo. The package that unites features is in its view, and has nothing to compile.
fn take(step: &Step, packages: &Packages, stale: &BTreeSet<String>) -> Result<End, String> {
    let chosen: String = stale.iter().map(|name| format!(" -p {name}")).collect();
    let [before, behind] = step.arguments;
    let mut command = cargo(&format!("{before} -p {}{chosen} {behind}", unify::NAME));
    command.envs(step.variable);
    let (status, counts, said) = follow(&mut command)?;
    let mut failed = BTreeSet::new();
    if !status {
        let named = said.iter().filter_map(|line| failed_package(line));
        failed.extend(named.filter(|name| packages.contains_key(name)));
        if failed.is_empty() {
            failed.clone_from(stale); // it didn't come to say whose fault it is
        }
    }
    Ok(End { failed, counts })
}

/// The package that a line of cargo's list of failed test programs names.
fn failed_package(line: &str) -> Option<String> {
    line.trim().strip_prefix("`-p ")?.split([' ', '`']).next().map(str::to_owned)
}

/// Runs a command, passes on what it says, and returns whether it succeeded, its tests, and the
/// lines of its errors.
fn follow(command: &mut Command) -> Result<(bool, Counts, Vec<String>), String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (mut counts, mut said) = (Counts::default(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| pass_on(errors, std::io::stderr(), |line| said.push(line.to_owned())));
        pass_on(output, std::io::stdout(), |line| counts.add(line));
    });
    let status = child.wait().map_err(|error| format!("{command:?}: {error}"))?;
    Ok((status.success(), counts, said))
}

/// Copies lines until their end.
fn pass_on(from: Option<impl Read>, mut to: impl Write, mut see: impl FnMut(&str)) {
    let Some(from) = from else { return };
    let (mut lines, mut line) = (BufReader::new(from), Vec::new());
    while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let _ = to.write_all(&line); // the reader may have ended
        see(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_programs_are_added() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 20 passed; 3 failed; 0 ignored; 0 measured; 5 filtered out",
        ] {
            counts.add(line);
        }
        assert_eq!(counts, Counts { passed: 22, failed: 3, ignored: 1 });
    }

    #[test]
    fn failed_packages_are_those_that_cargo_lists() {
        assert_eq!(
            failed_package("    `-p reef-wire --test integration`"),
            Some("reef-wire".into())
        );
        assert_eq!(failed_package("    `-p reef-cpu --lib`"), Some("reef-cpu".into()));
        assert_eq!(failed_package("error: 2 targets failed:"), None);
    }
}
