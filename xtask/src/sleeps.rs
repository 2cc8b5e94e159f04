//! `cargo xtask sleeps`: a sleep in a test has its reason next to it.
//!
//! A test that sleeps until something has surely happened fails on a busy machine. It waits for the
//! event instead, or counts what must not happen. A sleep that stays says why, as `// sleep: why`
//! (`# sleep: why` in Python), at the end of its line or in the comment above it.

use crate::words::lexer::{Kind, Token, tokens};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const REASON: &str = "sleep: ";

/// Crates that exist for tests.
const TEST_CRATES: &[&str] = &["crates/reef-conformance/"];

/// Checks all tests of the repository. Returns whether all is well.
pub(crate) fn run() -> Result<bool, String> {
    let files = tracked()?;
    let read = |file: String| match std::fs::read_to_string(&file) {
        Ok(text) => Ok((file, text)),
        Err(error) => Err(format!("{file}: {error}")),
    };
    let sources = files.into_iter().map(read).collect::<Result<Vec<_>, String>>()?;
    let of_tests: BTreeSet<String> =
        sources.iter().flat_map(|(file, text)| declared_for_tests(file, text)).collect();
    let mut faults = Vec::new();
    let mut sleeps = 0;
    for (file, text) in &sources {
        let found = if file.ends_with(".py") {
            python(text)
        } else {
            rust(text, is_of_tests(file) || is_below(file, &of_tests))
        };
        sleeps += found.len();
        let without = found.iter().filter(|sleep| !sleep.has_reason);
        faults.extend(without.map(|sleep| format!("{file}:{}", sleep.line)));
    }
    faults.iter().for_each(|fault| println!("{fault}: a sleep in a test without `sleep: why`"));
    println!("sleeps: {sleeps} in tests, {} without a reason", faults.len());
    Ok(faults.is_empty())
}

/// Rust sources, and tests in Python.
fn tracked() -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.rs"]);
    git.arg("crates/reef-python/tests/*.py");
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    let files = String::from_utf8_lossy(&output.stdout);
    let there = files.lines().filter(|file| Path::new(file).is_file());
    Ok(there.map(str::to_owned).collect())
}

/// True for a file that holds nothing but tests, by its name.
fn is_of_tests(file: &str) -> bool {
    let in_folder = file.starts_with("tests/") || file.contains("/tests/");
    in_folder || file.ends_with("/tests.rs") || TEST_CRATES.iter().any(|of| file.starts_with(of))
}

/// True if one of these modules is the file, or the folder in which it is.
fn is_below(file: &str, modules: &BTreeSet<String>) -> bool {
    let is_of = |module: &String| {
        let rest = file.strip_prefix(module.as_str());
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    modules.iter().any(is_of)
}

/// Modules that `#[cfg(test)] mod NAME;` declares in this file, as paths without `.rs`.
fn declared_for_tests(file: &str, text: &str) -> Vec<String> {
    let path = Path::new(file);
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().unwrap_or(path);
    let is_face = ["mod", "lib", "main"].iter().any(|name| stem == *name);
    let folder = if is_face { folder.to_owned() } else { folder.join(stem) };
    let code: Vec<Token<'_>> = code(text);
    let spans = test_items(&code).into_iter().map(|(from, to)| &code[from..to]);
    let name = |item: &[Token<'_>]| match item {
        [.., module, name, end] if module.text == "mod" && end.text == ";" => {
            Some(folder.join(name.text).display().to_string())
        }
        _ => None,
    };
    spans.filter_map(name).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Sleep {
    line: usize,
    has_reason: bool,
}

/// Sleeps of the file's tests, or of all of the file.
fn rust(text: &str, is_all: bool) -> Vec<Sleep> {
    let reasons = reasons(text);
    let code = code(text);
    let spans = if is_all { vec![(0, code.len())] } else { test_items(&code) };
    let calls = spans.iter().flat_map(|&(from, to)| code[from..to].windows(3));
    let sleeps = calls.filter(|call| {
        let [before, name, open] = call else { return false };
        !["fn", "."].contains(&before.text)
            && name.kind == Kind::Word
            && name.text == "sleep"
            && open.text == "("
    });
    let mut lines: Vec<usize> = sleeps.map(|call| call[1].line).collect();
    lines.dedup();
    lines.into_iter().map(|line| Sleep { line, has_reason: reasons.contains(&line) }).collect()
}

fn python(text: &str) -> Vec<Sleep> {
    let comment = format!("# {REASON}");
    let mut is_above = false;
    let mut sleeps = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.contains("sleep(") && !line.trim_start().starts_with('#') {
            sleeps.push(Sleep { line: at + 1, has_reason: is_above || line.contains(&comment) });
        }
        is_above = line.trim_start().starts_with(&comment)
            || is_above && line.trim_start().starts_with('#');
    }
    sleeps
}

/// Lines that have a reason: at their end, or in the comment that ends above them.
fn reasons(text: &str) -> BTreeSet<usize> {
    let of_code: BTreeSet<usize> = code(text).iter().map(|token| token.line).collect();
    let comments = tokens(text).into_iter().filter(|token| token.kind == Kind::Comment);
    let mut lines = BTreeSet::new();
    for comment in comments {
        let is_alone = !of_code.contains(&comment.line);
        // A comment of several lines is as many tokens.
        let goes_on = is_alone && lines.contains(&comment.line);
        if goes_on || comment.text.trim_start().starts_with(REASON) {
            lines.insert(comment.line + usize::from(is_alone));
        }
    }
    lines
}

/// The tokens that are not comments.
fn code(text: &str) -> Vec<Token<'_>> {
    tokens(text).into_iter().filter(|token| !token.kind.is_comment()).collect()
}

/// Items under `#[cfg(test)]`, as ranges of tokens, attributes included.
fn test_items(code: &[Token<'_>]) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let end = end_of_attribute(code, at);
        if end.is_some_and(|end| is_for_tests(&code[at..end])) {
            let after = end_of_item(code, end.unwrap_or(at));
            items.push((at, after));
            at = after;
        } else {
            at += 1;
        }
    }
    items
}

fn end_of_attribute(code: &[Token<'_>], at: usize) -> Option<usize> {
    let [hash, open, ..] = &code[at..] else { return None };
    (hash.text == "#" && open.text == "[").then(|| after_close(code, at + 1, "[", "]"))
}

fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.text == word);
    attribute.get(2).is_some_and(|token| token.text == "cfg") && has("test") && !has("not")
}

/// Index after an item whose attribute has ended: its `;`, or its braces.
fn end_of_item(code: &[Token<'_>], at: usize) -> usize {
    let is_end = |token: &Token<'_>| token.text == ";" || token.text == "{";
    match code[at..].iter().position(is_end) {
        Some(end) if code[at + end].text == "{" => after_close(code, at + end, "{", "}"),
        Some(end) => at + end + 1,
        None => code.len(),
    }
}

/// Index after the bracket that closes the one at `at`.
fn after_close(code: &[Token<'_>], at: usize, open: &str, close: &str) -> usize {
    let mut depth = 0;
    for (index, token) in code.iter().enumerate().skip(at) {
        if token.kind == Kind::Sign {
            depth += usize::from(token.text == open);
            depth -= usize::from(token.text == close);
        }
        if depth == 0 {
            return index + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, is_all: bool) -> Vec<usize> {
        let sleeps = rust(text, is_all).into_iter();
        sleeps.filter(|sleep| !sleep.has_reason).map(|sleep| sleep.line).collect()
    }

    #[test]
    fn sleep_without_a_reason_is_a_fault() {
        let text = "fn f() {\n thread::sleep(a);\n tokio::time::sleep(b).await; // by now\n}";
        assert_eq!(without(text, true), [2, 3]);
    }

    #[test]
    fn reason_stands_at_the_end_of_the_line_or_above() {
        let text = "sleep(a); // sleep: a poll\nsleep(b);\n\
                    // sleep: a poll of\n// two lines\nsleep(c);\n// sleep: far\n\nsleep(d);";
        assert_eq!(without(text, true), [2, 8]);
    }

    #[test]
    fn only_tests_of_a_library_are_checked() {
        let text = "fn f() { sleep(a) }\n#[cfg(test)]\nmod tests {\nfn g() { sleep(b) }\n}\n\
                    fn h() { sleep(c) }\n#[cfg(not(test))]\nmod other { fn i() { sleep(d) } }";
        assert_eq!(without(text, false), [4]);
    }

    #[test]
    fn definitions_texts_and_methods_are_not_sleeps() {
        let text = "fn sleep(a: u8) {}\nlet a = \"sleep(b)\";\nchannel.sleep(c);";
        assert_eq!(rust(text, true), []);
    }

    #[test]
    fn module_declared_for_tests_is_checked() {
        let text = "#[cfg(test)]\npub(crate) mod fake;\nmod real;\n#[cfg(test)]\nmod tests {}";
        let face = declared_for_tests("a/src/lib.rs", text).into_iter().collect();
        assert!(is_below("a/src/fake.rs", &face) && is_below("a/src/fake/b.rs", &face));
        assert!(!is_below("a/src/faker.rs", &face) && !is_below("a/src/real.rs", &face));
        assert_eq!(declared_for_tests("a/src/b.rs", text), ["a/src/b/fake"]);
    }

    #[test]
    fn python_has_reasons_too() {
        let text = "time.sleep(1)\n# sleep: a poll\ntime.sleep(2)\ntime.sleep(3)  # sleep: why";
        let lines = python(text);
        assert_eq!(
            lines.iter().map(|sleep| sleep.has_reason).collect::<Vec<_>>(),
            [false, true, true]
        );
    }
}
