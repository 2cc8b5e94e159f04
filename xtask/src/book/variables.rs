//! The table of environment variables, compared with the names in the sources.

use std::collections::BTreeSet;

/// Page with the table.
pub(super) const PAGE: &str = "docs/reference/environment.md";

/// Header of the C library, whose constants have the same prefix.
const CONSTANTS: &str = "crates/reef-capi/include/reef.h";

const PREFIX: &str = "REEF_";

/// Prefix of names that go from a test to its own processes, which need not be in the table.
const OF_TESTS: &str = "REEF_TEST_";

/// Calls that read a variable, up to its name.
const READERS: [&str; 3] = ["var(\"", "var_os(\"", "variable(\""];

/// Beginnings of names that cargo gives to what it builds.
const OF_BUILDS: [&str; 2] = ["CARGO_", "OUT_DIR"];

/// Faults of the page: names that sources have and it has not, and the reverse.
pub(super) fn faults(page: &str, constants: &str, sources: &BTreeSet<String>) -> Vec<String> {
    let constants: BTreeSet<_> = names(constants).collect();
    let listed: BTreeSet<_> = names(page).collect();
    let used: BTreeSet<_> =
        sources.iter().map(String::as_str).filter(|name| !constants.contains(name)).collect();
    let wanted = used.iter().copied().filter(|name| !name.starts_with(OF_TESTS)).collect();
    let missing =
        BTreeSet::difference(&wanted, &listed).map(|name| format!("{PAGE}: {name} is missing"));
    let stale = listed.difference(&used).map(|name| format!("{PAGE}: no source reads {name}"));
    missing.chain(stale).collect()
}

/// Text of the header with the constants.
pub(super) fn constants() -> Result<String, String> {
    std::fs::read_to_string(CONSTANTS).map_err(|error| format!("{CONSTANTS}: {error}"))
}

/// Names of variables in a source: whole strings of Rust, and what a script sets, reads or quotes.
pub(super) fn in_source(path: &str, text: &str) -> Vec<String> {
    let is_rust = path.ends_with(".rs");
    let found = text.match_indices(PREFIX).filter_map(|(at, _)| {
        let name = name(&text[at..]);
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        let is_used = if is_rust {
            before == Some('"') && after == Some('"')
        } else {
            matches!(before, Some('$' | '{' | '"' | '\'')) || after == Some('=')
        };
        let is_part = before.is_some_and(is_of_a_name);
        (is_used && !is_part).then(|| name.to_owned())
    });
    found.filter(|name| !is_setting(name) && !name.ends_with('_')).collect()
}

/// Names of variables that are not of this project, in a source of a program or a library.
pub(super) fn of_others(path: &str, text: &str) -> Vec<String> {
    let is_program = path.contains("src/") && !path.contains("tests");
    let text = text.split("#[cfg(test)]\nmod tests").next().filter(|_| is_program);
    let text = text.unwrap_or_default();
    let read = READERS.into_iter().flat_map(move |reader| text.split(reader).skip(1).map(name));
    let is_ours = |name: &str| name.starts_with(PREFIX) || name.is_empty();
    let is_of_builds = |name: &str| OF_BUILDS.iter().any(|begin| name.starts_with(*begin));
    read.filter(|&name| !is_ours(name) && !is_of_builds(name)).map(str::to_owned).collect()
}

/// Faults of the page: names of others that programs read and it has not.
pub(super) fn unlisted(page: &str, others: &BTreeSet<String>) -> Vec<String> {
    let missing = others.iter().filter(|name| !page.contains(&format!("`{name}`")));
    missing.map(|name| format!("{PAGE}: {name} is missing")).collect()
}

/// Names in a text, without the settings of the daemon, which have names of their own.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices(PREFIX);
    let whole = starts.filter(|(at, _)| !text[..*at].chars().next_back().is_some_and(is_of_a_name));
    let whole = whole.map(|(at, _)| name(&text[at..]));
    whole.filter(|name| !is_setting(name) && !name.ends_with('_'))
}

fn name(text: &str) -> &str {
    &text[..text.find(|c| !is_of_a_name(c)).unwrap_or(text.len())]
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

fn is_setting(name: &str) -> bool {
    name.starts_with("REEF_SERVE__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_strings_in_rust_and_words_in_scripts() {
        let rust = r#"var("REEF_A"); say("REEF_B=x"); "REEF_SERVE__X"; FAKE_REEF_C"#;
        assert_eq!(in_source("a.rs", rust), ["REEF_A"]);
        assert_eq!(in_source("a.sh", "${REEF_D:-1} NO_REEF_E=1 [REEF_F]"), ["REEF_D"]);
    }

    #[test]
    fn variable_of_others_that_the_page_lacks_is_a_fault() {
        let text = "var_os(\"TERM\"); variable(\"REEF_A\"); var(\"OUT_DIR\"); var(name)\n\
                    #[cfg(test)]\nmod tests { var(\"X\") }";
        assert_eq!(of_others("crates/a/src/b.rs", text), ["TERM"]);
        assert_eq!(of_others("crates/a/tests/b.rs", text), [""; 0]);
        let others = ["TERM", "PATH"].map(str::to_owned).into();
        assert_eq!(unlisted("`PATH`", &others), [format!("{PAGE}: TERM is missing")]);
    }

    #[test]
    fn name_on_one_side_alone_is_a_fault() {
        let sources = ["REEF_A", "REEF_B", "REEF_OK", "REEF_TEST_X"].map(str::to_owned).into();
        let found = faults("| `REEF_B` | `REEF_OLD` |", "REEF_OK = 0", &sources);
        let expected = ["REEF_A is missing", "no source reads REEF_OLD"];
        assert_eq!(found, expected.map(|text| format!("{PAGE}: {text}")));
    }
}
