//! Relative links and their anchors.

use super::markdown::{self, Link};
use std::path::{Component, Path, PathBuf};

/// Faults of the links in one file: targets that don't exist, and anchors that no heading has.
/// Links of a page of the book must lead to files, as a folder has no page there.
pub(super) fn faults(file: &str, text: &str, is_page: bool) -> Vec<String> {
    let links = markdown::links(text);
    let faults = links.iter().filter_map(|link| {
        let fault = fault(file, text, link, is_page)?;
        Some(format!("{file}:{}: {fault}", link.line))
    });
    faults.collect()
}

/// Files of the repository that a file links to.
pub(super) fn targets(file: &str, text: &str) -> Vec<PathBuf> {
    let links = markdown::links(text);
    links.iter().filter_map(|link| path(file, &link.target)).filter(|path| path.is_file()).collect()
}

fn fault(file: &str, text: &str, link: &Link, is_page: bool) -> Option<String> {
    let target = &link.target;
    if is_elsewhere(target) {
        return None;
    }
    let Some(path) = path(file, target) else {
        return Some(format!("link must stay in the repository, got {target}"));
    };
    if !path.exists() {
        return Some(format!("link must lead to a file, got {target}"));
    }
    if path.is_dir() && is_page {
        return Some(format!("link of a page must lead to a file, got the folder {target}"));
    }
    let (name, anchor) = target.split_once('#')?;
    let other =
        if name.is_empty() { text.to_owned() } else { std::fs::read_to_string(path).ok()? };
    let is_known = markdown::anchors(&other).contains(anchor);
    (!is_known).then(|| format!("link must lead to a heading, got {target}"))
}

fn is_elsewhere(target: &str) -> bool {
    ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// Path of a target from the repository's root; `None` outside of it and for other hosts.
fn path(file: &str, target: &str) -> Option<PathBuf> {
    if is_elsewhere(target) {
        return None;
    }
    let name = target.split('#').next().filter(|name| !name.is_empty());
    let Some(name) = name else { return Some(file.into()) };
    let mut path = PathBuf::new();
    for part in Path::new(file).parent()?.join(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => path.pop().then_some(())?,
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_target_starts_at_the_root() {
        let of = |target| path("docs/rust/a.md", target);
        assert_eq!(of("../cuda.md#x"), Some("docs/cuda.md".into()));
        assert_eq!(of("#x"), Some("docs/rust/a.md".into()));
        assert_eq!(of("../../../x.md"), None);
        assert_eq!(of("/etc/passwd"), None);
        assert_eq!(of("https://kernel.org"), None);
    }

    #[test]
    fn missing_file_and_missing_anchor_are_faults() {
        let text = "# One\n[a](#one) [b](#two) [c](no-such-file.md)\n";
        let found = faults("Cargo.toml", text, true);
        let expected = [
            "Cargo.toml:2: link must lead to a heading, got #two",
            "Cargo.toml:2: link must lead to a file, got no-such-file.md",
        ];
        assert_eq!(found, expected);
    }
}
