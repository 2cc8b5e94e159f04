//! `cargo xtask quick [--since REV]`: the checks that a change is likely to fail, within minutes.
//!
//! Steps run in the order of their worth until the time is over. What has not run is listed, so
//! that an early end is not taken for a pass of all.

use crate::cargo::{CLIPPY, cargo, output};
use crate::closure::unify;
use crate::closure::workspace::{Package, Packages, metadata, owner, packages};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Time for all steps together.
const TIME: Duration = Duration::from_secs(180);
/// Interval at which a running step is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// End of a step.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    TimeOver,
}

/// Names of steps by how they ended.
#[derive(Debug, Default)]
struct Report {
    failed: Vec<String>,
    left_out: Vec<String>,
}

/// Runs the steps for what has changed since a revision: by default, since the branch left `main`.
/// Returns whether all that ran passed.
pub(crate) fn run(since: Option<&str>) -> Result<bool, String> {
    let begin = Instant::now();
    let since = since.map_or_else(fork_point, |rev| Ok(rev.to_owned()))?;
    let files = changed_files(&since)?;
    if files.is_empty() {
        println!("quick: nothing has changed since {since}");
        return Ok(true);
    }
    let packages = packages(&metadata()?);
    let changed = changed_packages(&packages, &files);
    let dependents = dependents(&packages, &changed);
    println!("quick: {} files since {since}; changed: {}", files.len(), list(&changed));
    println!("quick: dependents: {}", list(&dependents));

    let mut report = Report::default();
    for (name, command) in steps(&packages, &files, &changed, &dependents) {
        report.step(&name, command, begin);
    }
    report.print(begin.elapsed());
    Ok(report.failed.is_empty())
}

/// Steps by name, the cheapest and the likeliest to fail first.
fn steps(
    packages: &Packages,
    files: &[PathBuf],
    changed: &BTreeSet<String>,
    dependents: &BTreeSet<String>,
) -> Vec<(String, Command)> {
    let step = |name: &str, args: &str| (name.to_owned(), cargo(args));
    let mut steps = vec![
        step("fmt", "fmt --all --check"),
        step("layers", "xtask layers"),
        step("sleeps", "xtask sleeps"),
        step("words", "xtask words"),
    ];
    let is_read = |file: &PathBuf| {
        file.extension().is_some_and(|e| ["md", "txt", "py", "sh"].iter().any(|of| e == *of))
    };
    if files.iter().any(is_read) {
        steps.push(step("book", "xtask book"));
    }
    if changed.is_empty() {
        return steps;
    }
    steps.push(step("snapshots", "xtask snapshots"));
    // With all packages in view, as in the gate: cargo skips those that have not changed.
    steps.push(step("clippy", CLIPPY));
    for (whose, names) in [("changed crates", changed), ("dependents", dependents)] {
        let mut test = |what: &str, targets: &str, has_any: fn(&Package) -> bool| {
            let chosen = names.iter().filter(|name| has_any(&packages[*name]));
            let chosen: String = chosen.map(|name| format!(" -p {name}")).collect();
            if !chosen.is_empty() {
                let command =
                    cargo(&format!("test --no-fail-fast -p {}{chosen} {targets}", unify::NAME));
                steps.push((format!("{what} of {whose}"), command));
            }
        };
        test("unit tests", "--lib", |package| package.has_library);
        test("unit tests of programs", "--bins", |package| !package.has_library);
        test("integration tests", "--test *", |package| !package.tests.is_empty());
        test("examples in the docs", "--doc", |package| package.has_doctests);
    }
    steps
}

impl Report {
    /// Runs a step in the time that is left.
    fn step(&mut self, name: &str, mut command: Command, begin: Instant) {
        if begin.elapsed() >= TIME {
            return self.left_out.push(name.to_owned());
        }
        println!("== {name} (at {} s)", begin.elapsed().as_secs());
        let end = match command.spawn() {
            Ok(child) => wait(child, begin + TIME),
            Err(error) => {
                eprintln!("xtask: quick: {command:?}: {error}");
                End::Failed
            }
        };
        match end {
            End::Passed => {}
            End::Failed => self.failed.push(name.to_owned()),
            End::TimeOver => self.left_out.push(format!("{name} (begun)")),
        }
    }

    fn print(&self, took: Duration) {
        println!("\nquick: {} s of {}", took.as_secs(), TIME.as_secs());
        self.failed.iter().for_each(|name| println!("quick: FAILED: {name}"));
        let mut left_out = self.left_out.clone();
        left_out.push(
            "features, docs, benches, packages, licences, miri, tsan, hip, images: `cargo xtask ci`"
                .into(),
        );
        left_out.iter().for_each(|name| println!("quick: left out: {name}"));
    }
}

/// Waits for a process, and ends it when the time is over.
fn wait(mut child: Child, end: Instant) -> End {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return End::Passed,
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return End::TimeOver;
            }
            Ok(Some(_)) | Err(_) => return End::Failed,
        }
    }
}

fn list(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn git(args: &[&str]) -> Result<String, String> {
    output(Command::new("git").args(args)).map(|text| text.trim().to_owned())
}

/// Commit at which this branch left `main`.
fn fork_point() -> Result<String, String> {
    let main = ["origin/main", "main"];
    let known = main.iter().find(|name| git(&["rev-parse", "--verify", "--quiet", name]).is_ok());
    let main = known.ok_or("no branch main: say `--since REV`")?;
    git(&["merge-base", "HEAD", main])
}

/// Files that differ from the revision, new ones included.
fn changed_files(since: &str) -> Result<Vec<PathBuf>, String> {
    let mut text = git(&["diff", "--name-only", since])?;
    text.push('\n');
    text.push_str(&git(&["ls-files", "--others", "--exclude-standard"])?);
    Ok(text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect())
}

/// Packages that own one of the files. The workspace's manifest and lock file are of all packages,
/// and documents of none.
fn changed_packages(packages: &Packages, files: &[PathBuf]) -> BTreeSet<String> {
    let is_of_all = |file: &Path| {
        ["Cargo.toml", "Cargo.lock"].iter().any(|name| file == Path::new(name))
            || file.starts_with(".cargo")
    };
    if files.iter().any(|file| is_of_all(file)) {
        return packages.keys().cloned().collect();
    }
    files.iter().filter_map(|file| owner(packages, file)).map(str::to_owned).collect()
}

/// Packages that use a changed one, directly or not, without the changed ones. A package inside of
/// another's folder compiles that one's sources, as models of protocols do.
fn dependents(packages: &Packages, changed: &BTreeSet<String>) -> BTreeSet<String> {
    let mut reached = changed.clone();
    loop {
        let is_inside = |package: &Package| {
            let mut outer = reached.iter().map(|name| &packages[name].folder);
            outer.any(|outer| {
                !outer.as_os_str().is_empty()
                    && package.folder != *outer
                    && package.folder.starts_with(outer)
            })
        };
        let more: Vec<String> = packages
            .iter()
            .filter(|(name, _)| !reached.contains(*name))
            .filter(|(_, package)| {
                let mut uses = package.uses.iter().chain(&package.tests_use);
                uses.any(|used| reached.contains(used)) || is_inside(package)
            })
            .map(|(name, _)| name.clone())
            .collect();
        if more.is_empty() {
            return reached.difference(changed).cloned().collect();
        }
        reached.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str, uses: &[&str]) -> Package {
        let uses = uses.iter().map(|name| (*name).to_owned()).collect();
        Package {
            folder: folder.into(),
            uses,
            tests_use: BTreeSet::new(),
            has_library: true,
            has_doctests: true,
            tests: Vec::new(),
        }
    }

    fn workspace() -> Packages {
        [
            ("facade", package("", &["core", "cpu"])),
            ("core", package("core", &[])),
            ("core-loom", package("core/loom", &[])),
            ("cpu", package("cpu", &["core"])),
            ("guest", package("guest", &[])),
        ]
        .map(|(name, package)| (name.to_owned(), package))
        .into()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn changed(files: &[&str]) -> BTreeSet<String> {
        changed_packages(&workspace(), &files.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn files_belong_to_the_deepest_package_around_them() {
        assert_eq!(changed(&["core/src/lib.rs"]), names(&["core"]));
        assert_eq!(changed(&["core/loom/src/lib.rs"]), names(&["core-loom"]));
        assert_eq!(changed(&["src/lib.rs", "cpu/README.md"]), names(&["cpu", "facade"]));
        assert_eq!(changed(&["docs/hip.md", "tools/soak.sh"]), names(&[]));
    }

    #[test]
    fn lock_file_belongs_to_all_packages() {
        assert_eq!(changed(&["Cargo.lock"]).len(), workspace().len());
    }

    #[test]
    fn dependents_are_reached_through_others_and_by_folders() {
        let of = |changed: &[&str]| dependents(&workspace(), &names(changed));
        assert_eq!(of(&["core"]), names(&["core-loom", "cpu", "facade"]));
        assert_eq!(of(&["cpu"]), names(&["facade"]));
        assert_eq!(of(&["guest"]), names(&[]));
        assert_eq!(of(&["facade"]), names(&[]));
    }

    #[test]
    fn documents_alone_need_no_compiler() {
        let steps = steps(&workspace(), &["docs/hip.md".into()], &names(&[]), &names(&[]));
        let steps: Vec<_> = steps.into_iter().map(|(name, _)| name).collect();
        assert_eq!(steps, ["fmt", "layers", "sleeps", "words", "book"]);
    }

    #[test]
    fn process_is_ended_when_its_time_is_over() {
        let sleep = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(wait(sleep, Instant::now()), End::TimeOver);
        let fails = Command::new("false").spawn().unwrap();
        assert_eq!(wait(fails, Instant::now() + TIME), End::Failed);
    }
}
