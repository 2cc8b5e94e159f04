//! Pages of the book, as its list names them.

use super::markdown;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// List of pages, in the book's order.
pub(super) const SUMMARY: &str = "docs/SUMMARY.md";

/// Paths of the pages from the repository's root.
pub(super) fn pages(summary: &str) -> Vec<String> {
    markdown::links(summary).iter().map(|link| from_root(&link.target)).collect()
}

/// The list as mdBook reads it from the repository's root.
pub(super) fn at_root(summary: &str) -> String {
    let moved = |line: &str| match line.split_once("](") {
        Some((title, target)) => {
            format!("{title}]({})\n", from_root(target.trim_end_matches(')')))
        }
        None => format!("{line}\n"),
    };
    summary.lines().map(moved).collect()
}

fn from_root(target: &str) -> String {
    target.strip_prefix("../").map_or_else(|| format!("docs/{target}"), str::to_owned)
}

/// Faults of the list: pages twice, and documents that it leaves out.
pub(super) fn faults(summary: &str, documents: &[String]) -> Vec<String> {
    let mut named = BTreeSet::new();
    let pages = pages(summary);
    let twice = pages.iter().filter(|page| !named.insert(page.as_str()));
    let mut faults: Vec<_> =
        twice.map(|page| format!("{SUMMARY}: page must stand once, got {page} twice")).collect();
    let ours = documents.iter().filter(|file| file.starts_with("docs/"));
    let left_out = ours.filter(|file| *file != SUMMARY && !pages.contains(file));
    faults
        .extend(left_out.map(|file| format!("{SUMMARY}: must name all pages, {file} is missing")));
    faults
}

/// Faults of a page that links to documents which are not pages: mdBook makes no file of these.
pub(super) fn unlisted(page: &str, targets: &[PathBuf], pages: &BTreeSet<String>) -> Vec<String> {
    let documents = targets.iter().filter(|path| path.extension().is_some_and(|of| of == "md"));
    let names = documents.map(|path| path.display().to_string());
    let unlisted = names.filter(|name| !pages.contains(name) && name != SUMMARY);
    unlisted.map(|name| format!("{SUMMARY}: must name all pages, {page} links to {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# Summary\n\n[One](one.md)\n- [Two](../crates/reef-serve/README.md)\n";

    #[test]
    fn pages_are_named_from_the_root() {
        assert_eq!(pages(LIST), ["docs/one.md", "crates/reef-serve/README.md"]);
        let expected = "# Summary\n\n[One](docs/one.md)\n- [Two](crates/reef-serve/README.md)\n";
        assert_eq!(at_root(LIST), expected);
    }

    #[test]
    fn page_that_the_list_leaves_out_is_a_fault() {
        let orphan = "docs/results/day/README.md";
        let documents = ["docs/one.md", "docs/three.md", orphan, "CHANGELOG.md"];
        let found = faults(LIST, &documents.map(str::to_owned));
        let missing = ["docs/three.md", orphan];
        let fault = |page| format!("docs/SUMMARY.md: must name all pages, {page} is missing");
        assert_eq!(found, missing.map(fault));
    }

    #[test]
    fn link_to_a_document_outside_of_the_book_is_a_fault() {
        let pages = BTreeSet::from(["docs/one.md".to_owned()]);
        let targets = ["docs/one.md", "x/README.md", "docs/a.svg"].map(PathBuf::from);
        let found = unlisted("docs/one.md", &targets, &pages);
        let expected = "docs/SUMMARY.md: must name all pages, docs/one.md links to x/README.md";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn page_that_stands_twice_is_a_fault() {
        let found = faults(&format!("{LIST}- [Again](one.md)\n"), &[]);
        assert_eq!(found, ["docs/SUMMARY.md: page must stand once, got docs/one.md twice"]);
    }
}
