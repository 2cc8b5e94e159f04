//! Checks crates and prints what is wrong.

use super::circles::{Circle, circles};
use super::resolve::arrows;
use super::source::{Files, read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A circle that stays: opening it would cost more than it gives.
struct Exception {
    folder: &'static str,
    entries: &'static [&'static str],
}

const LEFT_ON_PURPOSE: &[Exception] = &[
    // The table of opcodes points to the functions that run them: together they are the
    // interpreter.
    Exception {
        folder: "sim/reef-gfx906/src/isa",
        entries: &[
            "code.rs",
            "decode",
            "float.rs",
            "inst.rs",
            "ops",
            "registers.rs",
            "space.rs",
            "table.rs",
            "wave.rs",
        ],
    },
    // The device holds its units, they its queues, and those launches of the device: types alone.
    Exception {
        folder: "crates/reef-cpu/src/hardware",
        entries: &[
            "cpu.rs",
            "hw_queue.rs",
            "queues.rs",
            "run.rs",
            "task.rs",
            "trace.rs",
            "units.rs",
            "work.rs",
        ],
    },
];

/// Checks the crates of the workspace, or the one that is named `only`: whether all is well.
pub(crate) fn run(only: Option<&str>) -> Result<bool, String> {
    let roots = roots()?;
    let chosen: Vec<_> =
        roots.iter().filter(|(name, _)| only.is_none_or(|only| only == name)).collect();
    if chosen.is_empty() {
        return Err(format!("no crate {:?}", only.unwrap_or_default()));
    }
    let mut is_well = true;
    for (name, root) in chosen {
        let faults = faults(root, &|file| std::fs::read_to_string(file).ok())?;
        println!("{name}: {}", if faults.is_empty() { "ok" } else { "imports that run up" });
        faults.iter().for_each(|fault| println!("  {fault}"));
        is_well &= faults.is_empty();
    }
    Ok(is_well)
}

/// Names and root files of all crates, nested ones and other workspaces' included. The name is the
/// folder's.
fn roots() -> Result<Vec<(String, PathBuf)>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*Cargo.toml"]);
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    let manifests = String::from_utf8_lossy(&output.stdout);
    let mut roots = Vec::new();
    for manifest in manifests.lines() {
        let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/');
        let name = if folder.is_empty() { "reef" } else { folder };
        let text = std::fs::read_to_string(manifest).map_err(|e| format!("{manifest}: {e}"))?;
        let targets = targets(&text).map_err(|error| format!("{manifest}: {error}"))?;
        let files = targets.iter().map(|target| Path::new(folder).join(target));
        roots.extend(files.filter(|file| file.is_file()).map(|file| (name.to_owned(), file)));
    }
    roots.sort();
    Ok(roots)
}

/// Files that may be the roots of a manifest's library and programs.
fn targets(manifest: &str) -> Result<Vec<String>, toml::de::Error> {
    let manifest: toml::Table = manifest.parse()?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    let given = bins.filter_map(|bin| bin.get("path")?.as_str().map(str::to_owned));
    let mut all: Vec<_> = ["src/lib.rs", "src/main.rs"].map(str::to_owned).into_iter().collect();
    all.extend(given);
    all.sort();
    all.dedup();
    Ok(all)
}

/// Faults of the crate of this root file, a line each.
fn faults(root: &Path, files: Files<'_>) -> Result<Vec<String>, String> {
    let src = root.parent().unwrap_or(root);
    let modules = read(root, files)?;
    let arrows = arrows(&modules);
    let mut faults = Vec::new();
    for arrow in &arrows {
        if let Some(face) = arrow.through {
            let (from, line) = (src.join(arrow.from), arrow.line);
            let (name, face, to) = (&arrow.name, face.display(), arrow.to.display());
            let from = from.display();
            faults.push(format!("{from}:{line}: {name} through {face}; it is defined in {to}"));
        }
    }
    for circle in circles(&arrows).iter().filter(|circle| !is_left(src, circle)) {
        let entries: Vec<_> = circle.entries.iter().map(|e| e.display().to_string()).collect();
        let folder = src.join(&circle.folder);
        faults.push(format!("{}: a circle of {}", folder.display(), entries.join(", ")));
        let mut arrows = circle.arrows.clone();
        arrows.dedup_by_key(|arrow| (arrow.from, arrow.to));
        faults.extend(arrows.iter().map(|arrow| {
            let (from, to) = (arrow.from.display(), arrow.to.display());
            format!("  {from}:{}: {} in {to}", arrow.line, arrow.name)
        }));
    }
    Ok(faults)
}

/// True if all of the circle belongs to one that stays.
fn is_left(src: &Path, circle: &Circle<'_>) -> bool {
    let folder = src.join(&circle.folder);
    LEFT_ON_PURPOSE.iter().any(|left| {
        let has = |entry: &PathBuf| left.entries.iter().any(|name| entry == Path::new(name));
        folder.ends_with(left.folder) && circle.entries.iter().all(has)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a crate of these files, each a path below `src` and its text.
    fn faults_of(files: &[(&str, &str)]) -> Vec<String> {
        let text = |path: &Path| {
            let file = files.iter().find(|(name, _)| path == Path::new("src").join(name));
            file.map(|(_, text)| (*text).to_owned())
        };
        faults(Path::new("src/lib.rs"), &text).unwrap()
    }

    #[test]
    fn a_crate_whose_imports_run_down_has_no_faults() {
        let files = [
            ("lib.rs", "mod top; mod low; pub use top::Top;"),
            ("top.rs", "use crate::low::ground::Ground; pub struct Top(Ground);"),
            ("low/mod.rs", "pub(crate) mod ground; mod above; pub(crate) use above::Above;"),
            ("low/ground.rs", "pub struct Ground;"),
            ("low/above.rs", "use super::ground::Ground; pub struct Above(Ground);"),
        ];
        assert_eq!(faults_of(&files), [""; 0]);
    }

    #[test]
    fn two_files_that_need_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A(B); impl A { fn f() {} }"),
            ("b.rs", "pub struct B; fn f() { super::a::A::f() }"),
            ("c.rs", "use crate::a::A; pub struct C(A);"),
        ];
        assert_eq!(
            faults_of(&files),
            [
                "src/: a circle of a.rs, b.rs",
                "  a.rs:1: crate::b::B in b.rs",
                "  b.rs:1: super::a::A::f in a.rs"
            ]
        );
    }

    #[test]
    fn folders_that_need_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod x; mod y;"),
            ("x/mod.rs", "pub(crate) mod a; pub(crate) mod b;"),
            ("x/a.rs", "use crate::y::c::C; pub struct A(C);"),
            ("x/b.rs", "pub struct B;"),
            ("y/mod.rs", "pub(crate) mod c; pub(crate) mod d;"),
            ("y/c.rs", "pub struct C;"),
            ("y/d.rs", "use crate::{x, y}; pub struct D(x::b::B, y::c::C);"),
        ];
        assert_eq!(
            faults_of(&files),
            [
                "src/: a circle of x, y",
                "  x/a.rs:1: crate::y::c::C in y/c.rs",
                "  y/d.rs:1: x::b::B in x/b.rs"
            ]
        );
    }

    #[test]
    fn name_taken_through_a_face_is_a_fault() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use other::*;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "use crate::{A, Error}; pub struct B; fn f(_: Box<A>) {}"),
        ];
        assert_eq!(
            faults_of(&files),
            [
                "src/b.rs:1: crate::A through lib.rs; it is defined in a.rs",
                "src/b.rs:1: crate::Error through lib.rs; it is defined in lib.rs",
                "src/: a circle of a.rs, b.rs",
                "  a.rs:1: crate::b::B in b.rs",
                "  b.rs:1: crate::A in a.rs"
            ]
        );
    }

    #[test]
    fn a_face_gives_nothing_that_it_defines_either() {
        let files = [
            ("lib.rs", "mod x;"),
            ("x/mod.rs", "mod a; pub(crate) struct Own;"),
            ("x/a.rs", "use super::Own; pub struct A(Own);"),
        ];
        let [fault] = faults_of(&files).try_into().unwrap();
        assert_eq!(fault, "src/x/a.rs:1: super::Own through x/mod.rs; it is defined in x/mod.rs");
    }
}
