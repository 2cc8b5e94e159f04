//! Files and folders that ARCHITECTURE.md names: a claim that a test holds names one that is there.

/// The document. Its names may be the ends of paths.
pub(super) const PAGE: &str = "ARCHITECTURE.md";

/// Says which names in backquotes look like paths and are neither a file nor a folder.
pub(super) fn faults(text: &str, files: &[String]) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let names = quoted.filter(|name| is_path(name)).flat_map(expand);
    let lost = names.filter(|name| !is_there(name, files));
    lost.map(|name| format!("{PAGE}: {name}: must be a file or a folder")).collect()
}

fn is_path(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/{},".contains(letter);
    (name.contains('/') || name.ends_with(".rs")) && name.chars().all(is_plain)
}

/// All names that one with a list in braces stands for.
fn expand(name: &str) -> Vec<String> {
    let list = name.split_once('{').and_then(|(begin, rest)| Some((begin, rest.split_once('}')?)));
    match list {
        Some((begin, (list, end))) => {
            list.split(',').map(|one| format!("{begin}{one}{end}")).collect()
        }
        None => vec![name.to_owned()],
    }
}

/// Returns whether a file, or a folder of one, has this path or a longer one that ends so.
fn is_there(name: &str, files: &[String]) -> bool {
    let parts = format!("/{}/", name.trim_end_matches('/'));
    files.iter().any(|file| format!("/{file}/").contains(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_files_and_folders_are_told() {
        let files = ["reef-core/src/sync/ring.rs", "src/cluster/mod.rs"].map(str::to_owned);
        let text = "`sync/ring.rs`, `sync/{ring,lost}.rs`, `src/cluster/`, `reef-core/src`, \
                    `cluster/{gone/,mod.rs}`, `ing.rs`, `tools/lost.sh`, `Queue`, \
                    `Hardware::{finish,pick}`";
        let want = ["sync/lost.rs", "cluster/gone/", "ing.rs", "tools/lost.sh"]
            .map(|name| format!("ARCHITECTURE.md: {name}: must be a file or a folder"));
        assert_eq!(faults(text, &files), want);
    }
}
