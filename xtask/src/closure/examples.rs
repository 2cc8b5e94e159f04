//! Examples in documentation: a library without any says `doctest = false`, so that no process is
//! started to look for them.

use super::files::Files;
use super::workspace::Packages;
use std::path::Path;

/// Words behind the mark of an example that don't make it something else.
const OF_RUST: &[&str] = &["rust", "no_run", "should_panic", "compile_fail"];

/// Says of which libraries the manifest and the sources don't agree.
pub(super) fn faults(packages: &Packages, files: &Files) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for (name, package) in packages.iter().filter(|(_, package)| package.has_library) {
        let mut has_any = false;
        for file in files.get(&Some(name.clone())).into_iter().flatten() {
            let is_source = file.starts_with(package.folder.join("src"));
            has_any |=
                is_source && file.extension().is_some_and(|e| e == "rs") && has_example(file)?;
        }
        if has_any != package.has_doctests {
            let what = if has_any { "true: it has examples" } else { "false: it has no example" };
            all.push(format!("{name}: doctest must be {what}"));
        }
    }
    Ok(all)
}

fn has_example(file: &Path) -> Result<bool, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    // Documents become documentation as they are.
    let has_document =
        text.contains("#![doc = include_str!") || text.contains("#[doc = include_str!");
    Ok(has_document || examples(&text) > 0)
}

/// Number of examples in the documentation of a source.
fn examples(source: &str) -> usize {
    let documentation = source.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
    });
    let marks = documentation.filter_map(|line| line.strip_prefix("```"));
    // Every second one is an end.
    marks.step_by(2).filter(|mark| is_example(mark)).count()
}

fn is_example(mark: &str) -> bool {
    mark.split([',', ' ']).filter(|word| !word.is_empty()).all(|word| OF_RUST.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_examples() {
        assert_eq!(examples("//! ```\n//! let a = 1;\n//! ```\nfn b() {}"), 1);
        assert_eq!(examples("/// ```text\n/// a\n/// ```\n/// ```no_run\n/// b();\n/// ```"), 1);
        assert_eq!(examples("let a = \"```\"; // ```"), 0);
    }
}
