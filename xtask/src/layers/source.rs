//! Declarations, imports and paths of a crate's files.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A crate's modules by their paths; the root's is empty.
pub(super) type Modules = BTreeMap<Vec<String>, Module>;

#[derive(Debug, Default)]
pub(super) struct Module {
    /// Below the crate's `src`.
    pub(super) file: PathBuf,
    /// It declares other files.
    pub(super) is_face: bool,
    pub(super) defines: BTreeSet<String>,
    /// Names that `use` lines bring, and their paths.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// Paths before a `*`.
    pub(super) globs: Vec<Vec<String>>,
    pub(super) paths: Vec<NamedPath>,
}

/// A path in a file.
#[derive(Debug, Clone)]
pub(super) struct NamedPath {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    /// It is re-exported and not used.
    pub(super) is_export: bool,
}

/// Gives the text of a file, if there is such a file.
pub(super) type Files<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Reads the crate whose root file is `root`.
pub(super) fn read(root: &Path, files: Files<'_>) -> Result<Modules, String> {
    let src = root.parent().unwrap_or(root);
    let mut reader = Reader { src, files, modules: Modules::new() };
    reader.file(root, vec![])?;
    Ok(reader.modules)
}

struct Reader<'a> {
    src: &'a Path,
    files: Files<'a>,
    modules: Modules,
}

impl Reader<'_> {
    fn file(&mut self, file: &Path, path: Vec<String>) -> Result<(), String> {
        let text = (self.files)(file).ok_or(format!("no file {}", file.display()))?;
        let tokens = text.parse().map_err(|error| format!("{}: {error}", file.display()))?;
        self.module(file, path, tokens)
    }

    fn module(&mut self, file: &Path, path: Vec<String>, body: TokenStream) -> Result<(), String> {
        let below = file.strip_prefix(self.src).unwrap_or(file).to_path_buf();
        self.modules.insert(path.clone(), Module { file: below, ..Module::default() });
        self.tokens(file, &path, body, true)
    }

    /// Reads the tokens of one pair of brackets. Items are the module's own if `is_top`.
    fn tokens(
        &mut self,
        file: &Path,
        module: &[String],
        tokens: TokenStream,
        is_top: bool,
    ) -> Result<(), String> {
        let all: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = all.get(at) {
            let rest = &all[at..];
            at += match token {
                TokenTree::Punct(_) if is_test(rest) => after_item(rest),
                TokenTree::Group(group) => {
                    let is_top = is_top && at > 0 && is_punct(all.get(at - 1), '!')
                        || is_top && at > 1 && is_punct(all.get(at - 2), '!');
                    self.tokens(file, module, group.stream(), is_top)?;
                    1
                }
                TokenTree::Ident(word) if word == "use" => {
                    let end = rest.iter().position(|t| is_punct(Some(t), ';')).unwrap_or(1);
                    let is_export = is_public(&all[..at]);
                    self.import(module, &rest[1..end], vec![], is_export);
                    end
                }
                TokenTree::Ident(word) if word == "mod" && is_top => {
                    self.child(file, module, &all[..at], rest)?
                }
                TokenTree::Ident(_) if is_top && self.define(module, rest) => 2,
                TokenTree::Ident(word) if !follows_path(&all[..at]) => {
                    let path = path_at(rest);
                    let length = path.len();
                    if length > 1 {
                        let line = word.span().start().line;
                        self.own(module).paths.push(NamedPath { path, line, is_export: false });
                    }
                    3 * length - 2
                }
                _ => 1,
            };
        }
        Ok(())
    }

    fn own(&mut self, module: &[String]) -> &mut Module {
        self.modules.get_mut(module).expect("a module is noted before its tokens are read")
    }

    /// Notes what a `use` line, or the part of one after `path`, brings.
    fn import(&mut self, module: &[String], tree: &[TokenTree], path: Vec<String>, export: bool) {
        let mut path = path;
        for (at, token) in tree.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in inner.split(|t| is_punct(Some(t), ',')).filter(|p| !p.is_empty()) {
                        self.import(module, part, path.clone(), export);
                    }
                    return;
                }
                TokenTree::Punct(star) if star.as_char() == '*' => {
                    let line = star.span().start().line;
                    self.own(module).globs.push(path.clone());
                    path.push("*".into());
                    self.own(module).paths.push(NamedPath { path, line, is_export: export });
                    return;
                }
                TokenTree::Ident(word) if word == "as" => {
                    return self.bring(module, path, &tree[at - 1], tree.get(at + 1), export);
                }
                TokenTree::Ident(word) => path.push(word.to_string()),
                _ => {}
            }
        }
        if let Some(last) = tree.last() {
            self.bring(module, path, last, None, export);
        }
    }

    fn bring(
        &mut self,
        module: &[String],
        mut path: Vec<String>,
        last: &TokenTree,
        alias: Option<&TokenTree>,
        is_export: bool,
    ) {
        if path.len() > 1 && path.last().is_some_and(|word| word == "self") {
            path.pop();
        }
        let name = alias.map(ToString::to_string).or_else(|| path.last().cloned());
        let own = self.own(module);
        own.imports.insert(name.unwrap_or_default(), path.clone());
        own.paths.push(NamedPath { path, line: last.span().start().line, is_export });
    }

    /// Reads the module that a `mod` declares; how many tokens that took.
    fn child(
        &mut self,
        file: &Path,
        module: &[String],
        before: &[TokenTree],
        rest: &[TokenTree],
    ) -> Result<usize, String> {
        let Some(TokenTree::Ident(name)) = rest.get(1) else { return Ok(1) };
        let name = name.to_string();
        let path = [module, std::slice::from_ref(&name)].concat();
        match rest.get(2) {
            Some(TokenTree::Group(body)) => self.module(file, path, body.stream())?,
            _ => {
                self.own(module).is_face = true;
                let given = path_attribute(before).map(|path| file.with_file_name(path));
                let found = given.unwrap_or_else(|| self.file_of(file, &path));
                self.file(&found, path)?;
            }
        }
        Ok(3)
    }

    /// The file of module `path`, which `parent` declares: `x/mod.rs` or else `x.rs`.
    fn file_of(&self, parent: &Path, path: &[String]) -> PathBuf {
        let is_folders = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| parent.ends_with(name));
        let (name, above) = path.split_last().expect("a path of the one module and its parents");
        let folder =
            if is_folders { parent.with_file_name("") } else { self.src.join(above.join("/")) };
        let face = folder.join(name).join("mod.rs");
        if (self.files)(&face).is_some() { face } else { folder.join(format!("{name}.rs")) }
    }

    /// Notes the item that begins here, if one does.
    fn define(&mut self, module: &[String], rest: &[TokenTree]) -> bool {
        const ITEMS: [&str; 8] =
            ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
        let (word, second) = (rest[0].to_string(), rest.get(1).map(ToString::to_string));
        let name = match (word.as_str(), second) {
            ("macro_rules", Some(_)) => rest.get(2).map(ToString::to_string),
            (word, Some(name)) if ITEMS.contains(&word) && !ITEMS.contains(&name.as_str()) => {
                Some(name)
            }
            _ => None,
        };
        name.map(|name| self.own(module).defines.insert(name)).is_some()
    }
}

/// The string of a `#[path = ".."]` among the attributes that end here.
fn path_attribute(before: &[TokenTree]) -> Option<String> {
    let attributes = before.iter().rev().take(6).filter_map(|token| match token {
        TokenTree::Group(group) => Some(group.stream().to_string()),
        _ => None,
    });
    let mut paths = attributes.filter_map(|text| {
        text.strip_prefix("path = \"").and_then(|path| path.strip_suffix('"')).map(String::from)
    });
    paths.next()
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

/// `pub` or `pub(..)` stands before this.
fn is_public(before: &[TokenTree]) -> bool {
    let mut last = before.iter().rev();
    match last.next() {
        Some(TokenTree::Group(scope)) if scope.delimiter() == Delimiter::Parenthesis => {
            last.next().is_some_and(|word| word.to_string() == "pub")
        }
        Some(TokenTree::Ident(word)) => word == "pub",
        _ => false,
    }
}

/// `::` stands before this.
fn follows_path(before: &[TokenTree]) -> bool {
    before.len() > 1 && before[before.len() - 2..].iter().all(|t| is_punct(Some(t), ':'))
}

/// The longest path of words that begins here.
fn path_at(tokens: &[TokenTree]) -> Vec<String> {
    let mut path = vec![tokens[0].to_string()];
    let mut rest = &tokens[1..];
    while let [first, second, TokenTree::Ident(word), after @ ..] = rest {
        if !is_punct(Some(first), ':') || !is_punct(Some(second), ':') {
            break;
        }
        path.push(word.to_string());
        rest = after;
    }
    path
}

/// An attribute begins here that leaves what follows to unit tests.
fn is_test(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = tokens else { return false };
    let text = attribute.stream().to_string();
    let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
    is_punct(Some(hash), '#')
        && words().next() == Some("cfg")
        && words().any(|word| word == "test")
        && !text.replace(' ', "").contains("not(test")
}

/// Number of tokens of the item that begins here, its attributes included.
fn after_item(tokens: &[TokenTree]) -> usize {
    let end = tokens.iter().position(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(Some(token), ';'),
    });
    end.map_or(tokens.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Module {
        let files = |file: &Path| (file == Path::new("src/lib.rs")).then(|| text.to_owned());
        read(Path::new("src/lib.rs"), &files).unwrap().remove(&vec![]).unwrap()
    }

    fn paths(text: &str) -> Vec<String> {
        module(text).paths.into_iter().map(|named| named.path.join("::")).collect()
    }

    #[test]
    fn use_lines_are_taken_apart() {
        let text = "use crate::{a::{self, B as C}, d::*};";
        assert_eq!(paths(text), ["crate::a", "crate::a::B", "crate::d::*"]);
        let names: Vec<_> = module(text).imports.into_keys().collect();
        assert_eq!(names, ["C", "a"]);
    }

    #[test]
    fn paths_in_bodies_are_seen_and_words_in_strings_are_not() {
        let text = "fn f() { x!(crate::a::B); /* crate::c::D */ let s = \"crate::e::F\"; Vec::<self::G>::new() }";
        assert_eq!(paths(text), ["crate::a::B", "self::G"]);
    }

    #[test]
    fn unit_tests_are_not_read() {
        let text = "#[cfg(test)] mod tests { use crate::a::A; } #[cfg(not(test))] use crate::b::B;";
        assert_eq!(paths(text), ["crate::b::B"]);
        assert_eq!(paths("#[cfg(test)] mod fake; use crate::b::B;"), ["crate::b::B"]);
        let text = "#[cfg(all(test, not(loom)))] mod tests { use crate::a::A; } use crate::b::B;";
        assert_eq!(paths(text), ["crate::b::B"]);
    }

    #[test]
    fn items_are_noted_by_name() {
        let text =
            "pub const fn f() {} pub unsafe trait T {} const N: u8 = 1; m! { pub struct S; }";
        let names: Vec<_> = module(text).defines.into_iter().collect();
        assert_eq!(names, ["N", "S", "T", "f"]);
    }
}
