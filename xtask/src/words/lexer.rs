//! Splits Rust source into tokens, with comments and string literals among them.

/// Piece of a source file, and the line on which it begins (from 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Identifier, keyword or number.
    Word,
    /// One sign, or `=>`, `->` and `::` as one.
    Sign,
    /// Content of a string literal, without its quotes.
    Text,
    /// `//!` or `/*!`: text without the marker. Ends with the line or the block.
    ModuleDoc,
    /// `///` or `/**`.
    ItemDoc,
    /// Any other comment.
    Comment,
}

impl Kind {
    pub(crate) fn is_comment(self) -> bool {
        matches!(self, Self::ModuleDoc | Self::ItemDoc | Self::Comment)
    }
}

/// Tokens of a file in order. Text that is not Rust gives some tokens, never a panic.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { source, at: 0, line: 1, tokens: Vec::new() };
    while lexer.step() {}
    lexer.tokens
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) -> bool {
        let rest = &self.source[self.at..];
        let Some(first) = rest.chars().next() else {
            return false;
        };
        if rest.starts_with("//") {
            self.line_comment(rest);
        } else if rest.starts_with("/*") {
            self.block_comment(rest);
        } else if let Some((open, hashes)) = raw_string(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let inside = &rest[open..];
            let length = inside.find(&close).unwrap_or(inside.len());
            self.push(Kind::Text, open, length, close.len());
        } else if let Some(open) = string(rest) {
            let length = quoted(&rest[open..], b'"');
            self.push(Kind::Text, open, length, 1);
        } else if first == '\'' {
            match char_literal(rest) {
                Some(length) => self.skip(length),
                None => self.push(Kind::Sign, 0, 1, 0), // a lifetime's quote
            }
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            self.push(Kind::Word, 0, length, 0);
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else {
            let is_pair = ["=>", "->", "::"].iter().any(|pair| rest.starts_with(pair));
            self.push(Kind::Sign, 0, if is_pair { 2 } else { first.len_utf8() }, 0);
        }
        true
    }

    fn line_comment(&mut self, rest: &'a str) {
        let length = rest.find('\n').unwrap_or(rest.len());
        let (kind, marker) = comment_kind(rest, "//!", "///");
        self.push(kind, marker, length - marker, 0);
    }

    fn block_comment(&mut self, rest: &'a str) {
        let (mut depth, mut at) = (0, 0);
        while at < rest.len() {
            if rest.as_bytes()[at..].starts_with(b"/*") {
                (depth, at) = (depth + 1, at + 2);
            } else if rest.as_bytes()[at..].starts_with(b"*/") {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    break;
                }
            } else {
                at += 1;
            }
        }
        let (kind, marker) = comment_kind(rest, "/*!", "/**");
        self.push(kind, marker.min(at), at.saturating_sub(marker), 0);
    }

    /// Adds the `length` bytes after the first `before`, and goes past them and `after` more.
    fn push(&mut self, kind: Kind, before: usize, length: usize, after: usize) {
        let start = self.at + before;
        let text = &self.source[start..start + length];
        self.tokens.push(Token { kind, text, line: self.line });
        self.skip(before + length + after);
    }

    fn skip(&mut self, length: usize) {
        let end = (self.at + length).min(self.source.len());
        self.line += self.source[self.at..end].matches('\n').count();
        self.at = end;
    }
}

fn comment_kind(rest: &str, inner: &str, outer: &str) -> (Kind, usize) {
    // Four slashes are an ordinary comment, and so is an empty `/**/`.
    let is_plain = rest.starts_with("////") || rest.starts_with("/**/");
    if rest.starts_with(inner) {
        (Kind::ModuleDoc, 3)
    } else if rest.starts_with(outer) && !is_plain {
        (Kind::ItemDoc, 3)
    } else {
        (Kind::Comment, 2)
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Length of `r#"`, `br"` and so on, and the number of hashes.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|p| rest.strip_prefix(p).is_some_and(|r| r.starts_with(['"', '#'])))?;
    let hashes = rest[prefix.len()..].bytes().take_while(|&b| b == b'#').count();
    let open = prefix.len() + hashes + 1;
    (rest.as_bytes().get(open - 1) == Some(&b'"')).then_some((open, hashes))
}

/// Length of `"`, `b"` or `c"`.
fn string(rest: &str) -> Option<usize> {
    ["\"", "b\"", "c\""].into_iter().find(|open| rest.starts_with(open)).map(str::len)
}

/// Bytes before the closing quote.
fn quoted(inside: &str, close: u8) -> usize {
    let mut is_escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            byte if byte == close => return at,
            _ => {}
        }
    }
    inside.len()
}

/// Length of a character with its quotes; `None` for a lifetime.
fn char_literal(rest: &str) -> Option<usize> {
    let inside = &rest[1..];
    if inside.starts_with('\\') {
        return Some(quoted(inside, b'\'') + 2);
    }
    let length = inside.chars().next()?.len_utf8();
    inside[length..].starts_with('\'').then_some(length + 2)
}
