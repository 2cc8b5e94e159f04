//! Rule 16: names that were struck, in identifiers, texts and documents. The new ones are in
//! docs/internals/names.md.

use super::lexer::{Kind, Token};
use super::rules::Hit;

/// Records, and pages that name what is struck.
const RECORDS: &[&str] = &[
    "CHANGELOG.md",
    "docs/internals/names.md",
    "docs/internals/words.md",
    "docs/measured.md",
    "docs/research/",
];

/// Folder in which a carry is that of an addition.
const ARITHMETIC: &str = "sim/reef-gfx906/";

/// Words that no part of a name may be, in their forms, and what to say.
const PARTS: &[(&[&str], &str)] = &[
    (&["look", "looks", "looked", "looker"], "preemption point, poll or check"),
    (&["lap", "laps"], "iteration"),
    (&["twin", "twins"], "variant, ptsz"),
    (&["keeper", "keepers"], "watchdog"),
    (&["breather", "breathers"], "starvation relief"),
    (&["stranger", "strangers"], "unmanaged process, unauthenticated peer"),
    (&["books"], "accounts"),
    (&["beside"], "colocate, next to"),
    (&["buried", "bury"], "abandoned"),
    (&["reception", "receptions"], "acceptor"),
    (&["ground", "grounds"], "stop context"),
    (&["carry", "carries", "carried", "carrier"], "migrate"),
    (&["picture", "pictures"], "image"),
    (&["seat", "seats", "seated"], "slot, supervisor"),
    (&["passage", "passages"], "windows"),
    (&["plant", "plants"], "simulation, simulated program"),
];

/// Beginnings of names of kernels in device images that are not built anew.
const KERNELS: &[&str] = &["pool_picture", "pool_large_picture"];

/// Nouns that ordinary English does not need here either.
const NOUNS: &[&str] = &[
    "twin",
    "twins",
    "lap",
    "laps",
    "keeper",
    "keepers",
    "breather",
    "breathers",
    "stranger",
    "strangers",
];

/// Words before which "look" is a noun.
const ARTICLES: &[&str] = &["a", "the", "next", "two", "no", "its", "each", "another"];

/// Hits of a Rust file.
pub(super) fn hits(path: &str, tokens: &[Token<'_>]) -> Vec<Hit> {
    let mut hits = Vec::new();
    for token in tokens {
        match token.kind {
            Kind::Word => name(path, token.text, token.line, &mut hits),
            Kind::Sign => {}
            _ => text(path, token.text, token.line, &mut hits),
        }
    }
    hits
}

/// Hits of a document.
pub(super) fn in_document(path: &str, source: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    if !RECORDS.iter().any(|record| path.starts_with(record)) {
        text(path, source, 1, &mut hits);
    }
    hits
}

/// Checks an identifier.
fn name(path: &str, name: &str, line: usize, hits: &mut Vec<Hit>) {
    if KERNELS.iter().any(|kernel| name.starts_with(kernel)) {
        return;
    }
    let parts = parts(name);
    for (at, part) in parts.iter().enumerate() {
        let next = parts.get(at + 1).map(String::as_str);
        let is_look_up = matches!(next, Some("up" | "ups")) && part.starts_with("look");
        let better = PARTS.iter().find(|(words, _)| words.contains(&part.as_str()));
        let is_sum = part.starts_with("carr") && path.starts_with(ARITHMETIC);
        if let Some((_, better)) = better.filter(|_| !is_look_up && !is_sum) {
            hits.push(Hit::new(line, 16, format!("{name}: {part}: say {better}")));
        }
        if matches!(part.as_str(), "give" | "given" | "gives") && next == Some("up") {
            hits.push(Hit::new(line, 16, format!("{name}: say mark lost or abandon")));
        }
    }
    if name == "EACH" {
        hits.push(Hit::new(line, 16, "EACH: say ALL"));
    }
}

/// Checks prose: names in it, which have a sign or a capital inside, and nouns.
fn text(path: &str, text: &str, line: usize, hits: &mut Vec<Hit>) {
    let mut before = String::new();
    for (at, words) in text.lines().enumerate() {
        let is_in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        for word in words.split(|c| !is_in_word(c)).filter(|word| !word.is_empty()) {
            let plain = word.to_lowercase();
            let is_name = word.contains('_')
                || word.starts_with("--")
                || word.chars().skip(1).any(char::is_uppercase)
                    && word.chars().any(char::is_lowercase);
            if is_name {
                name(path, word.trim_start_matches('-'), line + at, hits);
            } else if NOUNS.contains(&plain.as_str()) {
                hits.push(Hit::new(line + at, 16, word));
            } else if matches!(plain.as_str(), "look" | "looks")
                && ARTICLES.contains(&before.as_str())
            {
                hits.push(Hit::new(line + at, 16, format!("{before} {word}")));
            }
            before = plain;
        }
    }
}

/// Parts of a name in lower case: `StopLook` and `STOP_LOOK` have `stop` and `look`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_after_lower = false;
    for c in name.chars() {
        let is_start = c.is_uppercase() && is_after_lower;
        if is_start || !c.is_alphanumeric() {
            parts.push(String::new());
        }
        if c.is_alphanumeric() {
            parts.last_mut().expect("one is there").extend(c.to_lowercase());
        }
        is_after_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::lexer::tokens;

    fn found(path: &str, source: &str) -> Vec<String> {
        let hits = hits(path, &tokens(source));
        hits.iter().map(|hit| format!("{} {}", hit.line, hit.text)).collect()
    }

    #[test]
    fn struck_names_are_found_in_each_form() {
        let of = |source| found("src/lib.rs", source).join("; ");
        assert_eq!(of("fn f() {}\nfn give_up() {}"), "2 give_up: say mark lost or abandon");
        assert_eq!(of("struct SeenLap;"), "1 SeenLap: lap: say iteration");
        assert_eq!(of("const MAX_TWINS: u8 = 1;"), "1 MAX_TWINS: twins: say variant, ptsz");
        assert_eq!(of("Level::EACH"), "1 EACH: say ALL");
        assert_eq!(of("fn start_seats() {}"), "1 start_seats: seats: say slot, supervisor");
        assert_eq!(of("let x = \"REEF_BOOKS\";"), "1 REEF_BOOKS: books: say accounts");
        assert_eq!(
            of("// --beside"),
            "1 --beside: beside: say colocate, next to".replace("--", "")
        );
        assert_eq!(
            of("/// Keeper of it.\n/// At the next look.\nfn f() {}"),
            "1 Keeper; 2 next look"
        );
    }

    #[test]
    fn ordinary_words_and_arithmetic_are_free() {
        let source = "/// A user looks at a page, which carries books beside a picture.\n\
                      fn look_up(overlap: u8) { lookups(\"pool_picture\", \"the look-up\") }";
        assert_eq!(found("src/lib.rs", source), [""; 0]);
        assert_eq!(found("sim/reef-gfx906/src/isa.rs", "fn carry() {}"), [""; 0]);
        assert_eq!(found("src/lib.rs", "fn carry() {}").len(), 1);
    }

    #[test]
    fn struck_names_of_documents_are_found_outside_of_records() {
        let text = "The *twin* of a kernel.\n`beside_period_us` and a look.\n";
        let of = |path| in_document(path, text).iter().map(|hit| hit.line).collect::<Vec<_>>();
        assert_eq!(of("docs/stoppable.md"), [1, 2, 2]);
        assert_eq!((of("docs/internals/names.md"), of("CHANGELOG.md")), (vec![], vec![]));
    }
}
