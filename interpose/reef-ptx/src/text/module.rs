//! A whole text: directives, variables and functions.

use super::cursor::{Cursor, Kind, Token, words};
use super::function::{Function, parameters};
use super::statement::{Instruction, Statement, StatementKind, read_body, skip_file};
use crate::error::Error;
use std::collections::HashMap;

/// PTX text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module<'a> {
    pub(crate) text: &'a str,
    pub(crate) items: Vec<Item<'a>>,
    /// Places of line ends, rising.
    line_ends: Vec<usize>,
    files: HashMap<u32, &'a str>,
    /// Items of a name: a function may be declared first.
    names: HashMap<&'a str, Vec<usize>>,
}

/// Part of a module, from its first to behind its last byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) at: usize,
    pub(crate) end: usize,
    pub(crate) kind: ItemKind<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ItemKind<'a> {
    /// `.version`, `.target`, `.address_size`, `.file`, `.section` and the like.
    Directive(&'a str),
    Variable(Variable<'a>),
    Function(Function<'a>),
}

/// Variable of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    /// State space without its point: `global`, `const`, `shared` or `tex`.
    pub(crate) space: &'a str,
    pub(crate) is_initialised: bool,
    /// The host finds it by its name.
    pub(crate) is_visible: bool,
}

/// Line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// As the compiler wrote it.
    pub file: String,
    /// From 1.
    pub line: u32,
}

impl<'a> Module<'a> {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// A statement has a form that the reader does not know.
    pub fn read(text: &'a str) -> Result<Self, Error> {
        let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_ends = line_ends.map(|(at, _)| at).collect();
        let mut module = Self {
            text,
            items: Vec::new(),
            line_ends,
            files: HashMap::new(),
            names: HashMap::new(),
        };
        let mut cursor = Cursor::new(text, 0);
        while let Some(token) = cursor.next() {
            let kind = module.item(&mut cursor, token)?;
            if let ItemKind::Variable(Variable { name, .. })
            | ItemKind::Function(Function { name, .. }) = &kind
            {
                module.names.entry(name).or_default().push(module.items.len());
            }
            module.items.push(Item { at: token.at, end: cursor.at(), kind });
        }
        Ok(module)
    }

    /// Value of `.target` without options, such as `sm_90a`; empty if there is none.
    pub fn target(&self) -> &'a str {
        self.directive(".target").unwrap_or_default()
    }

    /// Value of `.version`, such as `9.0`; empty if there is none.
    pub fn version(&self) -> &'a str {
        self.directive(".version").unwrap_or_default()
    }

    /// First word behind the name of a directive.
    fn directive(&self, name: &str) -> Option<&'a str> {
        self.items.iter().find_map(|item| match item.kind {
            ItemKind::Directive(found) if found == name => {
                words(&self.text[item.at + name.len()..item.end]).next()
            }
            _ => None,
        })
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function<'a>> {
        self.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Function(function) => Some(function),
            _ => None,
        })
    }

    /// The function of a name; one with a body, if there is one.
    pub(crate) fn function(&self, name: &str) -> Option<&Function<'a>> {
        let items = self.names.get(name).into_iter().flatten();
        let mut named = items.filter_map(|at| match &self.items[*at].kind {
            ItemKind::Function(function) => Some(function),
            _ => None,
        });
        let first = named.next();
        first.into_iter().chain(named).find(|function| function.body.is_some()).or(first)
    }

    /// Indices of the items that a function uses, and of those that they use, with its own; rising.
    pub(crate) fn uses(&self, name: &str) -> Vec<usize> {
        let mut used = vec![false; self.items.len()];
        let mut work: Vec<usize> = self.names.get(name).into_iter().flatten().copied().collect();
        while let Some(at) = work.pop() {
            if std::mem::replace(&mut used[at], true) {
                continue;
            }
            let text = &self.text[self.items[at].at..self.items[at].end];
            work.extend(words(text).filter_map(|word| self.names.get(word)).flatten());
        }
        (0..used.len()).filter(|at| used[*at]).collect()
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &Variable<'a>> {
        self.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Variable(variable) => Some(variable),
            _ => None,
        })
    }

    /// Line of a place, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < at)
    }

    /// Line of the source that a `.loc` with these operands names. Of code that was inlined, it is
    /// the line of the call.
    pub(crate) fn source_line(&self, loc: &str) -> Option<SourceLine> {
        let (own, call) = loc.split_once("inlined_at").unwrap_or((loc, ""));
        let mut operands = words(if call.is_empty() { own } else { call });
        let file = self.files.get(&operands.next()?.parse().ok()?)?;
        let line = operands.next()?.parse().ok().filter(|line| *line > 0)?;
        Some(SourceLine { file: (*file).to_owned(), line })
    }

    fn item(&mut self, cursor: &mut Cursor<'a>, first: Token<'a>) -> Result<ItemKind<'a>, Error> {
        match first.text {
            ".version" | ".target" | ".address_size" => cursor.skip_words(first.at)?,
            ".file" => {
                skip_file(cursor, first)?;
                self.add_file(&self.text[first.end()..cursor.at()]);
            }
            // Debug data of old compilers, a line each.
            "@" => cursor.skip_line(),
            ".section" => {
                cursor.skip_past("{", first.at)?;
                cursor.skip_past("}", first.at)?;
            }
            ";" => {}
            _ if first.text.starts_with('.') => return self.declaration(cursor, first),
            _ => return Err(cursor.error(first.at, "a directive must stand here")),
        }
        Ok(ItemKind::Directive(first.text))
    }

    /// `.file 1 "name", time, size`
    fn add_file(&mut self, operands: &'a str) {
        let mut tokens = Cursor::new(operands, 0);
        let number = tokens.next().and_then(|token| token.text.parse().ok());
        let name = tokens.next().filter(|token| token.kind == Kind::Text);
        if let (Some(number), Some(name)) = (number, name) {
            self.files.insert(number, name.text.trim_matches('"'));
        }
    }

    /// A function or a variable.
    fn declaration(
        &self,
        cursor: &mut Cursor<'a>,
        first: Token<'a>,
    ) -> Result<ItemKind<'a>, Error> {
        let mut token = first;
        loop {
            match token.text {
                ".entry" | ".func" => return self.function_at(cursor, token),
                ".pragma" | ".alias" | ".branchtargets" | ".calltargets" => {
                    cursor.skip_past(";", first.at)?;
                    return Ok(ItemKind::Directive(token.text));
                }
                ".global" | ".const" | ".shared" | ".tex" => {
                    return self.variable(cursor, first, token);
                }
                _ => {}
            }
            token = match cursor.next() {
                Some(token) if !matches!(token.text, ";" | "{" | "}") => token,
                _ => return Err(cursor.error(first.at, "a declaration must have a state space")),
            };
        }
    }

    fn variable(
        &self,
        cursor: &mut Cursor<'a>,
        first: Token<'a>,
        space: Token<'a>,
    ) -> Result<ItemKind<'a>, Error> {
        let before = &self.text[first.at..space.at];
        let inner = cursor.clone();
        cursor.skip_past(";", first.at)?;
        let end = cursor.at();
        let mut name = None;
        let mut is_initialised = false;
        for token in inner.take_while(|token| token.at < end) {
            match token.text {
                "[" | ";" | "," => break,
                "=" => {
                    is_initialised = true;
                    break;
                }
                _ if token.kind == Kind::Word => name = Some(token.text),
                _ => {}
            }
        }
        is_initialised |= self.text[space.at..end].contains('=');
        let name = name.ok_or_else(|| cursor.error(first.at, "a variable must have a name"))?;
        let is_visible = [".visible", ".extern", ".weak", ".common"]
            .iter()
            .any(|linkage| before.contains(linkage));
        let space = &space.text[1..];
        Ok(ItemKind::Variable(Variable { name, space, is_initialised, is_visible }))
    }

    fn function_at(&self, cursor: &mut Cursor<'a>, kind: Token<'a>) -> Result<ItemKind<'a>, Error> {
        let wrong = |cursor: &Cursor<'a>| cursor.error(kind.at, "a function must have a name");
        if cursor.peek().is_some_and(|token| token.is("(")) {
            cursor.next();
            parameters(cursor)?; // what it returns
        }
        let name = cursor.next().filter(|token| token.kind == Kind::Word);
        let name = name.ok_or_else(|| wrong(cursor))?;
        let has_list = cursor.peek().is_some_and(|token| token.is("("));
        let mut list_end = name.end();
        let mut list = Vec::new();
        if has_list {
            cursor.next();
            list = parameters(cursor)?;
            list_end = cursor.at() - 1;
        }
        let directives_at = cursor.at();
        let mut function = Function {
            name: name.text,
            is_entry: kind.is(".entry"),
            parameters: list,
            list_end,
            has_list,
            directives: "",
            body: None,
            body_at: 0,
        };
        loop {
            let token = cursor.next();
            let token = token.ok_or_else(|| cursor.error(kind.at, "a function does not end"))?;
            function.directives = &self.text[directives_at..token.at];
            match token.text {
                ";" => return Ok(ItemKind::Function(function)),
                "{" => {
                    function.body_at = token.end();
                    function.body = Some(read_body(self.text, cursor)?);
                    return Ok(ItemKind::Function(function));
                }
                "}" => return Err(cursor.error(token.at, "a bracket closes that was not opened")),
                ".pragma" => cursor.skip_past(";", token.at)?,
                _ => {}
            }
        }
    }
}

impl<'a> Function<'a> {
    /// Instructions and the `.loc` in force at each, as its operands.
    pub(crate) fn located(
        &self,
    ) -> impl Iterator<Item = (&Statement<'a>, &Instruction<'a>, Option<&'a str>)> {
        let mut loc = None;
        let statements = self.body.iter().flat_map(|body| &body.statements);
        statements.filter_map(move |statement| match &statement.kind {
            StatementKind::Directive(".loc", operands) => {
                loc = Some(*operands);
                None
            }
            StatementKind::Instruction(instruction) => Some((statement, instruction, loc)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// c
.version 9.0
.target sm_90a, debug // here
.address_size 64
.file 1 \"a.cu\"
.visible .global .align 4 .u32 count;
.global .align 1 .b8 $str[3] = {104, 105, 0};
.extern .shared .align 16 .b8 smem[];
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.visible .entry plain
.maxntid 128, 1, 1
{
\t.loc 1 7 3
\tret;
}
.weak .entry k(.param .u64 p) .reqntid 32 { { add.u32 %r1, %r2, 1; } exit; }
.section .debug_str { info: .b8 1, 2 }
";

    #[test]
    fn items_of_a_module_are_told_apart() {
        let module = Module::read(TEXT).unwrap();
        assert_eq!((module.version(), module.target()), ("9.0", "sm_90a"));
        let names: Vec<_> = module.functions().map(|f| (f.name, f.is_entry)).collect();
        assert_eq!(names, [("vprintf", false), ("plain", true), ("k", true)]);
        let variables: Vec<_> = module.variables().copied().collect();
        assert_eq!(variables.iter().map(|v| v.name).collect::<Vec<_>>(), ["count", "$str", "smem"]);
        assert!(variables[0].is_visible && !variables[0].is_initialised);
        assert!(!variables[1].is_visible && variables[1].is_initialised);
        let plain = module.function("plain").unwrap();
        assert!(!plain.has_list && plain.directives.contains("128"));
        let (statement, _, loc) = plain.located().next().unwrap();
        let source = module.source_line(loc.unwrap()).unwrap();
        assert_eq!((source.file.as_str(), source.line), ("a.cu", 7));
        assert_eq!(module.line(statement.at), 14);
    }

    #[test]
    fn items_need_no_lines_of_their_own() {
        let text = ".version 8.0 .target sm_90, debug .address_size 64 .file 1 \"a.cu\", 1, 2 \
                    .visible.global.b8 g[4]; .visible .entry k() { .loc 1 2 3 ret; }";
        let module = Module::read(text).unwrap();
        assert_eq!((module.version(), module.target()), ("8.0", "sm_90"));
        let variables: Vec<_> = module.variables().map(|v| (v.name, v.is_visible)).collect();
        assert_eq!(variables, [("g", true)]);
        let kernel = module.function("k").unwrap();
        let (_, instruction, loc) = kernel.located().next().unwrap();
        assert_eq!(instruction.base(), "ret");
        assert_eq!(module.source_line(loc.unwrap()).unwrap().line, 2);
    }

    #[test]
    fn text_that_is_cut_off_is_an_error_or_shorter() {
        for end in 0..TEXT.len() {
            let _ = Module::read(&TEXT[..end]);
        }
        assert!(Module::read(&TEXT[..TEXT.find("exit").unwrap()]).is_err());
    }
}
