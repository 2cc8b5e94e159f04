//! Keys of the JSON that a crate writes or reads, each with the number of places that have it.

use super::crates::Crate;
use super::items::{attributes, end, is_for_tests, literal};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Lines of keys and numbers: fields of serialised types, keys in `json!`, names of columns.
pub(super) fn lines(of: &Crate) -> BTreeSet<String> {
    let mut keys = Keys::default();
    for module in &of.modules {
        keys.read(&module.tokens);
    }
    keys.0.iter().map(|(key, count)| format!("{key} {count}")).collect()
}

#[derive(Default)]
struct Keys(BTreeMap<String, usize>);

impl Keys {
    fn add(&mut self, key: String) {
        *self.0.entry(key).or_default() += 1;
    }

    fn read(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while at < tokens.len() {
            let (attributes, item) = attributes(&tokens[at..]);
            if !attributes.is_empty() {
                at = tokens.len() - item.len();
                let is_test = is_for_tests(&attributes);
                if is_serialised(&attributes) && !is_test {
                    self.fields(&attributes, &item[..end(item)]);
                }
                at += if is_test { end(item).max(1) } else { 0 };
                continue;
            }
            if let TokenTree::Group(group) = &tokens[at] {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let words: Vec<String> =
                    tokens[at.saturating_sub(2)..at].iter().map(ToString::to_string).collect();
                match words.last().map(String::as_str) {
                    Some("!") if words[0] == "json" => self.object(&inner),
                    Some("shown" | "hidden") => {
                        inner.first().and_then(literal).into_iter().for_each(|k| self.add(k))
                    }
                    _ => {}
                }
                self.read(&inner);
            }
            at += 1;
        }
    }

    /// Texts before `:` in `json!`, at all depths.
    fn object(&mut self, tokens: &[TokenTree]) {
        for pair in tokens.windows(2) {
            if let [key, TokenTree::Punct(colon)] = pair
                && colon.as_char() == ':'
            {
                literal(key).into_iter().for_each(|key| self.add(key));
            }
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.object(&group.stream().into_iter().collect::<Vec<_>>());
            }
        }
    }

    /// Fields of a structure, or variants of an enum, by the names that serde gives them.
    fn fields(&mut self, of: &[String], item: &[TokenTree]) {
        let Some(TokenTree::Group(body)) = item.last() else { return };
        let words: Vec<String> = item.iter().map(ToString::to_string).collect();
        let is_enum = words.iter().any(|word| word == "enum");
        if body.delimiter() != Delimiter::Brace {
            return;
        }
        let case = named(of, "rename_all");
        let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
        let mut rest = &tokens[..];
        while !rest.is_empty() {
            let (attributes, field) = attributes(rest);
            let comma =
                field.iter().position(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ','));
            let field_end = comma.unwrap_or(field.len());
            let name = field[..field_end].iter().find_map(|token| match token {
                TokenTree::Ident(word) if word != "pub" => Some(word.to_string()),
                _ => None,
            });
            rest = &field[(field_end + 1).min(field.len())..];
            let is_pair = is_enum || field[..field_end].iter().any(|t| t.to_string() == ":");
            let is_left_out = attributes
                .iter()
                .any(|a| a.starts_with("serde") && (a.contains("flatten") || a.contains("(skip)")));
            let Some(name) = name.filter(|_| is_pair && !is_left_out) else { continue };
            let name = name.trim_start_matches("r#").to_owned();
            self.add(named(&attributes, "rename").unwrap_or_else(|| cased(&name, case.as_deref())));
        }
    }
}

fn is_serialised(attributes: &[String]) -> bool {
    attributes
        .iter()
        .any(|a| a.starts_with("derive") && (a.contains("Serialize") || a.contains("Deserialize")))
}

/// The text of `serde(.. NAME = "text" ..)`.
fn named(attributes: &[String], name: &str) -> Option<String> {
    let serde = attributes.iter().filter(|attribute| attribute.starts_with("serde"));
    let mut found = serde.filter_map(|attribute| {
        let (_, rest) = attribute.split_once(&format!("{name} = \""))?;
        Some(rest.split_once('"')?.0.to_owned())
    });
    found.next()
}

/// A name in serde's case: fields are written in snake case, variants in camel case.
fn cased(name: &str, case: Option<&str>) -> String {
    let snake = |sign: char| {
        let mut text = String::new();
        for (at, c) in name.chars().enumerate() {
            if c.is_uppercase() && at > 0 {
                text.push(sign);
            }
            text.extend(c.to_lowercase());
        }
        text
    };
    match case {
        Some("lowercase") => name.to_lowercase(),
        Some("snake_case") => snake('_'),
        Some("kebab-case") => snake('-').replace('_', "-"),
        Some("camelCase") => {
            let mut upper = false;
            let words = name.chars().filter_map(|c| {
                let out = if upper { c.to_ascii_uppercase() } else { c };
                upper = c == '_';
                (!upper).then_some(out)
            });
            words.collect()
        }
        Some("UPPERCASE" | "SCREAMING_SNAKE_CASE") => snake('_').to_uppercase(),
        _ => name.to_owned(),
    }
}
