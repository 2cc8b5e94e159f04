//! Names of the daemon's metrics.

use super::crates::Crate;
use super::items::{attributes, end, is_for_tests, literal};
use proc_macro2::TokenTree;
use std::collections::BTreeSet;

/// Names that stand before their help: `("rt_finished", "Real-time tasks ..", ..)` or
/// `register("answers", help, ..)`; and whole names that something is set to: `PENDING: &str =
/// "nv_pending";`. Some have `reef_` from their registry, and endings from their kinds.
pub(super) fn lines(of: &Crate) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for module in of.modules.iter().filter(|module| is_observer(&module.path)) {
        read(&module.tokens, &mut lines);
    }
    lines
}

fn is_observer(path: &[String]) -> bool {
    path.first().is_some_and(|folder| matches!(folder.as_str(), "guests" | "observe"))
}

fn read(tokens: &[TokenTree], lines: &mut BTreeSet<String>) {
    let mut at = 0;
    while at < tokens.len() {
        let (attributes, item) = attributes(&tokens[at..]);
        if is_for_tests(&attributes) {
            at = tokens.len() - item.len() + end(item).max(1);
            continue;
        }
        match &tokens[at..] {
            [TokenTree::Group(group), ..] => {
                read(&group.stream().into_iter().collect::<Vec<_>>(), lines);
            }
            [name, TokenTree::Punct(comma), help, ..] if comma.as_char() == ',' => {
                let has_help = |name: &String| is_help(help) || name.starts_with("process_");
                lines.extend(literal(name).filter(|name| is_name(name) && has_help(name)));
            }
            [TokenTree::Punct(set), name, TokenTree::Punct(end), ..]
                if (set.as_char(), end.as_char()) == ('=', ';') =>
            {
                lines.extend(literal(name).filter(|name| is_whole_name(name)));
            }
            _ => {}
        }
        at += 1;
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
}

/// Returns whether this names a metric of the daemon by itself; `nv_inference_` begins names.
fn is_whole_name(text: &str) -> bool {
    is_name(text) && !text.ends_with('_') && (text.starts_with("reef_") || text.starts_with("nv_"))
}

fn is_help(token: &TokenTree) -> bool {
    literal(token).is_some_and(|text| text.contains(' ') || text.starts_with(char::is_uppercase))
        || token.to_string() == "help"
}
