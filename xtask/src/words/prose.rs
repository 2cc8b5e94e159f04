//! Rules for comments, docs and texts: 2, 3, 5, 14 and 15.

use super::lexer::{Kind, Token};
use super::rules::Hit;

/// Columns that a line with a comment may have.
const MAX_COLUMNS: usize = 100;

/// First words that a doc must not have.
const NOT_FIRST: &[&str] =
    &["What", "Who", "Where", "How", "Which", "Whether", "That", "Those", "The same"];

const PERSONS: &[&str] = &["who", "whom", "whoever", "nobody", "somebody", "him", "himself"];

const NOT_PLACES: &[&str] = &["beside", "aside", "in front of", "is wanted", "are wanted"];

/// Words after "is no" that make a comparison, which is right.
const COMPARISONS: &[&str] = &[
    "longer",
    "more",
    "less",
    "fewer",
    "later",
    "earlier",
    "sooner",
    "better",
    "worse",
    "larger",
    "smaller",
    "slower",
    "faster",
    "higher",
    "lower",
    "greater",
    "shorter",
    "other",
    "different",
];

/// Struck synonyms, and the word to use.
pub(super) const SYNONYMS: &[(&str, &str)] = &[
    ("rouse", "wake"),
    ("rouses", "wakes"),
    ("roused", "woken"),
    ("heed", "apply"),
    ("heeds", "applies"),
    ("heeded", "applied"),
    ("news", "event, message or result"),
    ("patience", "timeout"),
    ("let go", "release"),
    ("lets go", "releases"),
    ("letting go", "releasing"),
    ("so many", "a number with its name"),
    ("goes before", "takes precedence over"),
    ("go before", "take precedence over"),
    ("knows nothing of REEF", "unmodified program"),
    ("know nothing of REEF", "unmodified programs"),
];

/// Hits in the comments and texts of a file.
pub(super) fn hits(source: &str, tokens: &[Token<'_>]) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut prose = Prose::default();
    let mut above: Option<&Token<'_>> = None;
    for token in tokens {
        let continues = above.is_some_and(|above| {
            above.kind == token.kind
                && above.line + above.text.matches('\n').count() + 1 >= token.line
        });
        match token.kind {
            Kind::ModuleDoc | Kind::ItemDoc if !continues => hits.extend(first_word(token)),
            _ => {}
        }
        if token.kind.is_comment() {
            prose.comment(token, continues);
        } else if token.kind == Kind::Text && token.text.trim().contains(' ') {
            prose.literal(token);
        }
        above = token.kind.is_comment().then_some(token);
    }
    hits.extend(prose.finish());
    hits.extend(long_comments(source, tokens));
    hits
}

fn first_word(doc: &Token<'_>) -> Option<Hit> {
    let text = doc.text.trim_start();
    let first = NOT_FIRST.iter().find(|first| {
        text.strip_prefix(**first).is_some_and(|rest| !rest.starts_with(is_part_of_word))
    })?;
    Some(Hit::new(doc.line, 2, format!("begins with {first:?}")))
}

/// Gathers the lines of a comment, so that a phrase may go over a line's end.
#[derive(Default)]
struct Prose {
    /// Lower-case words of the paragraph, each with its line and what follows it.
    words: Vec<(String, usize)>,
    is_code: bool,
    hits: Vec<Hit>,
}

impl Prose {
    fn comment(&mut self, comment: &Token<'_>, continues: bool) {
        if !continues {
            self.end_paragraph();
            self.is_code = false;
        }
        for (number, line) in comment.text.lines().enumerate() {
            let line_text = line.trim_start();
            if line_text.starts_with("```") {
                self.is_code = !self.is_code;
                self.end_paragraph();
            } else if line_text.is_empty() {
                self.end_paragraph();
            } else if !self.is_code {
                self.add(&without_code(line), comment.line + number);
            }
        }
    }

    fn literal(&mut self, literal: &Token<'_>) {
        self.end_paragraph();
        for (number, line) in literal.text.lines().enumerate() {
            self.add(&without_code(line), literal.line + number);
        }
        self.end_paragraph();
    }

    fn add(&mut self, text: &str, line: usize) {
        let mut word = String::new();
        for c in text.chars().chain([' ']) {
            if is_part_of_word(c) || (c == '=' && !word.is_empty()) {
                word.extend(c.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                self.words.push((std::mem::take(&mut word), line));
            }
            if matches!(
                c,
                '.' | ';' | ':' | '!' | '?' | '(' | ')' | ',' | '"' | '“' | '”' | '{' | '}'
            ) {
                self.words.push((c.to_string(), line));
            }
        }
    }

    fn end_paragraph(&mut self) {
        let words = std::mem::take(&mut self.words);
        for at in 0..words.len() {
            let line = words[at].1;
            let mut hit = |rule, text: &str| self.hits.push(Hit::new(line, rule, text));
            if let Some(person) = PERSONS.iter().find(|person| begins(&words[at..], person)) {
                hit(3, person);
            }
            if let Some(place) = NOT_PLACES.iter().find(|place| begins(&words[at..], place)) {
                hit(5, place);
            }
            if is_no(&words, at) {
                hit(5, &format!("{} no", words[at].0));
            }
            if let Some((word, better)) = SYNONYMS.iter().find(|s| begins(&words[at..], s.0))
                && !(*word == "so many" && begins(&words[at..], "so many that"))
            {
                hit(14, &format!("{word}: say {better}"));
            }
        }
    }

    fn finish(mut self) -> Vec<Hit> {
        self.end_paragraph();
        self.hits
    }
}

fn begins(words: &[(String, usize)], phrase: &str) -> bool {
    let mut words = words.iter().map(|(word, _)| word.as_str());
    phrase.split(' ').all(|part| words.next().is_some_and(|word| part.eq_ignore_ascii_case(word)))
}

/// "X is no Y", but neither "there is no Y" nor "X is no longer".
fn is_no(words: &[(String, usize)], at: usize) -> bool {
    let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
    let before = if at == 0 { "" } else { word(at - 1) };
    matches!(word(at), "is" | "are")
        && word(at + 1) == "no"
        && !matches!(before, "there" | "" | "." | ";" | ":" | "(" | "\"")
        && !COMPARISONS.contains(&word(at + 2))
}

/// Blanks what stands in backticks, and words that are parts of a name or path.
fn without_code(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for (at, part) in line.split('`').enumerate() {
        text.push_str(if at % 2 == 0 { part } else { "#" });
    }
    text
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '\'' | '’' | '/' | '#' | '=')
}

fn long_comments(source: &str, tokens: &[Token<'_>]) -> Vec<Hit> {
    let mut lines: Vec<usize> = Vec::new();
    for token in tokens.iter().filter(|token| token.kind.is_comment()) {
        lines.extend(token.line..=token.line + token.text.matches('\n').count());
    }
    lines.dedup();
    let text: Vec<&str> = source.lines().collect();
    let can_wrap = |line: &str| {
        let comment = line.trim_start().trim_start_matches(['/', '!', '*']).trim_start();
        !line.contains("://") && !comment.starts_with('|')
    };
    let long = lines.into_iter().filter_map(|line| {
        let columns = text.get(line - 1).filter(|text| can_wrap(text))?.chars().count();
        (columns > MAX_COLUMNS).then(|| Hit::new(line, 15, format!("{columns} columns")))
    });
    long.collect()
}
