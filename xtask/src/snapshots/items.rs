//! Attributes of items, and texts of tokens.

use proc_macro2::{Delimiter, TokenTree};

/// Splits the attributes from the item that begins here. Each is the text in its brackets.
pub(super) fn attributes(tokens: &[TokenTree]) -> (Vec<String>, &[TokenTree]) {
    let mut attributes = Vec::new();
    let mut rest = tokens;
    loop {
        rest = match rest {
            [TokenTree::Punct(hash), TokenTree::Group(attribute), after @ ..]
                if hash.as_char() == '#' =>
            {
                attributes.push(attribute.stream().to_string());
                after
            }
            // An inner one: `#![..]`.
            [TokenTree::Punct(hash), TokenTree::Punct(_), TokenTree::Group(_), after @ ..]
                if hash.as_char() == '#' =>
            {
                after
            }
            _ => return (attributes, rest),
        };
    }
}

/// True if one of the attributes leaves the item to unit tests.
pub(super) fn is_for_tests(attributes: &[String]) -> bool {
    attributes.iter().any(|attribute| {
        let mut words = attribute.split(|c: char| !c.is_alphanumeric() && c != '_');
        let is_cfg = words.next() == Some("cfg");
        attribute == "test"
            || is_cfg
                && words.clone().any(|word| word == "test")
                && !words.any(|word| word == "not")
    })
}

/// True if the documentation leaves the item out.
pub(super) fn is_hidden(attributes: &[String]) -> bool {
    attributes.iter().any(|attribute| attribute.replace(' ', "") == "doc(hidden)")
}

/// Index after the item that begins here: past `;`, or past the braces.
pub(super) fn end(tokens: &[TokenTree]) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(sign) => sign.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    // Braces of `use a::{b};` and of constants are not the end.
    let word = tokens.iter().find_map(|token| match token {
        TokenTree::Ident(word) if word != "pub" => Some(word.to_string()),
        _ => None,
    });
    let is_fn = tokens.iter().take(6).any(|token| token.to_string() == "fn");
    let till_sign = match word.as_deref() {
        Some("use" | "type" | "static") => true,
        Some("const") => !is_fn,
        _ => false,
    };
    let found = tokens.iter().position(|token| match token {
        TokenTree::Group(_) if till_sign => false,
        token => is_end(token),
    });
    found.map_or(tokens.len(), |at| at + 1)
}

/// Source of these tokens, on one line, with single spaces.
pub(super) fn text(source: &str, tokens: &[TokenTree]) -> String {
    let [first, .., last] = tokens else {
        return tokens.first().map(ToString::to_string).unwrap_or_default();
    };
    let range = first.span().byte_range().start..last.span().byte_range().end;
    let lines = source[range].lines().map(|line| line.split("//").next().unwrap_or(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    // As on one line: what only the line's end asked for goes.
    text.replace("( ", "(").replace(", )", ")").replace(" )", ")").replace(",)", ")")
}

/// Content of a string literal; `None` for other tokens.
pub(super) fn literal(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    let text = literal.to_string();
    let text = text.trim_start_matches(['b', 'c']);
    let raw = text.strip_prefix('r').map(|raw| raw.trim_matches('#'));
    raw.unwrap_or(text).strip_prefix('"')?.strip_suffix('"').map(one_line)
}

/// The text with `\` at a line's end applied, and line ends shown.
fn one_line(text: &str) -> String {
    let mut lines = text.split("\\\n").enumerate().map(|(at, line)| match at {
        0 => line,
        _ => line.trim_start(),
    });
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line).replace('\n', "\\n")
}
