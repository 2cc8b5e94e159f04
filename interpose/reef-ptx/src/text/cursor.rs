//! Tokens of PTX.

use crate::error::Error;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Name, number, directive or opcode with its suffixes.
    Word,
    Text,
    Sign,
}

/// Token with its place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.at + self.text.len()
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text
    }
}

/// Place in a text; gives token after token, without white space and comments.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next token, which stays.
    pub(crate) fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// Skips to the end of the line, or of the text.
    pub(crate) fn skip_line(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    /// Skips a word, and those that commas join to it.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn skip_words(&mut self, begin: usize) -> Result<(), Error> {
        loop {
            if self.next().is_none_or(|token| token.kind != Kind::Word) {
                return Err(self.error(begin, "a directive must have a value"));
            }
            match self.peek() {
                Some(token) if token.is(",") => self.next(),
                _ => return Ok(()),
            };
        }
    }

    /// Skips past the sign that ends a statement, outside of all brackets.
    ///
    /// # Errors
    ///
    /// The text ends first, or a bracket closes that was not opened.
    pub(crate) fn skip_past(&mut self, sign: &str, begin: usize) -> Result<(), Error> {
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token.text {
                text if depth == 0 && text == sign => return Ok(()),
                _ if token.kind != Kind::Sign => {}
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return Err(self.error(begin, "a bracket closes that was not opened")),
                },
                _ => {}
            }
        }
        Err(self.error(begin, "a statement does not end"))
    }

    /// Error with the line of a place.
    pub(crate) fn error(&self, at: usize, what: &'static str) -> Error {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        Error::Text { line: 1 + before.iter().filter(|byte| **byte == b'\n').count(), what }
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            let rest = &bytes[self.at..];
            let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.at += space;
            let rest = &rest[space..];
            if rest.starts_with(b"//") {
                self.skip_line();
            } else if rest.starts_with(b"/*") {
                let end = self.text[self.at + 2..].find("*/").map(|end| end + 4); // not in `/*/`
                self.at += end.unwrap_or(rest.len());
            } else {
                return;
            }
        }
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let (kind, length) = match rest.as_bytes().first()? {
            b'"' => (Kind::Text, text_length(rest.as_bytes())),
            byte if is_word(*byte) => (Kind::Word, word_length(rest.as_bytes())),
            _ => (Kind::Sign, rest.chars().next().map_or(1, char::len_utf8)),
        };
        let token = Token { kind, text: &rest[..length], at: self.at };
        self.at += length;
        Some(token)
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// Length of a word; `::` belongs to it, as in `.shared::cta`. One that begins with a point ends
/// before the next point: `.global.b8` are two words, as for ptxas 13.0.
fn word_length(bytes: &[u8]) -> usize {
    let begins_with_point = bytes.first() == Some(&b'.');
    let mut length = 0;
    loop {
        match bytes.get(length) {
            Some(b'.') if begins_with_point && length > 0 => return length,
            Some(byte) if is_word(*byte) => length += 1,
            _ if bytes[length..].starts_with(b"::") => length += 2,
            _ => return length,
        }
    }
}

/// Length of a text in quotation marks, with them. One that does not end goes to the end. A
/// backslash is a sign like others, as for ptxas 13.0.
fn text_length(bytes: &[u8]) -> usize {
    let end = bytes.iter().skip(1).position(|byte| *byte == b'"');
    end.map_or(bytes.len(), |end| end + 2)
}

/// Words of a text, such as the registers of an operand.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    Cursor::new(text, 0).filter(|token| token.kind == Kind::Word).map(|token| token.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_leave_comments_out() {
        let text = "ld.shared::cta.b32 %r1, [%rd2+-4]; // x\n/* ; */ .file 1 \"a;\\\" b";
        let tokens: Vec<_> = Cursor::new(text, 0).map(|token| token.text).collect();
        let want = [
            "ld.shared::cta.b32",
            "%r1",
            ",",
            "[",
            "%rd2",
            "+",
            "-",
            "4",
            "]",
            ";",
            ".file",
            "1",
            "\"a;\\\"",
            "b",
        ];
        assert_eq!(tokens, want);
    }

    #[test]
    fn directives_without_a_space_are_words_of_their_own() {
        let text = ".visible.global.v4.f32 %f1.x ld.global.f32 9.0 .. .shared::cta.b8";
        let tokens: Vec<_> = Cursor::new(text, 0).map(|token| token.text).collect();
        let want = [".visible", ".global", ".v4", ".f32", "%f1.x", "ld.global.f32", "9.0"];
        assert_eq!(tokens[..7], want);
        assert_eq!(tokens[7..], [".", ".", ".shared::cta", ".b8"]);
    }

    #[test]
    fn end_of_a_statement_is_outside_of_brackets() {
        let mut cursor = Cursor::new("{a; (b;)} c; d", 0);
        cursor.skip_past(";", 0).unwrap();
        assert_eq!(cursor.next().unwrap().text, "d");
        assert!(Cursor::new("a)", 0).skip_past(";", 0).is_err());
        assert!(Cursor::new("é \u{1F600}", 0).skip_past(";", 0).is_err());
    }
}
