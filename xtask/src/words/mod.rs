//! `cargo xtask words`: words, names and comments follow the rules of docs/internals/words.md.
//!
//! In: the tracked Rust sources, documents and scripts, and the hits of each rule in each file that
//! `words.baseline` still allows. Out: hits beyond these, by path, line and rule.
//! Invariant: the numbers of the baseline only fall. `--update` refuses to write a larger one.

mod baseline;
pub(crate) mod check;
mod documents;
mod glossary;
pub(crate) mod lexer;
mod names;
mod prose;
mod rules;
mod struck;

#[cfg(test)]
mod tests;
