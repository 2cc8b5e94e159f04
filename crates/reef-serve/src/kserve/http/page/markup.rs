//! HTML text. Literals and names of others take different calls, so a name never becomes markup.

use std::fmt::Display;

/// Maximum length of a name, in characters.
const MAX_NAME: usize = 64;

/// HTML that is written from its start to its end.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Appends a literal of this program.
    pub(super) fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// Appends a value as text: markup is escaped, and characters that control a terminal, a stream
    /// of events or the direction of writing are replaced.
    pub(super) fn text(&mut self, value: impl Display) -> &mut Self {
        let text = value.to_string();
        text.chars().for_each(|c| self.push(c));
        self
    }

    /// Appends a name that others chose, as text, shortened.
    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        let mut chars = name.chars();
        chars.by_ref().take(MAX_NAME).for_each(|c| self.push(c));
        if chars.next().is_some() {
            self.push('…');
        }
        self
    }

    fn push(&mut self, c: char) {
        match c {
            '&' => self.0.push_str("&amp;"),
            '<' => self.0.push_str("&lt;"),
            '>' => self.0.push_str("&gt;"),
            '"' => self.0.push_str("&quot;"),
            '\'' => self.0.push_str("&#39;"),
            c if is_unseen(c) => self.0.push('\u{fffd}'),
            c => self.0.push(c),
        }
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// True if a character is a control character, or changes the direction of others.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escape(name: &str) -> String {
        let mut markup = Markup::default();
        markup.name(name);
        markup.into_string()
    }

    #[test]
    fn hostile_name_becomes_text() {
        for (name, want) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\" onload='x'", "&quot; onload=&#39;x&#39;"),
            ("a&lt;b", "a&amp;lt;b"),
            ("a\r\ndata: b\0", "a\u{fffd}\u{fffd}data: b\u{fffd}"),
            ("\u{202e}gpj.exe\u{2028}", "\u{fffd}gpj.exe\u{fffd}"),
            ("名前 é", "名前 é"),
        ] {
            assert_eq!(escape(name), want);
        }
    }

    #[test]
    fn long_name_is_shortened_before_it_is_escaped() {
        assert_eq!(escape(&"<".repeat(64)), "&lt;".repeat(64));
        assert_eq!(escape(&"<".repeat(65)), "&lt;".repeat(64) + "…");
    }
}
