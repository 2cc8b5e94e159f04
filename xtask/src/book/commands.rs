//! Files of the repository that commands and inline code of a document name.

use super::markdown;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Folders of the repository whose files a document names.
const FOLDERS: [&str; 12] = [
    "benches",
    "crates",
    "deploy",
    "docs",
    "examples",
    "fuzz",
    "interpose",
    "kernels",
    "remote",
    "sim",
    "tools",
    "xtask",
];
/// Folder of scripts that readers call.
const TOOLS: &str = "tools/";
/// Folders of a crate that is at the top, by which a path of it is known.
const OF_A_CRATE: [&str; 4] = ["src/", "tests/", "tools/", "images/"];
/// Beginning of a crate's folder as a command has it. A file such as `./reef-rt_0.1.0.deb` is one
/// that a reader has downloaded.
const CRATE: &str = "./reef-";
/// Characters that end a word of a shell's line.
const ENDS: &[char] = &[' ', '\t', '|', '&', ';', '>', '<', '(', ')', '`', '\'', '"'];

/// Faults of a document's commands and inline code, and the number of files that they name.
pub(super) fn faults(document: &str, text: &str) -> (Vec<String>, usize) {
    let inline = markdown::inline(text);
    let of_shell = markdown::shell(text).flat_map(paths);
    let named: Vec<&str> = of_shell.chain(inline.iter().flat_map(|code| paths(code))).collect();
    let lost = named.iter().filter(|path| !Path::new(path).exists() && !has_capitals(path));
    let mut faults: Vec<_> =
        lost.map(|path| format!("{document}: names {path}, which is not there")).collect();
    let with_arguments = inline.iter().filter(|code| code.contains(' '));
    let of_shell = markdown::shell(text).filter_map(called);
    let calls = of_shell.chain(with_arguments.filter_map(|code| called(code)));
    let refused = calls.filter(|path| Path::new(path).is_file() && !is_executable(path));
    let why = "which must be executable and begin with #!";
    faults.extend(refused.map(|path| format!("{document}: calls {path}, {why}")));
    (faults, named.len())
}

/// File of the repository that a line calls by its path.
fn called(line: &str) -> Option<&str> {
    let is_name = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    let is_variable = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_name))
    };
    let line = line.trim_start().trim_start_matches("$ ");
    let mut words = line.split_whitespace().skip_while(is_variable);
    words.next().filter(|word| word.starts_with(TOOLS) && !is_placeholder(word))
}

fn is_executable(path: &str) -> bool {
    let mode = fs::metadata(path).map_or(0, |of| of.permissions().mode());
    mode & 0o111 != 0 && fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"#!"))
}

/// A part in whose place a reader puts a name: `crates/NAME-VERSION.crate`.
fn has_capitals(path: &str) -> bool {
    let is_capital = |c: u8| c.is_ascii_uppercase() || c == b'-';
    let mut stems = path.split('/').map(|part| part.split('.').next().unwrap_or_default());
    stems.any(|stem| !stem.is_empty() && stem.bytes().all(is_capital))
}

/// Files that a line names: by its folders, or as `--path` of cargo.
fn paths(line: &str) -> Vec<&str> {
    let line = if line.trim_start().starts_with('#') { "" } else { line };
    let line = line.split(" #").next().unwrap_or_default();
    let words: Vec<_> = line.split(ENDS).filter(|word| !word.is_empty()).collect();
    let before = [""].into_iter().chain(words.iter().copied());
    let is_of_ours = |word: &str| {
        let of_folder = word.split_once('/').is_some_and(|(of, rest)| {
            let is_crate = of.starts_with("reef-");
            let is_inside = OF_A_CRATE.iter().any(|folder| rest.starts_with(*folder));
            FOLDERS.contains(&of) || (is_crate && is_inside)
        });
        of_folder || (word.starts_with(CRATE) && !word[CRATE.len()..].contains('.'))
    };
    let named = before.zip(&words).filter(|(before, word)| *before == "--path" || is_of_ours(word));
    named.map(|(_, word)| *word).filter(|word| !is_placeholder(word)).collect()
}

/// A word in whose place a reader puts one: `FILE`, `tools/$NAME`, `tools/*.sh`.
fn is_placeholder(word: &str) -> bool {
    word.contains(['$', '…', '[', '*', '{', ':'])
        || word.bytes().all(|c| c.is_ascii_uppercase() || c == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_folders_and_of_cargo() {
        let line = "cargo install --path reef-cli && tools/x.sh > target/y # tools/z";
        assert_eq!(paths(line), ["reef-cli", "tools/x.sh"]);
        assert_eq!(paths("pip install ./reef-python # or ./a"), ["./reef-python"]);
        assert_eq!(paths("apt install ./reef-rt_0.1.0_amd64.deb; ./x"), [""; 0]);
        assert_eq!(paths("# tools/x.sh"), [""; 0]);
        assert_eq!(paths("cargo install --path CRATE; tools/$NAME 'tools/*.sh'"), [""; 0]);
    }

    #[test]
    fn called_script_is_the_first_word_after_variables() {
        assert_eq!(called("  $ A=1 B_2=x tools/a.sh b"), Some("tools/a.sh"));
        assert_eq!(called("python3 tools/a.py"), None);
        assert_eq!(called("tools/$NAME"), None);
        assert!(!is_executable("Cargo.toml") && !is_executable("none"));
    }

    #[test]
    fn lost_file_of_a_command_is_a_fault() {
        let text =
            "`reef-none/src/a.rs`\n\n```sh\ntools/none.sh\n```\n\n```rust\ntools/none.rs\n```\n";
        let lost = ["tools/none.sh", "reef-none/src/a.rs"];
        let lost = lost.map(|path| format!("a.md: names {path}, which is not there"));
        assert_eq!(faults("a.md", text), (Vec::from(lost), 2));
        let more = "`cargo install --path\nnone`, `tools/NAME-VERSION.tar`, `tools/a.sh:12`, `reef-none/test`";
        let fault = "a.md: names none, which is not there".to_owned();
        assert_eq!(faults("a.md", more), (vec![fault], 2));
    }
}
