//! Texts of a crate's errors.

use super::crates::Crate;
use super::items::{attributes, end, is_for_tests, literal};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;

/// Calls that make an error of a text.
const MAKERS: &[&str] = &[
    "Err",
    "anyhow",
    "bail",
    "context",
    "ensure",
    "map_err",
    "ok_or",
    "ok_or_else",
    "with_context",
];

/// Parts of names of functions that make errors.
const PARTS: &[&str] = &["error", "fault", "invalid", "refuse", "unsupported", "wrong"];

/// Texts of more than one word in what makes errors, without those of tests.
pub(super) fn lines(of: &Crate) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for module in &of.modules {
        let tokens = module.tokens.iter().cloned().collect();
        read(tokens, false, &mut lines);
    }
    lines
}

/// Reads the tokens of one pair of brackets, which stand in an error if `is_error`.
fn read(tokens: TokenStream, is_error: bool, lines: &mut BTreeSet<String>) {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < all.len() {
        let (attributes, item) = attributes(&all[at..]);
        if !attributes.is_empty() {
            at = all.len() - item.len();
            if is_for_tests(&attributes) {
                at += end(item).max(1);
            }
            continue;
        }
        if let TokenTree::Group(group) = &all[at] {
            let is_call = group.delimiter() != proc_macro2::Delimiter::Brace;
            let is_maker = is_call && path_before(&all[..at]).iter().any(|name| makes_error(name));
            read(group.stream(), is_error || is_maker, lines);
        } else if is_error {
            lines.extend(literal(&all[at]).filter(|text| text.trim().contains(' ')));
        }
        at += 1;
    }
}

/// Names of the path that ends here: of `Error::new(` or `bail!(`.
fn path_before(tokens: &[TokenTree]) -> Vec<String> {
    let path = tokens.iter().rev().take_while(|token| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(sign) => matches!(sign.as_char(), ':' | '!'),
        _ => false,
    });
    path.map(ToString::to_string).collect()
}

fn makes_error(name: &str) -> bool {
    let lower = name.to_lowercase();
    MAKERS.contains(&name) || PARTS.iter().any(|part| lower.contains(part))
}
