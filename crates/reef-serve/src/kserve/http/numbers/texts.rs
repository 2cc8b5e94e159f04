//! Tensors in JSON: texts, nested to any depth.

use crate::tensor::push_text;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Returns the texts of `data` in row-major order, in the wire format.
///
/// # Errors
///
/// A value that is not a text.
pub(in crate::kserve::http) fn flat(data: &RawValue) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::new();
    let mut json = serde_json::Deserializer::from_str(data.get());
    json.deserialize_seq(TextSeed(&mut bytes))?;
    Ok(bytes)
}

/// Deserializer of a text, or an array of them, into one list.
struct TextSeed<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for TextSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("texts")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        push_text(self.0, text.as_bytes());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(TextSeed(self.0))?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<u8>, String> {
        let data: Box<RawValue> = serde_json::from_str(json).unwrap();
        flat(&data).map_err(|e| e.to_string())
    }

    #[test]
    fn nested_texts_are_flattened() {
        assert_eq!(
            read(r#"[["a"], ["", "ä\n"]]"#).unwrap(),
            b"\x01\0\0\0a\0\0\0\0\x03\0\0\0\xc3\xa4\n"
        );
        assert_eq!(read("[]").unwrap(), b"");
        assert!(read("[1]").unwrap_err().starts_with("invalid type: integer `1`, expected texts"));
        assert!(read("\"a\"").is_err());
    }
}
