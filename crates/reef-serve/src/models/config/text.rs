//! Reader of the text format of protocol buffers, without a schema: it returns names, values and
//! messages as JSON.
//!
//! A repeated field is a list. The grammar is that of
//! <https://protobuf.dev/reference/protobuf/textformat-spec/>, without extensions and `Any`. A
//! reader with a schema refuses unknown fields; this one keeps them, so that they can be named.

use serde_json::{Map, Value};

/// Maximum depth of nested messages.
const MAX_DEPTH: usize = 32;

/// Reads the fields of a text.
///
/// # Errors
///
/// The first syntax error, with its line.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, String> {
    let mut reader = Reader { text, rest: text };
    let fields = reader.fields(0, None).map_err(|why| reader.at_line(&why))?;
    Ok(fields)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn at_line(&self, why: &str) -> String {
        let read = self.text.len() - self.rest.len();
        let line = 1 + self.text[..read].matches('\n').count();
        format!("line {line}: {why}")
    }

    /// Reads fields up to `end`, or to the end of the text.
    fn fields(&mut self, depth: usize, end: Option<char>) -> Result<Map<String, Value>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("messages must be nested at most {MAX_DEPTH} deep"));
        }
        let mut all = Map::new();
        loop {
            self.skip();
            match (self.peek(), end) {
                (None, None) => return Ok(all),
                (Some(c), Some(end)) if c == end => {
                    self.take(end);
                    return Ok(all);
                }
                (None, Some(end)) => return Err(format!("must have {end:?}")),
                _ => {}
            }
            let name = self.word()?;
            let value = self.field(depth)?;
            add(&mut all, name, value);
            if !self.take(',') {
                self.take(';');
            }
        }
    }

    /// Reads the value after a field's name.
    fn field(&mut self, depth: usize) -> Result<Value, String> {
        let has_colon = self.take(':');
        self.skip();
        match self.peek() {
            Some('[') => self.list(depth),
            Some('{' | '<') => self.message(depth),
            _ if has_colon => self.scalar(),
            _ => Err("must have a value or a message".into()),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        self.take('[');
        let mut all = Vec::new();
        while !self.take(']') {
            if !all.is_empty() && !self.take(',') {
                return Err("must have ',' or ']'".into());
            }
            self.skip();
            all.push(match self.peek() {
                Some('{' | '<') => self.message(depth)?,
                _ => self.scalar()?,
            });
        }
        Ok(Value::Array(all))
    }

    fn message(&mut self, depth: usize) -> Result<Value, String> {
        let end = if self.take('{') {
            '}'
        } else {
            self.take('<');
            '>'
        };
        self.fields(depth + 1, Some(end)).map(Value::Object)
    }

    fn scalar(&mut self) -> Result<Value, String> {
        if matches!(self.peek(), Some('"' | '\'')) {
            let mut text = String::new();
            while let Some(quote @ ('"' | '\'')) = self.peek() {
                self.take(quote);
                self.quoted(quote, &mut text)?; // adjacent texts are concatenated
                self.skip();
            }
            return Ok(Value::String(text));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_+-.".contains(c);
        let word = self.while_is(is_part);
        Ok(match word {
            "" => return Err("must have a value".into()),
            "true" | "True" | "t" => Value::Bool(true),
            "false" | "False" | "f" => Value::Bool(false),
            word => number(word).unwrap_or_else(|| word.into()), // a name of an enumeration
        })
    }

    /// Reads the rest of a quoted text.
    fn quoted(&mut self, quote: char, to: &mut String) -> Result<(), String> {
        loop {
            let Some(c) = self.peek().filter(|c| *c != '\n') else {
                return Err("a text must end with its quote".into());
            };
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '\\' => to.push(self.escaped()?),
                c if c == quote => return Ok(()),
                c => to.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let c = self.peek().ok_or("a text must end with its quote")?;
        self.rest = &self.rest[c.len_utf8()..];
        match c {
            'n' => Ok('\n'),
            't' => Ok('\t'),
            'r' => Ok('\r'),
            '\\' | '"' | '\'' | '?' => Ok(c),
            c => Err(format!("unknown escape \\{c} in a text")),
        }
    }

    fn word(&mut self) -> Result<String, String> {
        match self.while_is(|c| c.is_ascii_alphanumeric() || c == '_') {
            "" => Err(format!("must have a name, got {:?}", self.peek().unwrap_or_default())),
            word => Ok(word.into()),
        }
    }

    fn while_is(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Consumes this character if it is the next one.
    fn take(&mut self, sign: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }
}

fn number(word: &str) -> Option<Value> {
    let begins = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    if let Ok(number) = word.parse::<i64>() {
        return Some(number.into());
    }
    begins.then(|| word.trim_end_matches(['f', 'F']).parse::<f64>().ok()).flatten().map(Value::from)
}

/// Adds a field; a repeated one becomes a list.
fn add(all: &mut Map<String, Value>, name: String, value: Value) {
    let Some(before) = all.get_mut(&name) else {
        all.insert(name, value);
        return;
    };
    let mut list = match before.take() {
        Value::Array(list) => list,
        one => vec![one],
    };
    match value {
        Value::Array(more) => list.extend(more),
        one => list.push(one),
    }
    *before = Value::Array(list);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn text_format_is_read_as_json() {
        let text = r#"
            # of a model
            name: "tiny" 'one'   max_batch_size: 8,
            input [ { name: "x" dims: [ -1, 3 ] }, { name: "y" } ]
            dynamic_batching { max_queue_delay_microseconds: 100; preferred_batch_size: 4 preferred_batch_size: 8 }
            instance_group: < kind: KIND_CPU count: 2 >
            scale: 1.5f on: true off: False flags: [True, t, f] empty { } none: []
        "#;
        let want = json!({
            "name": "tinyone", "max_batch_size": 8,
            "input": [{ "name": "x", "dims": [-1, 3] }, { "name": "y" }],
            "dynamic_batching": { "max_queue_delay_microseconds": 100, "preferred_batch_size": [4, 8] },
            "instance_group": { "kind": "KIND_CPU", "count": 2 },
            "scale": 1.5, "on": true, "off": false, "flags": [true, true, false],
            "empty": {}, "none": [],
        });
        assert_eq!(Value::Object(read(text).unwrap()), want);
    }

    #[test]
    fn syntax_error_names_its_line() {
        for (text, want) in [
            ("a: 1\nb", "line 2: must have a value or a message"),
            ("a:\n\"x", "line 2: a text must end with its quote"),
            ("a {\n", "line 2: must have '}'"),
            ("a: [1 2]", "line 1: must have ',' or ']'"),
            ("a: \"\\q\"", "line 1: unknown escape \\q in a text"),
            ("}", "line 1: must have a name, got '}'"),
            ("a { < b: 1 }", "line 1: must have a name, got '<'"),
        ] {
            assert_eq!(read(text).unwrap_err(), want, "{text}");
        }
        let deep = "a { ".repeat(100_000);
        assert_eq!(read(&deep).unwrap_err(), "line 1: messages must be nested at most 32 deep");
    }

    proptest! {
        /// Any text gives fields or one error.
        #[test]
        fn random_text_does_not_panic(text in "\\PC{0,80}|([a-z]{1,3}|[:{}<>,;#\"'\\\\\n ]|\\[|\\]|[0-9.+-]{1,3}){0,40}") {
            let _ = read(&text);
        }
    }
}
