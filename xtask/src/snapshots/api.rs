//! Public items of a library, a line each.

use super::crates::{Crate, Module};
use super::items::{attributes, end, is_for_tests, is_hidden, text};
use proc_macro2::{Delimiter, Group, TokenTree};
use std::collections::BTreeSet;

/// Lines of a crate's public items. A private module's path is left out: its items are public by a
/// `pub use`, which is a line as well.
pub(super) fn lines(of: &Crate) -> BTreeSet<String> {
    let mut api = Api::default();
    for module in &of.modules {
        api.module(module);
    }
    let types = api.types;
    let is_public = |(of, _): &(String, String)| types.contains(of);
    api.lines.extend(api.impls.into_iter().filter(is_public).map(|(_, line)| line));
    api.lines
}

#[derive(Default)]
struct Api {
    lines: BTreeSet<String>,
    /// Names of public types and traits.
    types: BTreeSet<String>,
    /// Implementations of traits: names of types, and lines.
    impls: Vec<(String, String)>,
}

/// Module of items.
struct Scope<'a> {
    source: &'a str,
    /// With `::` at its end; empty in private modules.
    path: String,
    is_public: bool,
}

impl Api {
    fn module(&mut self, module: &Module) {
        let path = module.path.iter().map(|name| format!("{name}::")).collect::<String>();
        let path = if module.is_public { path } else { String::new() };
        let place = Scope { source: &module.source, path, is_public: module.is_public };
        self.items(&place, &module.tokens);
    }

    fn items(&mut self, place: &Scope<'_>, tokens: &[TokenTree]) {
        let mut rest = tokens;
        while !rest.is_empty() {
            let (attributes, item) = attributes(rest);
            let length = end(item).max(1).min(item.len());
            if !is_for_tests(&attributes) && !is_hidden(&attributes) {
                self.item(place, &attributes, &item[..length]);
            }
            rest = &item[length..];
        }
    }

    fn item(&mut self, place: &Scope<'_>, attributes: &[String], item: &[TokenTree]) {
        let (is_public, item) = visibility(item);
        match (kind(item).as_str(), is_public) {
            ("mod", _) => self.inline(place, is_public, item),
            ("macro_rules", _) if attributes.iter().any(|a| a == "macro_export") => {
                self.lines.insert(format!("macro {}!", item[2]));
            }
            ("impl", _) => self.implementation(place, item),
            ("use", true) => self.export(place, item),
            ("fn" | "static" | "const" | "type", true) => self.line(place, signature(place, item)),
            ("struct" | "union", true) => self.structure(place, attributes, item),
            ("enum", true) => self.enumeration(place, attributes, item),
            ("trait", true) => self.interface(place, item),
            _ => self.call(place, item),
        }
    }

    /// Items may stand in the call of a macro: `table! { .. }`.
    fn call(&mut self, place: &Scope<'_>, item: &[TokenTree]) {
        if let [TokenTree::Ident(_), TokenTree::Punct(sign), TokenTree::Group(body), ..] = item
            && sign.as_char() == '!'
        {
            self.items(place, &tokens(body));
        }
    }

    /// Adds a line, with the module's path before the name.
    fn line(&mut self, place: &Scope<'_>, line: String) {
        let begin = name_of(&line);
        self.lines.insert(format!("{}{}{}", &line[..begin], place.path, &line[begin..]));
    }

    fn inline(&mut self, place: &Scope<'_>, is_public: bool, item: &[TokenTree]) {
        let [_, TokenTree::Ident(name), TokenTree::Group(body), ..] = item else { return };
        let is_public = is_public && place.is_public;
        let path = if is_public { format!("{}{name}::", place.path) } else { String::new() };
        let below = Scope { source: place.source, path, is_public };
        self.items(&below, &tokens(body));
    }

    /// `pub use` in a public module: a line for each name.
    fn export(&mut self, place: &Scope<'_>, item: &[TokenTree]) {
        if place.is_public {
            let mut names = Vec::new();
            exported(without_end(&item[1..]), "", &mut names);
            self.lines.extend(names.iter().map(|name| format!("export {}{name}", place.path)));
        }
    }

    fn structure(&mut self, place: &Scope<'_>, attributes: &[String], item: &[TokenTree]) {
        let name = item[1].to_string();
        self.types.insert(name.clone());
        let body = group(item, Delimiter::Brace);
        let fields = item.iter().rposition(|token| is_group(token, Delimiter::Parenthesis));
        let head = match fields.filter(|_| body.is_none()) {
            // Fields of a tuple are part of the line if they are public.
            Some(at) if !text(place.source, &item[at..=at]).contains("pub ") => {
                text(place.source, &item[..at]) + "(..)"
            }
            _ => text(place.source, without_end(&item[..body.unwrap_or(item.len())])),
        };
        self.line(place, head + &derived(attributes));
        if let Some(TokenTree::Group(body)) = body.map(|at| &item[at]) {
            for field in split(&tokens(body)) {
                let (is_public, field) = visibility(self::attributes(&field).1);
                if is_public {
                    self.lines.insert(format!("field {name}.{}", text(place.source, field)));
                }
            }
        }
    }

    fn enumeration(&mut self, place: &Scope<'_>, attributes: &[String], item: &[TokenTree]) {
        let name = item[1].to_string();
        self.types.insert(name.clone());
        let Some(at) = group(item, Delimiter::Brace) else { return };
        let more =
            if attributes.iter().any(|a| a == "non_exhaustive") { " non_exhaustive" } else { "" };
        self.line(place, text(place.source, &item[..at]) + &derived(attributes) + more);
        if let TokenTree::Group(body) = &item[at] {
            for variant in split(&tokens(body)) {
                let (_, variant) = self::attributes(&variant);
                self.lines.insert(format!("variant {name}::{}", text(place.source, variant)));
            }
        }
    }

    fn interface(&mut self, place: &Scope<'_>, item: &[TokenTree]) {
        let Some(at) = group(item, Delimiter::Brace) else { return };
        let named = item.iter().position(|token| token.to_string() == "trait").unwrap_or(0);
        let name = item[named + 1].to_string();
        self.types.insert(name.clone());
        self.line(place, text(place.source, &item[..at]));
        if let TokenTree::Group(body) = &item[at] {
            self.members(place, &name, &tokens(body), true);
        }
    }

    fn implementation(&mut self, place: &Scope<'_>, item: &[TokenTree]) {
        let Some(at) = group(item, Delimiter::Brace) else { return };
        let head = text(place.source, &item[..at]);
        let TokenTree::Group(body) = &item[at] else { return };
        let of = |text: &str| {
            let text = text.trim().trim_start_matches(['&', '(']);
            let end = text.find(['<', ' ', '>', ')']).unwrap_or(text.len());
            text[..end].rsplit("::").next().unwrap_or(text).to_owned()
        };
        if let Some((_, name)) = head.split_once(" for ").filter(|(_, n)| !n.starts_with('<')) {
            self.impls.push((of(name), head.clone()));
        } else {
            self.members(place, &of(after_generics(&head)), &tokens(body), false);
        }
    }

    /// Items of a trait, all of which are public, or of a type.
    fn members(&mut self, place: &Scope<'_>, of: &str, all: &[TokenTree], is_trait: bool) {
        let mut rest = all;
        while !rest.is_empty() {
            let (attributes, item) = attributes(rest);
            let length = end(item).max(1).min(item.len());
            let (is_public, member) = visibility(&item[..length]);
            rest = &item[length..];
            let is_left_out = is_for_tests(&attributes) || is_hidden(&attributes);
            if is_left_out || !(is_public || is_trait) {
                continue;
            }
            let has_body = is_trait && group(member, Delimiter::Brace).is_some();
            let line = signature(place, member);
            let begin = name_of(&line);
            let more = if has_body { " { .. }" } else { "" };
            self.lines.insert(format!("{}{of}::{}{more}", &line[..begin], &line[begin..]));
        }
    }
}

/// Returns true if `pub` without a scope comes first, and the tokens after the visibility.
fn visibility(item: &[TokenTree]) -> (bool, &[TokenTree]) {
    match item {
        [TokenTree::Ident(word), scope, after @ ..]
            if word == "pub" && is_group(scope, Delimiter::Parenthesis) =>
        {
            (false, after)
        }
        [TokenTree::Ident(word), after @ ..] if word == "pub" => (true, after),
        _ => (false, item),
    }
}

/// The item's first word that says its kind.
fn kind(item: &[TokenTree]) -> String {
    let mut words = item.iter().map(ToString::to_string).peekable();
    while let Some(word) = words.next() {
        let next = words.peek().map(String::as_str).unwrap_or_default();
        let is_before_fn = ["fn", "unsafe", "extern", "async", "impl", "trait"].contains(&next);
        let is_qualifier = match word.as_str() {
            "unsafe" | "async" | "default" | "safe" | "auto" => true,
            "const" => is_before_fn,
            "extern" => is_before_fn || next.starts_with('"'),
            text => text.starts_with('"'),
        };
        if !is_qualifier {
            return word;
        }
    }
    String::new()
}

/// Index of an item's name in its line.
fn name_of(line: &str) -> usize {
    const KINDS: &[&str] =
        &["const", "enum", "fn", "static", "struct", "trait", "type", "union", "mut"];
    let mut at = 0;
    for word in line.split_inclusive(' ') {
        let word_alone = word.trim_end();
        let is_head = KINDS.contains(&word_alone)
            || word_alone.starts_with('"')
            || ["unsafe", "async", "extern", "safe"].contains(&word_alone);
        if !is_head {
            return at;
        }
        at += word.len();
    }
    0
}

/// An item's text before its body or value.
fn signature(place: &Scope<'_>, item: &[TokenTree]) -> String {
    let is_type = kind(item) == "type";
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(sign) => sign.as_char() == ';' || sign.as_char() == '=' && !is_type,
        token => is_group(token, Delimiter::Brace),
    };
    let ends = item.iter().position(is_end);
    text(place.source, &item[..ends.unwrap_or(item.len())])
}

/// Names that a `use` tree brings, with their paths if all of a module is meant.
fn exported(tree: &[TokenTree], path: &str, names: &mut Vec<String>) {
    if let Some(TokenTree::Group(group)) = tree.last() {
        let path = path_of(path, &tree[..tree.len() - 1]);
        for part in split(&tokens(group)) {
            exported(&part, &path, names);
        }
        return;
    }
    match tree.last().map(ToString::to_string).as_deref() {
        Some("*") => names.push(path_of(path, tree)),
        Some("self") => {
            names.extend(path.rsplit("::").find(|part| !part.is_empty()).map(str::to_owned))
        }
        Some(name) => names.push(name.to_owned()),
        None => {}
    }
}

fn path_of(before: &str, tree: &[TokenTree]) -> String {
    before.to_owned() + &tree.iter().map(ToString::to_string).collect::<String>()
}

/// ` derive(A, B)` of the attributes, in the order of the names.
fn derived(attributes: &[String]) -> String {
    let lists = attributes.iter().filter_map(|attribute| {
        attribute.strip_prefix("derive")?.trim_start().strip_prefix('(')?.strip_suffix(')')
    });
    let names: BTreeSet<String> = lists
        .flat_map(|list| list.split(','))
        .map(|name| name.replace(' ', ""))
        .filter(|n| !n.is_empty())
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    if names.is_empty() { String::new() } else { format!(" derive({})", names.join(", ")) }
}

/// The type of an `impl`, past the word and its `<..>`.
fn after_generics(head: &str) -> &str {
    let rest = head.trim_start_matches("unsafe ").trim_start_matches("impl");
    if !rest.starts_with('<') {
        return rest;
    }
    let mut depth = 0;
    let end = rest.char_indices().find(|&(at, c)| {
        depth += match c {
            '<' => 1,
            '>' if !rest[..at].ends_with('-') => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map_or(rest, |(at, _)| &rest[at + 1..])
}

fn tokens(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

fn group(item: &[TokenTree], delimiter: Delimiter) -> Option<usize> {
    item.iter().position(|token| is_group(token, delimiter))
}

fn without_end(item: &[TokenTree]) -> &[TokenTree] {
    match item {
        [before @ .., TokenTree::Punct(sign)] if sign.as_char() == ';' => before,
        item => item,
    }
}

/// Parts between commas that are not in `<..>`.
fn split(tokens: &[TokenTree]) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    let mut depth = 0;
    let mut before = ' ';
    for token in tokens {
        let sign = match token {
            TokenTree::Punct(sign) => sign.as_char(),
            _ => ' ',
        };
        depth += match sign {
            '<' => 1,
            '>' if !matches!(before, '-' | '=') => -1,
            _ => 0,
        };
        before = sign;
        if sign == ',' && depth == 0 {
            parts.push(Vec::new());
        } else {
            parts.last_mut().expect("there is one part at least").push(token.clone());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
