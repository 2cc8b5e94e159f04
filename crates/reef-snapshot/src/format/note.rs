//! The writer's note in a manifest: any JSON, within a bound of memory.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Upper bound of the memory that a note takes: 512 MiB, and less in unit tests.
const MAX_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 512 << 20 };

/// Bytes of a value in a list that doubles.
const VALUE: u64 = 64;
/// Bytes of a map with its first entries, and of each entry besides its name.
const MAP: u64 = 640;
const ENTRY: u64 = 112;

/// Reads a note.
///
/// # Errors
///
/// An error of the format; a note that takes too much memory.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    let mut left = MAX_BYTES;
    Bounded { left: &mut left }.deserialize(from)
}

/// Reader of a value, with the bytes that are left for all values.
struct Bounded<'a> {
    left: &'a mut u64,
}

impl Bounded<'_> {
    fn charge<E: Error>(&mut self, bytes: u64) -> Result<(), E> {
        let left = self.left.checked_sub(bytes);
        *self.left = left.ok_or_else(|| E::custom("note: must take less memory"))?;
        Ok(())
    }

    /// Reader of a part of this value.
    fn part(&mut self) -> Bounded<'_> {
        Bounded { left: &mut *self.left }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<Value, D::Error> {
        self.charge::<D::Error>(VALUE)?;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<Value, E> {
        self.charge::<E>(value.len() as u64)?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = from.next_element_seed(self.part())? {
            all.push(value);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut from: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        self.charge::<A::Error>(MAP)?;
        while let Some(name) = from.next_key::<String>()? {
            self.charge::<A::Error>(ENTRY + name.len() as u64)?;
            let value = from.next_value_seed(self.part())?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_text(text: &str) -> serde_json::Result<Value> {
        read(&mut serde_json::Deserializer::from_str(text))
    }

    #[test]
    fn note_is_read_as_it_was_written() {
        let note = json!({ "a": [null, true, -1, 1.5, u64::MAX, "text"], "b": { "": {} } });
        assert_eq!(of_text(&note.to_string()).unwrap(), note);
    }

    #[test]
    fn note_takes_no_more_memory_than_its_bound() {
        for part in ["0,", "\"\",", "[],", "{},", "{\"\":0},"] {
            let text = |count| format!("[{}0]", part.repeat(count));
            of_text(&text(100)).unwrap();
            let error = of_text(&text(20_000)).unwrap_err().to_string();
            assert!(error.starts_with("note: must take less memory"), "{part}: {error}");
        }
    }
}
