//! The command.

use super::workspace::Workspace;
use super::{changelog, order};
use std::path::Path;
use std::process::Command;

const HELP: &str = "\
cargo xtask release --check               what needs no build: order of the packages, changelog
cargo xtask release --dry-run [OPTION…]   makes all files of a release and tries them; publishes nothing

    --profile dev     quicker than release, for trying this command
    --built           takes what is in the target folder, and the wheel in target/wheels, without building
    --root FOLDER     tries the files in a copy of this root; by default debootstrap makes one";

/// Options of the command.
#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    is_check: bool,
    profile: &'a str,
    is_built: bool,
    root: &'a str,
}

/// Runs `cargo xtask release` with these arguments; returns whether all is well.
///
/// # Errors
///
/// A file, cargo or a tool fails; an argument is unknown.
pub(crate) fn run(args: &[&str], target: &Path) -> Result<bool, String> {
    if args.is_empty() || args.contains(&"--help") {
        println!("{HELP}");
        return Ok(!args.is_empty());
    }
    let options = options(args)?;
    let version = version()?;
    let folder = target.join("release-files");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    let workspace = Workspace::read()?;
    order::check_shown(&workspace)?;
    let order = order::published(&workspace)?;
    write("order.txt", &(order.join("\n") + "\n"))?;
    let changelog = read("CHANGELOG.md")?;
    let section = changelog::section(&changelog, &version)?;
    write(&format!("CHANGELOG-{version}.md"), section.text)?;
    let day = section.day.unwrap_or("unreleased");
    println!("reef {version} ({day}): {} packages", order.len());
    if options.is_check {
        return Ok(true);
    }
    let mut steps = Command::new("tools/release/all.sh");
    steps.arg(&folder).args([&version, options.profile]).arg(options.is_built.to_string());
    steps.arg(options.root);
    let status = steps.status().map_err(|e| format!("tools/release/all.sh: {e}"))?;
    Ok(status.success())
}

fn options<'a>(args: &[&'a str]) -> Result<Options<'a>, String> {
    let mut options = Options { is_check: false, profile: "release", is_built: false, root: "" };
    let (mut rest, mut is_dry) = (args.iter().copied(), false);
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{arg}: must have a value"));
        match arg {
            "--check" => options.is_check = true,
            "--dry-run" => is_dry = true,
            "--profile" => options.profile = value()?,
            "--built" => options.is_built = true,
            "--root" => options.root = value()?,
            other => return Err(format!("unknown argument {other}\n{HELP}")),
        }
    }
    if is_dry == options.is_check {
        return Err("must have --check or --dry-run: nothing is published from here".to_owned());
    }
    Ok(options)
}

fn version() -> Result<String, String> {
    let manifest: toml::Table =
        read("Cargo.toml")?.parse().map_err(|e| format!("Cargo.toml: {e}"))?;
    let version = &manifest["workspace"]["package"]["version"];
    version.as_str().map(str::to_owned).ok_or_else(|| "Cargo.toml: no version".to_owned())
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_runs_without_check_or_dry_run() {
        assert!(options(&["--profile", "dev"]).unwrap_err().contains("nothing is published"));
        assert!(options(&["--check", "--dry-run"]).is_err());
        assert!(options(&["--dry-run", "--publish"]).unwrap_err().starts_with("unknown argument"));
        let got = options(&["--dry-run", "--built", "--profile", "dev"]).unwrap();
        assert_eq!(got, Options { is_check: false, profile: "dev", is_built: true, root: "" });
    }
}
