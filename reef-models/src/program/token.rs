//! Words, numbers and signs of C++, as far as generated kernels have them.

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    /// In quotes.
    Text,
    Sign,
    /// A line that begins with `#`, with those that it goes on in.
    Directive,
}

/// A piece of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// Its first byte in the source.
    pub(crate) at: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.at + self.text.len()
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text && self.kind != Kind::Text
    }

    pub(crate) fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }
}

/// Signs of several characters, longest first.
const SIGNS: [&str; 22] = [
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=",
];

/// All tokens of `source`, without spaces and comments.
///
/// # Errors
///
/// The byte at which a comment or a text begins that doesn't end.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token<'_>>, usize> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(first) = source[at..].chars().next() {
        let length = match blank(&source[at..]) {
            Some(0) => return Err(at),
            Some(length) => length,
            None => {
                let (kind, length) = token(&source[at..], first).ok_or(at)?;
                tokens.push(Token { kind, text: &source[at..at + length], at });
                length
            }
        };
        at += length;
    }
    Ok(tokens)
}

/// Bytes of a space or comment, if there is one; 0: it doesn't end.
fn blank(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(joined_lines(rest));
    }
    if let Some(inside) = rest.strip_prefix("/*") {
        return Some(inside.find("*/").map_or(0, |end| end + 4));
    }
    let first = rest.chars().next()?;
    first.is_whitespace().then(|| first.len_utf8())
}

/// Kind and bytes of the token at the beginning.
fn token(rest: &str, first: char) -> Option<(Kind, usize)> {
    let while_in = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
    Some(match first {
        '#' => (Kind::Directive, joined_lines(rest)),
        '"' | '\'' => (Kind::Text, quoted(rest, first)?),
        c if is_word(c) && !c.is_ascii_digit() => (Kind::Word, while_in(is_word)),
        c if c.is_ascii_digit() => (Kind::Number, number(rest)),
        '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => (Kind::Number, number(rest)),
        c => {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            (Kind::Sign, sign.map_or(c.len_utf8(), |sign| sign.len()))
        }
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// `1`, `0x1f`, `3.402823e+38f`.
fn number(rest: &str) -> usize {
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        let sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E' | 'p' | 'P');
        if !(is_word(c) || c == '.' || sign) {
            return at;
        }
        before = c;
    }
    rest.len()
}

/// Returns whether a line goes on in the next one.
pub(crate) fn goes_on(line: &str) -> bool {
    line.trim_end().ends_with('\\')
}

/// Bytes of a line, with those that it goes on in.
fn joined_lines(rest: &str) -> usize {
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        end += line.len();
        if !goes_on(line) {
            break;
        }
    }
    end
}

fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).unwrap().iter().map(|token| token.text).collect()
    }

    #[test]
    fn a_source_comes_apart_into_words_numbers_and_signs() {
        let source = "a[(0)] += -3.4e+38f/*x=1*/ * b1; // no\n'\\'' 0x1f<<=2";
        let want = [
            "a", "[", "(", "0", ")", "]", "+=", "-", "3.4e+38f", "*", "b1", ";", "'\\''", "0x1f",
            "<<=", "2",
        ];
        assert_eq!(texts(source), want);
        assert_eq!(texts("1e-3-2 .5f a.x"), ["1e-3", "-", "2", ".5f", "a", ".", "x"]);
    }

    #[test]
    fn a_directive_goes_to_the_end_of_its_last_line() {
        assert_eq!(texts("#define A \\\n 1\nb"), ["#define A \\\n 1\n", "b"]);
    }

    #[test]
    fn a_comment_goes_to_the_end_of_its_last_line() {
        assert_eq!(texts("a // b \\\n c\nd // e"), ["a", "d"]);
    }

    #[test]
    fn unterminated_tokens_are_refused_with_their_place() {
        assert_eq!(tokens("ab /* c"), Err(3));
        assert_eq!(tokens("a \"b\nc\""), Err(2));
    }
}
