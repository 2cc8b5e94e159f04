//! `cargo xtask ci` runs every check that CI runs; `cargo xtask quick` those that a change is
//! likely to fail, within minutes; `cargo xtask CHECK` runs one.

mod book;
mod cargo;
mod closure;
mod layers;
mod quick;
mod release;
mod sleeps;
mod snapshots;
mod tables;
mod words;

use cargo::{CLIPPY, cargo};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A check: its name, whether `ci` runs it, what it is for, and its commands.
struct Check {
    name: &'static str,
    in_ci: bool,
    what: &'static str,
    commands: fn() -> Vec<Command>,
}

const CHECKS: &[Check] = &[
    Check { name: "fmt", in_ci: true, what: "formatting", commands: fmt },
    Check { name: "clippy", in_ci: true, what: "lints, on everything", commands: clippy },
    Check {
        name: "layers",
        in_ci: true,
        what: "imports inside of a crate run down; `layers --crate NAME` checks one crate",
        commands: layers,
    },
    Check {
        name: "sleeps",
        in_ci: true,
        what: "a sleep in a test has its reason next to it, as `// sleep: why`",
        commands: sleeps,
    },
    Check {
        name: "words",
        in_ci: true,
        what: "words and names follow docs/internals/words.md; `words --list`, `--update`",
        commands: words,
    },
    Check {
        name: "snapshots",
        in_ci: true,
        what: "public items, errors, JSON keys and versions are those of tests/snapshots; `--update`",
        commands: snapshots,
    },
    Check {
        name: "test",
        in_ci: true,
        what: "all tests, models of protocols included",
        commands: test,
    },
    Check {
        name: "features",
        in_ci: true,
        what: "each set of backends builds",
        commands: features,
    },
    Check {
        name: "left-out",
        in_ci: true,
        what: "`reef` without its daemon and benches; replaces target/debug/reef, which tests run",
        commands: left_out,
    },
    Check { name: "docs", in_ci: true, what: "documentation without warnings", commands: docs },
    Check {
        name: "benches",
        in_ci: true,
        what: "each bench and example runs once",
        commands: benches,
    },
    Check {
        name: "miri",
        in_ci: true,
        what: "the ring and shared words under miri (nightly)",
        commands: miri,
    },
    Check {
        name: "tsan",
        in_ci: true,
        what: "conformance under ThreadSanitizer (nightly)",
        commands: tsan,
    },
    Check {
        name: "hip",
        in_ci: true,
        what: "conformance and networks on AMD's runtime over a software gfx906",
        commands: hip,
    },
    Check {
        name: "hip --long",
        in_ci: false,
        what: "the same with four times as many preemptions of each case",
        commands: hip_long,
    },
    Check {
        name: "stale --check",
        in_ci: true,
        what: "test programs, examples, inputs and the table of packages; `stale tests|clippy|docs` runs a step where it is needed",
        commands: stale_check,
    },
    Check {
        name: "kernels --check",
        in_ci: true,
        what: "images of device code are those of kernels/*.cu; `kernels --check SOURCE…` of some",
        commands: kernels_check,
    },
    Check {
        name: "kernels",
        in_ci: false,
        what: "makes the images of device code anew; `kernels SOURCE…` those of some sources",
        commands: kernels,
    },
    Check {
        name: "tables --check",
        in_ci: true,
        what: "docs/measured.md is what docs/results say; without --check: makes it",
        commands: tables_check,
    },
    Check {
        name: "book",
        in_ci: true,
        what: "links, pages, files and variables of the documents, and scripts; `book serve` shows a book, `book draw` makes drawings",
        commands: book,
    },
    Check {
        name: "licenses",
        in_ci: true,
        what: "licences and sources of dependencies are those of .cargo/deny.toml; installs cargo-deny",
        commands: licenses,
    },
    Check {
        name: "packages",
        in_ci: true,
        what: "packages build by themselves, and README's example from them",
        commands: packages,
    },
    Check {
        name: "release --check",
        in_ci: true,
        what: "order of the packages, changelog; `release --dry-run` makes and tries a release",
        commands: release_check,
    },
    Check {
        name: "fuzz",
        in_ci: false,
        what: "fuzz targets compile (nightly); tools/fuzz.sh runs them",
        commands: fuzz,
    },
    Check {
        name: "stress",
        in_ci: false,
        what: "conformance with 20000 preemptions",
        commands: stress,
    },
];

/// Checks go by paths from the workspace's root, from whichever of its folders cargo was called.
fn enter_workspace() -> std::io::Result<()> {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => std::env::set_current_dir(PathBuf::from(package).join("..")),
        None => Ok(()), // called without cargo
    }
}

/// Status of a command that wrote to a pipe without a reader: 128 and the number of `SIGPIPE`.
const UNREAD: i32 = 141;

/// Ends quietly where `println!` panics because the reader of its lines has gone, as `head` goes.
fn end_if_unread() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match panic.payload_as_str() {
        Some(said) if said.starts_with("failed printing to stdout: Broken pipe") => {
            std::process::exit(UNREAD)
        }
        _ => usual(panic),
    }));
}

fn main() -> ExitCode {
    end_if_unread();
    if let Err(error) = enter_workspace() {
        eprintln!("xtask: the workspace's folder: {error}");
        return ExitCode::FAILURE;
    }
    let asked: Vec<String> = std::env::args().skip(1).collect();
    match asked.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["quick"] => return ended("quick", quick::run(None)),
        ["quick", "--since", since] => return ended("quick", quick::run(Some(since))),
        ["stale", "--check"] => return ended("stale", closure::check::run(false)),
        ["stale", "--update"] => return ended("stale", closure::check::run(true)),
        ["stale", "--inputs", ref names @ ..] => {
            return ended("stale", closure::run::print_inputs(names));
        }
        ["stale", step] => return ended("stale", closure::run::run(step, &target())),
        ["sleeps"] => return ended("sleeps", sleeps::run()),
        ["layers"] => return ended("layers", layers::check::run(None)),
        ["layers", "--crate", name] => return ended("layers", layers::check::run(Some(name))),
        ["words", ref args @ ..] => return ended("words", words::check::run(args)),
        ["snapshots", ref args @ ..] => return ended("snapshots", snapshots::check::run(args)),
        ["book"] => return ended("book", book::check::run(book::check::Mode::Build, &target())),
        ["book", "draw"] => {
            return ended("book", book::check::run(book::check::Mode::Draw, &target()));
        }
        ["book", "serve"] => {
            return ended("book", book::check::run(book::check::Mode::Serve, &target()));
        }
        ["release", ref args @ ..] => return ended("release", release::run::run(args, &target())),
        ["kernels", ref args @ ..] => return kernels_of(args),
        ["tables"] => return tables(false),
        ["tables", "--check"] => return tables(true),
        _ => {}
    }
    let chosen: Vec<&Check> = match asked.join(" ").as_str() {
        "ci" => CHECKS.iter().filter(|check| check.in_ci).collect(),
        name => CHECKS.iter().filter(|check| check.name == name).collect(),
    };
    if chosen.is_empty() {
        println!("cargo xtask ci | quick [--since REV] | CHECK");
        for check in CHECKS {
            println!("  {:<15} {}", check.name, check.what);
        }
        return ExitCode::from(2);
    }
    let (mut failed, mut skipped, mut count) = (Vec::new(), Vec::new(), 0);
    for check in chosen {
        let ends = check.run();
        if ends.failed > 0 {
            failed.push(check.name);
        }
        if ends.skipped > 0 {
            skipped.push(check.name);
            count += ends.skipped;
        }
    }
    if count > 0 {
        println!("xtask: skipped {count}, for the reasons above: {}", skipped.join(", "));
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("xtask: failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Status of a command that cannot run on this machine and has printed why, as for `.ci/run`.
const SKIPPED: i32 = 77;

/// Numbers of a check's commands that did not pass.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ends {
    failed: usize,
    skipped: usize,
}

impl Check {
    /// Runs all commands, also after one that fails.
    fn run(&self) -> Ends {
        println!("== {}: {}", self.name, self.what);
        let mut ends = Ends::default();
        for mut command in (self.commands)() {
            match command.status().ok().and_then(|status| status.code()) {
                Some(0) => {}
                Some(SKIPPED) => ends.skipped += 1,
                _ => {
                    eprintln!("xtask: {} failed: {command:?}", self.name);
                    ends.failed += 1;
                }
            }
        }
        ends
    }
}

fn tables(is_check: bool) -> ExitCode {
    match tables::run(is_check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: tables: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Tells of a check that could not run; a check tells itself of what it finds.
fn ended(name: &str, result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {name}: {error}");
            ExitCode::from(2)
        }
    }
}

fn fmt() -> Vec<Command> {
    vec![cargo("fmt --all --check")]
}

fn clippy() -> Vec<Command> {
    vec![cargo(CLIPPY)]
}

fn stale_check() -> Vec<Command> {
    vec![cargo("xtask stale --check")]
}

fn layers() -> Vec<Command> {
    vec![cargo("xtask layers")]
}

fn sleeps() -> Vec<Command> {
    vec![cargo("xtask sleeps")]
}

fn snapshots() -> Vec<Command> {
    vec![cargo("xtask snapshots")]
}

fn words() -> Vec<Command> {
    vec![cargo("xtask words")]
}

fn test() -> Vec<Command> {
    vec![cargo("test --workspace --no-fail-fast")]
}

fn features() -> Vec<Command> {
    // Of any two of the first four features each combination is in one of these sets.
    let mut commands: Vec<Command> = [
        "",
        "cuda,hip,models",
        "cpu,hip,images,remote",
        "cpu,cuda,models,perfetto",
        "cpu,cuda,hip,remote",
    ]
    .map(|features| {
        let mut command = cargo("check --quiet -p reef-rt --no-default-features --features");
        command.arg(features);
        command
    })
    .into();
    // Code that only the fuzz targets use; all else is checked for the documentation as well.
    commands.push(cargo(
        "check --quiet --workspace --lib \
         --features cuda,hip,reef-serve/fuzzing,reef-guest/fuzzing,reef-wire/fuzzing",
    ));
    commands
}

/// With all packages in view, so that what the command is made of is what the tests are made of.
fn left_out() -> Vec<Command> {
    vec![cargo("test --quiet --workspace --no-default-features --test left_out")]
}

fn docs() -> Vec<Command> {
    let mut command = cargo("doc --workspace --no-deps --features cuda,hip");
    command.env("RUSTDOCFLAGS", "-D warnings");
    vec![command]
}

/// Benches, and what makes each run once.
const BENCHES: [&str; 5] = [
    "submit -- --test",
    "devices -- --test",
    "preempt -- --quick",
    "inference -- --quick",
    "wire -- --test",
];

/// In the profile of the tests and with all packages in view, so that nothing is compiled twice.
fn benches() -> Vec<Command> {
    let mut commands: Vec<Command> = BENCHES
        .map(|bench| cargo(&format!("bench --workspace --profile dev --bench {bench}")))
        .into();
    commands.push(cargo("build --workspace --examples"));
    let examples = std::fs::read_dir("examples").into_iter().flatten().flatten();
    let examples = examples.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "rs"));
    let mut names: Vec<_> = examples.filter_map(|p| p.file_stem().map(Into::into)).collect();
    names.sort();
    let folder = target().join("debug/examples");
    commands.extend(names.into_iter().map(|name: OsString| Command::new(folder.join(name))));
    commands
}

fn miri() -> Vec<Command> {
    let races = "+nightly miri test -p reef-cpu --test races";
    vec![cargo("+nightly miri test -p reef-rt-core --lib -- ring words"), cargo(races)]
}

/// The suite in its own package, which has a tenth of the dependencies that the tests of the
/// library have.
fn tsan() -> Vec<Command> {
    let target = "x86_64-unknown-linux-gnu";
    let suite = "-p reef-conformance --features sanitized --test sanitized";
    let mut command = cargo(&format!("+nightly test -Zbuild-std {suite} --target"));
    command.arg(target).args(["--target-dir", "target/tsan"]);
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    command.env("RUSTFLAGS", "-Zsanitizer=thread").env("REEF_CONFORMANCE_CYCLES", "200");
    command.env("TSAN_OPTIONS", "halt_on_error=1");
    vec![command]
}

/// In the gate.
fn hip() -> Vec<Command> {
    hip_with("50")
}

fn hip_long() -> Vec<Command> {
    hip_with("200")
}

/// The whole suite with this number of preemptions of a case, but for one of its tests, which runs
/// for 5000: 1000 at each of its five levels. What runs on the CPU is left to `test`.
fn hip_with(cycles: &str) -> Vec<Command> {
    const MANY: &str = "each_block_runs_once_in_order";
    let suite = "test --workspace --features reef-rt/hip --test conformance";
    let mut all = cargo(&format!("{suite} --test networks hip -- --test-threads=1 --skip {MANY}"));
    all.env("REEF_CONFORMANCE_CYCLES", cycles);
    let mut many = cargo(&format!("{suite} -- hip::{MANY} hip_gates::{MANY}"));
    many.env("REEF_CONFORMANCE_CYCLES", "1000");
    vec![all, many]
}

/// Makes or compares images, of the sources that are named.
fn kernels_of(args: &[&str]) -> ExitCode {
    for mut command in in_workspace("reef-kernels", args) {
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!("xtask: kernels failed: {command:?}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn kernels() -> Vec<Command> {
    in_workspace("reef-kernels", &[])
}

fn kernels_check() -> Vec<Command> {
    in_workspace("reef-kernels", &["--check"])
}

/// Builds a program with all packages in view, as the tests are, and runs it.
fn in_workspace(program: &str, args: &[&str]) -> Vec<Command> {
    let mut run = Command::new(target().join("debug").join(program));
    run.args(args);
    vec![cargo(&format!("build --quiet --workspace --bin {program}")), run]
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

fn tables_check() -> Vec<Command> {
    vec![cargo("run --quiet --package xtask -- tables --check")]
}

fn book() -> Vec<Command> {
    vec![cargo("run --quiet --package xtask -- book")]
}

fn licenses() -> Vec<Command> {
    vec![Command::new("tools/deny.sh")]
}

fn release_check() -> Vec<Command> {
    vec![cargo("run --quiet --package xtask -- release --check")]
}

fn packages() -> Vec<Command> {
    vec![Command::new("tools/package_check.sh"), Command::new("tools/semver_check.sh")]
}

/// All targets with their own dependencies take 250 s of processors, too long for `ci`.
fn fuzz() -> Vec<Command> {
    vec![cargo("+nightly check --manifest-path fuzz/Cargo.toml --bins")]
}

fn stress() -> Vec<Command> {
    let mut command = cargo("test --release -p reef-rt --test conformance");
    command.env("REEF_CONFORMANCE_CYCLES", "20000");
    vec![command]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    #[test]
    fn command_of_status_77_is_skipped_and_fails_nothing() {
        fn commands() -> Vec<Command> {
            let shell = |text| {
                let mut command = Command::new("sh");
                command.args(["-c", text]);
                command
            };
            ["exit 0", "exit 77", "exit 1", "kill -9 $$", "exit 77"].map(shell).into()
        }
        let check = Check { name: "some", in_ci: false, what: "statuses", commands };
        assert_eq!(check.run(), Ends { failed: 2, skipped: 2 });
    }

    #[test]
    fn command_whose_reader_has_gone_ends_quietly() {
        let mut printing = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::lines_without_end", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // From its first line on it ends quietly.
        let mut lines = BufReader::new(printing.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "a line"));
        drop(lines);
        let ended = printing.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr), (Some(UNREAD), Vec::new()));
    }

    #[test]
    #[ignore = "is a program that another test runs"]
    fn lines_without_end() {
        end_if_unread();
        loop {
            println!("a line");
        }
    }
}
