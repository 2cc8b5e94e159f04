//! Numbers of formats and protocols.

use super::crates::Crate;
use super::items::text;
use proc_macro2::TokenTree;
use std::collections::BTreeSet;

/// Lines of constants whose names have `VERSION` or `MAGIC`, each with its module and value.
pub(super) fn lines(of: &Crate) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for module in &of.modules {
        let tokens = &module.tokens;
        for at in 0..tokens.len() {
            let [word, name, ..] = &tokens[at..] else { break };
            let name = name.to_string();
            let is_version = name.contains("VERSION") || name.contains("MAGIC");
            if word.to_string() == "const" && is_version {
                let is_end = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ';');
                let end = tokens[at..].iter().position(is_end).unwrap_or(0);
                let value = text(&module.source, &tokens[at + 1..at + end]);
                let place = module.path.last().map_or("", String::as_str);
                lines.insert(format!("{}: {place}: {value}", of.name));
            }
        }
    }
    lines
}
