//! Bounded parts of a JSON request: texts with a maximum length, lists and parameters with a
//! maximum number of entries, and the fields of an object that are asked for.

use crate::config::limits::MAX_TENSORS;
use crate::kserve::parameter::MAX_TEXT_BYTES;
use crate::tensor::short;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Maximum number of entries of a list or a map.
const MAX_ENTRIES: usize = 1024;

/// Parameters of tensors that are read. Others are not stored: a thousand tensors may have a
/// thousand each.
const OF_TENSORS: [&str; 6] = [
    "binary_data",
    "binary_data_size",
    "classification",
    "shared_memory_byte_size",
    "shared_memory_offset",
    "shared_memory_region",
];

/// Reads a text of at most [`MAX_TEXT_BYTES`].
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_str(TextVisitor { max: MAX_TEXT_BYTES })
}

struct TextVisitor {
    max: usize,
}

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text of at most {} bytes", self.max)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        if text.len() > self.max {
            return Err(E::invalid_length(text.len(), &self));
        }
        Ok(text.into())
    }
}

/// A text of at most [`MAX_TEXT_BYTES`].
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer).map(Self)
    }
}

/// Reads a list of at most [`MAX_ENTRIES`].
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(List { max: MAX_ENTRIES, key: "", of: PhantomData })
}

/// Reads the tensors of a request: as many as the configuration may allow.
pub(super) fn tensors<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let key = " (limits.tensors)";
    deserializer.deserialize_seq(List { max: MAX_TENSORS, key, of: PhantomData })
}

struct List<T> {
    max: usize,
    /// Key of the maximum, for errors.
    key: &'static str,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {}{}", self.max, self.key)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(next) = seq.next_element()? {
            if all.len() == self.max {
                return Err(A::Error::invalid_length(self.max + 1, &self));
            }
            all.push(next);
        }
        Ok(all)
    }
}

/// Reads a map of at most [`MAX_ENTRIES`] parameters, whose names and texts have at most
/// [`MAX_TEXT_BYTES`]. A list or a map becomes null, because no parameter is one.
pub(super) fn parameters<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    deserializer.deserialize_map(Parameters { max_text: MAX_TEXT_BYTES, names: None })
}

/// Reads the [`parameters`] of a tensor, and keeps those of [`OF_TENSORS`].
pub(super) fn tensor_parameters<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    let names = Some(&OF_TENSORS[..]);
    deserializer.deserialize_map(Parameters { max_text: MAX_TEXT_BYTES, names })
}

/// Reads the [`parameters`] of a load, whose texts may be files and are charged.
pub(super) fn load_parameters<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    deserializer.deserialize_map(Parameters { max_text: usize::MAX, names: None })
}

struct Parameters {
    max_text: usize,
    /// Names of those that are kept; `None` if all are.
    names: Option<&'static [&'static str]>,
}

impl<'de> Visitor<'de> for Parameters {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map of at most {MAX_ENTRIES} parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut all, mut count) = (Map::new(), 0);
        let plain = || Plain { max_text: self.max_text };
        while let Some((Text(key), value)) = map.next_entry_seed(PhantomData::<Text>, plain())? {
            if count == MAX_ENTRIES {
                return Err(A::Error::invalid_length(MAX_ENTRIES + 1, &self));
            }
            count += 1;
            if self.names.is_some_and(|names| !names.contains(&&*key)) {
                continue;
            }
            check_new::<A::Error>(!all.contains_key(&key), &key)?;
            all.insert(key, value);
        }
        Ok(all)
    }
}

/// Fields of an object, unread.
pub(super) type RawFields<'a> = BTreeMap<String, &'a RawValue>;

/// Refuses a key that was there before: readers may differ about which of the values counts.
fn check_new<E: Error>(is_new: bool, key: &str) -> Result<(), E> {
    if is_new {
        return Ok(());
    }
    let key = short(key);
    Err(E::custom(format_args!("{key:?} must be given once")))
}

/// Returns the fields of an object with these names, unread; the others are skipped. An empty body
/// is an empty object.
pub(super) fn fields<'a>(json: &'a [u8], names: &[&str]) -> serde_json::Result<RawFields<'a>> {
    known_fields(json, names).map(|(fields, _)| fields)
}

/// Returns the fields of an object as [`fields`] does, and the first name that is not one of these.
pub(super) fn known_fields<'a>(
    json: &'a [u8],
    names: &[&str],
) -> serde_json::Result<(RawFields<'a>, Option<String>)> {
    if json.is_empty() {
        return Ok((BTreeMap::new(), None));
    }
    let mut from = serde_json::Deserializer::from_slice(json);
    let fields = Fields(names).deserialize(&mut from)?;
    from.end()?;
    Ok(fields)
}

struct Fields<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = (RawFields<'de>, Option<String>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = (RawFields<'de>, Option<String>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut all, mut other) = (BTreeMap::new(), None);
        while let Some(key) = map.next_key::<String>()? {
            if self.0.contains(&&*key) {
                check_new::<A::Error>(!all.contains_key(&key), &key)?;
                all.insert(key, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
                other.get_or_insert(key);
            }
        }
        Ok((all, other))
    }
}

/// A value without nested values.
struct Plain {
    max_text: usize,
}

impl<'de> DeserializeSeed<'de> for Plain {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        TextVisitor { max: self.max_text }.visit_str(value).map(Value::String)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Sections {
        #[serde(default, deserialize_with = "text")]
        id: String,
        #[serde(default, deserialize_with = "list")]
        list: Vec<i64>,
        #[serde(default, deserialize_with = "parameters")]
        parameters: Map<String, Value>,
        #[serde(default, deserialize_with = "tensor_parameters")]
        tensor: Map<String, Value>,
        #[serde(default, deserialize_with = "load_parameters")]
        load: Map<String, Value>,
    }

    fn read(text: &str) -> serde_json::Result<Sections> {
        serde_json::from_str(text)
    }

    #[test]
    fn fields_of_other_names_are_skipped() {
        let json = format!("{{\"x\":[1, 2],\"mine\":[{}0],\"id\":\"a\"}}", "0,".repeat(1000));
        let all = fields(json.as_bytes(), &["x", "id"]).unwrap();
        let said: Vec<_> = all.iter().map(|(name, value)| (&**name, value.get())).collect();
        assert_eq!(said, [("id", "\"a\""), ("x", "[1, 2]")]);
        assert!(fields(b"", &["x"]).unwrap().is_empty());
        let (_, other) = known_fields(json.as_bytes(), &["x", "id"]).unwrap();
        assert_eq!(other.as_deref(), Some("mine"));
        assert_eq!(known_fields(b"{\"x\": 1}", &["x"]).unwrap().1, None);
        assert!(fields(b"[]", &["x"]).is_err() && fields(b"{} 1", &["x"]).is_err());
    }

    #[test]
    fn text_above_the_maximum_is_refused() {
        let (most, more) = ("x".repeat(MAX_TEXT_BYTES), "x".repeat(MAX_TEXT_BYTES + 1));
        let each = |text: &str| {
            [
                format!("{{\"id\":\"{text}\"}}"),
                format!("{{\"parameters\":{{\"a\":\"{text}\"}}}}"),
                format!("{{\"parameters\":{{\"{text}\":1}}}}"),
            ]
        };
        assert_eq!(read(&each(&most)[0]).unwrap().id, most);
        for json in &each(&most)[1..] {
            assert_eq!(read(json).unwrap().parameters.len(), 1);
        }
        for json in each(&more) {
            let said = read(&json).unwrap_err().to_string();
            let want = "invalid length 4097, expected a text of at most 4096 bytes";
            assert!(said.starts_with(want), "{said}");
        }
        assert!(read(r#"{"id":1}"#).is_err());
        let file = read(&format!("{{\"load\":{{\"file:a\":\"{more}\"}}}}")).unwrap();
        assert_eq!(file.load["file:a"], more, "a file is as long as it is");
    }

    #[test]
    fn unread_parameter_of_a_tensor_is_not_stored() {
        let many = |count: usize| {
            let others: String = (1..count).map(|n| format!("\"{n}\":\"x\",")).collect();
            read(&format!("{{\"tensor\":{{{others}\"binary_data_size\":4}}}}"))
        };
        let kept = many(MAX_ENTRIES).unwrap().tensor;
        assert_eq!(Value::Object(kept), serde_json::json!({ "binary_data_size": 4 }));
        let said = many(MAX_ENTRIES + 1).unwrap_err().to_string();
        assert!(said.contains("a map of at most 1024 parameters"), "{said}");
        let twice = r#"{"tensor":{"binary_data":true,"x":1,"x":2,"binary_data":false}}"#;
        let said = read(twice).unwrap_err().to_string();
        assert!(said.starts_with("\"binary_data\" must be given once"), "{said}");
    }

    #[test]
    fn key_that_is_given_twice_is_refused() {
        let said = read(r#"{"parameters":{"a":1,"b":2,"a":1}}"#).unwrap_err().to_string();
        assert!(said.starts_with("\"a\" must be given once"), "{said}");
        let said = fields(br#"{"x":1,"id":"a","x":2,"id":"b"}"#, &["id"]).unwrap_err().to_string();
        assert!(said.starts_with("\"id\" must be given once"), "{said}");
    }

    #[test]
    fn list_and_map_above_the_maximum_are_refused() {
        let sections = read(r#"{"list":[1,-2],"parameters":{"a":1,"b":"x","c":[[],{}],"d":true}}"#);
        let Sections { list, parameters, .. } = sections.unwrap();
        assert_eq!(list, [1, -2]);
        assert_eq!(Value::Object(parameters), serde_json::json!({"a":1,"b":"x","c":null,"d":true}));
        let long = format!("{{\"list\":[{}1]}}", "1,".repeat(MAX_ENTRIES));
        let said = read(&long).unwrap_err().to_string();
        assert!(said.starts_with("invalid length 1025, expected a list of at most 1024"), "{said}");
        let many: Vec<_> = (0..=MAX_ENTRIES).map(|n| format!("\"{n}\":0")).collect();
        assert!(read(&format!("{{\"parameters\":{{{}}}}}", many.join(","))).is_err());
        let wide = format!("{{\"parameters\":{{\"a\":[{}0]}}}}", "0,".repeat(100_000));
        assert_eq!(read(&wide).unwrap().parameters["a"], Value::Null, "it is not stored");
    }
}
