//! Table of the rules, by their numbers in docs/internals/words.md.

/// Place at which a rule of docs/internals/words.md is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    /// From 1.
    pub(super) line: usize,
    pub(super) rule: u32,
    pub(super) text: String,
}

impl Hit {
    pub(super) fn new(line: usize, rule: u32, text: impl Into<String>) -> Self {
        Self { line, rule, text: text.into() }
    }
}

/// Number and text of each rule that is checked.
pub(super) const RULES: &[(u32, &str)] = &[
    (1, "a sentence of a document has at most 40 words; aim at 15 to 18"),
    (
        2,
        "a doc begins with a noun or a verb, not with What, Who, Where, How, Which, Whether, \
         That, Those or The same",
    ),
    (3, "no who, whom, whoever, nobody, somebody, him or himself in comments, docs and texts"),
    (
        5,
        "\"is not a\", not \"is no\"; \"must be X, got Y\", not \"X is wanted\"; \"next to, \
         before\", not \"beside, aside, in front of\"",
    ),
    (
        7,
        "types are nouns and functions verbs, not participles, pronouns or adverbs; a parameter \
         is not a tuple pattern; `if`, not `match` with `true =>` and `false =>`",
    ),
    (8, "constants are MAX_, MIN_, *_TIMEOUT, *_INTERVAL, not MOST_, LEAST_, PATIENCE, NAP, LOOK"),
    (
        9,
        "a test's name has at most 60 characters, does not begin with what_ or who_, and does \
         not end in is_said, is_named or in_one_line",
    ),
    (14, "one name for one concept: the word of the glossary, not its synonym"),
    (15, "comments wrap at 100 columns"),
    (16, "no struck name: docs/internals/names.md has the new ones"),
];
