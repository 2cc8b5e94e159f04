//! An inference as JSON, and tensors in it.

use super::bounded;
use crate::error::{Error, Result};
use crate::kserve::parameter::Parameter;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// The JSON part of a request.
#[derive(Debug, Deserialize)]
pub(super) struct InferRequestJson {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default, deserialize_with = "bounded::parameters")]
    pub(super) parameters: Map<String, Value>,
    #[serde(deserialize_with = "bounded::list")]
    pub(super) inputs: Vec<InputJson>,
    #[serde(default, deserialize_with = "bounded::list")]
    pub(super) outputs: Vec<OutputJson>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InputJson {
    pub(super) name: String,
    pub(super) datatype: String,
    #[serde(deserialize_with = "bounded::list")]
    pub(super) shape: Vec<i64>,
    #[serde(default, deserialize_with = "bounded::parameters")]
    pub(super) parameters: Map<String, Value>,
    pub(super) data: Option<Flat>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OutputJson {
    pub(super) name: String,
    #[serde(default, deserialize_with = "bounded::parameters")]
    pub(super) parameters: Map<String, Value>,
}

/// The JSON part of an answer.
#[derive(Debug, Serialize)]
pub(super) struct InferResponseJson {
    pub(super) model_name: String,
    pub(super) model_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) id: String,
    pub(super) outputs: [OutputTensorJson; 1],
}

#[derive(Debug, Serialize)]
pub(super) struct OutputTensorJson {
    pub(super) name: &'static str,
    pub(super) datatype: &'static str,
    pub(super) shape: Vec<i64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) parameters: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Vec<f32>>,
}

/// Numbers, however deep they are nested: row-major, as the protocol allows. Their bytes as the wire has floats.
#[derive(Debug, Default)]
pub(super) struct Flat(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Flat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut numbers = Vec::new();
        deserializer.deserialize_seq(Into(&mut numbers))?;
        Ok(Self(numbers))
    }
}

/// Reads a number, or an array of them, into one list.
struct Into<'a>(&'a mut Vec<u8>);

impl<'de> serde::de::DeserializeSeed<'de> for Into<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Into<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers")
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.extend_from_slice(&(value as f32).to_le_bytes());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.extend_from_slice(&(value as f32).to_le_bytes());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.extend_from_slice(&(value as f32).to_le_bytes());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Into(self.0))?.is_some() {}
        Ok(())
    }
}

/// Parameters as the protocol's other half has them.
pub(super) fn parameters(map: &Map<String, Value>) -> impl Iterator<Item = (&str, Parameter)> {
    let value = |value: &Value| match value {
        Value::Number(n) => n.as_u64().map_or(Parameter::Other, Parameter::Number),
        Value::String(text) => Parameter::Text(text.clone()),
        Value::Bool(flag) => Parameter::Flag(*flag),
        _ => Parameter::Other,
    };
    map.iter().map(move |(key, v)| (key.as_str(), value(v)))
}

/// The JSON object of a body, which may be empty.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(body).map_err(|e| Error::Invalid(format!("JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::to_floats;

    #[test]
    fn nested_numbers_become_one_list() {
        let flat = |text: &str| {
            serde_json::from_str::<Flat>(text).map(|flat| to_floats(&flat.0).collect::<Vec<_>>())
        };
        assert_eq!(flat("[1, -2, 0.5]").unwrap(), [1.0, -2.0, 0.5]);
        assert_eq!(flat("[[1, 2], [[3]], []]").unwrap(), [1.0, 2.0, 3.0]);
        for bad in ["1", "[\"1\"]", "[null]", "[true]", "{}", "[1", "[1e999]"] {
            assert!(flat(bad).is_err(), "{bad}");
        }
        let deep = "[".repeat(100_000);
        assert!(flat(&deep).is_err(), "and no stack is left");
    }
}
