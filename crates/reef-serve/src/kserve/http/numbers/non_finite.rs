//! NaN and infinities in JSON.
//!
//! JSON has no words for them. Triton's clients and Python's `json` write and read the bare words
//! `NaN`, `Infinity` and `-Infinity`, and so does this server. It also reads `Inf` and `-Inf`, as
//! Triton's parser does, and each word as a string, as the JSON form of Protocol Buffers has it.

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::borrow::Cow;
use std::io;

/// Words of a request, a longer one before its beginning, and their values.
const WORDS: [(&str, f64); 5] = [
    ("NaN", f64::NAN),
    ("-Infinity", f64::NEG_INFINITY),
    ("-Inf", f64::NEG_INFINITY),
    ("Infinity", f64::INFINITY),
    ("Inf", f64::INFINITY),
];

/// Returns the word of an answer for a number that is not finite.
pub(super) fn word(value: f64) -> &'static str {
    match value {
        _ if value.is_nan() => "NaN",
        _ if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// Returns the number of a word.
pub(super) fn value(word: &str) -> Option<f64> {
    WORDS.into_iter().find(|(known, _)| *known == word).map(|(_, value)| value)
}

/// Puts bare words outside of strings into quotes, so that a parser of JSON reads them. Returns the
/// text itself if it has none.
pub(in crate::kserve::http) fn quote(json: &[u8]) -> Cow<'_, [u8]> {
    let (mut quoted, mut copied, mut at) = (Vec::new(), 0, 0);
    while let Some(next) = next_word(json, at) {
        let word = word_at(&json[next..]);
        at = next + word.max(1);
        if word > 0 {
            quoted.extend_from_slice(&json[copied..next]);
            quoted.push(b'"');
            quoted.extend_from_slice(&json[next..at]);
            quoted.push(b'"');
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    quoted.extend_from_slice(&json[copied..]);
    Cow::Owned(quoted)
}

/// Returns where a word may begin outside of strings, at `from` or later; `from` must be outside.
fn next_word(json: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += json.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'N' | b'I' | b'-'))?;
        match json[at] {
            b'"' => at = end_of_string(json, at)?,
            b'-' if json.get(at + 1) != Some(&b'I') => at += 1,
            _ => return Some(at),
        }
    }
}

/// Returns the position behind the string that begins at `from`.
fn end_of_string(json: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        at += json.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if json[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Returns the length of the word that `json` begins with, 0 if it does not.
fn word_at(json: &[u8]) -> usize {
    let found = WORDS.into_iter().find(|(word, _)| json.starts_with(word.as_bytes()));
    found.map_or(0, |(word, _)| word.len())
}

/// Formatter that writes byte strings as they are; all others as usual. No other value of an answer
/// is a byte string.
struct BareWords(CompactFormatter);

impl Formatter for BareWords {
    fn write_byte_array<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        word: &[u8],
    ) -> io::Result<()> {
        writer.write_all(word)
    }
}

/// Converts an answer to JSON, in which byte strings are bare words.
pub(in crate::kserve::http) fn to_json(answer: &impl Serialize) -> Vec<u8> {
    to_json_of(answer, 0)
}

/// Converts an answer to JSON likewise, with room for `bytes` bytes from the start.
pub(in crate::kserve::http) fn to_json_of(answer: &impl Serialize, bytes: usize) -> Vec<u8> {
    let mut json = Vec::with_capacity(bytes);
    let mut serializer = Serializer::with_formatter(&mut json, BareWords(CompactFormatter));
    answer.serialize(&mut serializer).expect("strings and numbers");
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(json: &str) -> String {
        String::from_utf8(quote(json.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn bare_words_are_quoted_and_strings_stay() {
        for (json, wanted) in [
            ("[NaN, -Infinity,Infinity]", r#"["NaN", "-Infinity","Infinity"]"#),
            ("[Inf,-Inf,-1]", r#"["Inf","-Inf",-1]"#),
            (
                r#"{"NaN": [NaN], "a\"NaN": "-Infinity"}"#,
                r#"{"NaN": ["NaN"], "a\"NaN": "-Infinity"}"#,
            ),
            (r#"["\\",NaN]"#, r#"["\\","NaN"]"#),
            ("NaNNaN", r#""NaN""NaN""#),
        ] {
            assert_eq!(quoted(json), wanted);
        }
    }

    #[test]
    fn other_text_is_borrowed_whatever_it_is() {
        for json in ["", "[1,-2]", "\"NaN", "\"\\", "N", "-", "-I", "[null,Name]", "\"a\\\"NaN\""] {
            assert!(matches!(quote(json.as_bytes()), Cow::Borrowed(_)), "{json}");
            assert_eq!(quoted(json), json);
        }
    }

    #[test]
    fn words_have_the_values_that_they_are_written_for() {
        for number in [f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(value(word(number)), Some(number));
        }
        assert!(value(word(f64::NAN)).is_some_and(f64::is_nan));
        assert_eq!(value("nan"), None);
    }
}
