//! Tensors in JSON: numbers of a type, nested to any depth.

use super::non_finite;
use reef::tensor::{Array, Brain, Element, Half, Stored};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;

/// Appends the numbers of `data` to `bytes` in row-major order, in the wire format of this type.
///
/// # Errors
///
/// A value that is not a number, or does not fit the type.
pub(in crate::kserve::http) fn flat(
    data: &RawValue,
    element: Element,
    bytes: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(data.get());
    json.deserialize_seq(NumberSeed { element, bytes })
}

/// Deserializer of a number, or an array of them, into one list.
struct NumberSeed<'a> {
    element: Element,
    bytes: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for NumberSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl NumberSeed<'_> {
    /// Adds a number that is rounded to the type, unless this makes it infinite.
    fn add_float<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        let rounded = match self.element {
            Element::F32 => {
                let single = value as f32;
                self.bytes.extend_from_slice(&single.to_le_bytes());
                f64::from(single)
            }
            Element::F64 => {
                self.bytes.extend_from_slice(&value.to_le_bytes());
                value
            }
            Element::BF16 => {
                let brain = Brain::from_f64(value);
                self.bytes.extend(brain.0.to_le_bytes());
                brain.to_f64()
            }
            _ => {
                let half = Half::from_f64(value);
                self.bytes.extend(half.0.to_le_bytes());
                half.to_f64()
            }
        };
        if value.is_finite() && rounded.is_infinite() {
            return Err(E::custom(format!("{value:e} must fit {}", self.element)));
        }
        Ok(())
    }

    /// Adds an integer, if it fits the type.
    fn add_integer<E: serde::de::Error>(self, value: i128) -> Result<(), E> {
        let (min, max) = match self.element {
            float if float.is_float() => return self.add_float(value as f64),
            Element::Bool => (0, 1),
            Element::U8 | Element::U16 | Element::U32 | Element::U64 => {
                (0, (1 << (8 * self.element.bytes())) - 1)
            }
            signed => {
                let half = 1 << (8 * signed.bytes() - 1);
                (-half, half - 1)
            }
        };
        if !(min..=max).contains(&value) {
            return Err(E::custom(format!("{value} must fit {}", self.element)));
        }
        self.bytes.extend_from_slice(&value.to_le_bytes()[..self.element.bytes()]);
        Ok(())
    }
}

impl<'de> Visitor<'de> for NumberSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "numbers ({})", self.element)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if !self.element.is_float() {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        self.add_float(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.add_integer(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.add_integer(value.into())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        match self.element {
            Element::Bool => self.add_integer(value.into()),
            _ => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<(), E> {
        match non_finite::value(word) {
            Some(value) if self.element.is_float() => self.visit_f64(value),
            _ => Err(E::invalid_type(Unexpected::Str(word), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { element, bytes } = self;
        while seq.next_element_seed(NumberSeed { element, bytes: &mut *bytes })?.is_some() {}
        Ok(())
    }
}

/// Floating-point number of an answer; a byte string if it is not finite (see [`non_finite`]).
struct Float<T>(T);

impl<T: Serialize + Copy + Into<f64>> Serialize for Float<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: f64 = self.0.into();
        if value.is_finite() {
            return self.0.serialize(serializer);
        }
        serializer.serialize_bytes(non_finite::word(value).as_bytes())
    }
}

/// Numbers of the wire as a list in JSON, for [`non_finite::to_json`].
#[derive(Debug)]
pub(in crate::kserve::http) struct NumberList<'a> {
    pub(in crate::kserve::http) element: Element,
    pub(in crate::kserve::http) bytes: &'a [u8],
}

impl Serialize for NumberList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        macro_rules! each {
            ($kind:ty, $value:expr) => {{
                let (words, _) = self.bytes.as_chunks::<{ size_of::<$kind>() }>();
                serializer
                    .collect_seq(words.iter().map(|&word| $value(<$kind>::from_le_bytes(word))))
            }};
        }
        match self.element {
            Element::F32 => each!(f32, Float),
            Element::F64 => each!(f64, Float),
            Element::I64 => each!(i64, |x| x),
            Element::I32 => each!(i32, |x| x),
            Element::I16 => each!(i16, |x| x),
            Element::I8 => each!(i8, |x| x),
            Element::U64 => each!(u64, |x| x),
            Element::U32 => each!(u32, |x| x),
            Element::U16 => each!(u16, |x| x),
            Element::U8 => each!(u8, |x| x),
            Element::Bool => each!(u8, |x| x != 0),
            Element::F16 | Element::BF16 => {
                let halves = Array::from_le_bytes(self.element, self.bytes);
                serializer.collect_seq(halves.values().to_f64().into_iter().map(Float))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, element: Element) -> Result<Array, String> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let mut bytes = Vec::new();
        flat(raw, element, &mut bytes).map_err(|e| e.to_string())?;
        Ok(Array::from_le_bytes(element, &bytes))
    }

    #[test]
    fn nested_numbers_are_flattened() {
        let floats = |text: &str| read(text, Element::F32);
        assert_eq!(floats("[1, -2, 0.5]"), Ok(Array::F32(vec![1.0, -2.0, 0.5])));
        assert_eq!(floats("[[1, 2], [[3]], []]"), Ok(Array::F32(vec![1.0, 2.0, 3.0])));
        for bad in ["1", "[\"1\"]", "[null]", "[true]", "{}", "[1", "[1e999]"] {
            assert!(floats(bad).is_err(), "{bad}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(floats(&deep).is_err(), "the stack is bounded");
    }

    #[test]
    fn non_finite_numbers_round_trip_in_float_types_alone() {
        const WORDS: &str = "[NaN,Infinity,-Infinity,1.5]";
        let quoted = non_finite::quote(WORDS.as_bytes());
        let quoted = std::str::from_utf8(&quoted).unwrap();
        for element in [Element::F32, Element::F64, Element::F16, Element::BF16] {
            let bytes = read(quoted, element).unwrap().to_le_bytes();
            let said = non_finite::to_json(&NumberList { element, bytes: &bytes });
            assert_eq!(String::from_utf8(said).unwrap(), WORDS, "{element}");
        }
        for element in [Element::I32, Element::U8, Element::Bool] {
            assert!(read(quoted, element).unwrap_err().contains(element.name()));
        }
    }

    #[test]
    fn number_that_becomes_infinite_is_refused() {
        for (element, text, said) in [
            (Element::F32, "[1e300]", "1e300 must fit float32"),
            (Element::F32, "[-1e39]", "-1e39 must fit float32"),
            (Element::F16, "[70000]", "7e4 must fit float16"),
            (Element::BF16, "[1e300]", "1e300 must fit bfloat16"),
        ] {
            let why = read(text, element).unwrap_err();
            assert!(why.starts_with(said), "{text}: {why}");
        }
        assert_eq!(read("[3.4028235e38]", Element::F32), Ok(Array::F32(vec![f32::MAX])));
        assert!(read("[1e300]", Element::F64).is_ok() && read("[65504]", Element::F16).is_ok());
    }

    #[test]
    fn numbers_round_trip_in_their_type() {
        for (element, text) in [
            (Element::I64, "[9223372036854775807,-9223372036854775808]"),
            (Element::U64, "[18446744073709551615,0]"),
            (Element::I8, "[-128,127]"),
            (Element::Bool, "[true,false]"),
            (Element::F64, "[0.1,1e+300]"),
            (Element::F16, "[0.5,-2.0]"),
            (Element::F32, "[-0.0]"),
        ] {
            let bytes = read(text, element).unwrap().to_le_bytes();
            let said = non_finite::to_json(&NumberList { element, bytes: &bytes });
            let said = String::from_utf8(said).unwrap();
            assert_eq!(said, text);
        }
        assert_eq!(read("[1, 0]", Element::Bool), read("[true, false]", Element::Bool));
        for (element, text) in [
            (Element::I64, "[1.5]"),
            (Element::U8, "[256]"),
            (Element::Bool, "[2]"),
            (Element::U8, "[-1]"),
        ] {
            let said = read(text, element).unwrap_err();
            assert!(said.contains(element.name()), "{said}");
        }
    }
}
