//! Requests and answers as JSON.

use super::bounded;
use super::numbers::list::NumberList;
use crate::error::{Error, Result};
use crate::kserve::parameter::Parameter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// JSON part of a request.
#[derive(Debug, Deserialize)]
pub(super) struct InferRequestJson<'a> {
    #[serde(default, deserialize_with = "bounded::text")]
    pub(super) id: String,
    #[serde(default, deserialize_with = "bounded::parameters")]
    pub(super) parameters: Map<String, Value>,
    #[serde(deserialize_with = "bounded::tensors")]
    #[serde(borrow)]
    pub(super) inputs: Vec<InputJson<'a>>,
    #[serde(default, deserialize_with = "bounded::tensors")]
    pub(super) outputs: Vec<OutputJson>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InputJson<'a> {
    #[serde(deserialize_with = "bounded::text")]
    pub(super) name: String,
    #[serde(deserialize_with = "bounded::text")]
    pub(super) datatype: String,
    #[serde(deserialize_with = "bounded::list")]
    pub(super) shape: Vec<i64>,
    #[serde(default, deserialize_with = "bounded::tensor_parameters")]
    pub(super) parameters: Map<String, Value>,
    /// Parsed once the type is known.
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OutputJson {
    #[serde(deserialize_with = "bounded::text")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "bounded::tensor_parameters")]
    pub(super) parameters: Map<String, Value>,
}

/// JSON part of an answer.
#[derive(Debug, Serialize)]
pub(super) struct InferResponseJson<'a> {
    pub(super) model_name: String,
    pub(super) model_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) id: String,
    pub(super) outputs: Vec<OutputTensorJson<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct OutputTensorJson<'a> {
    pub(super) name: &'a str,
    pub(super) datatype: &'static str,
    pub(super) shape: &'a [i64],
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) parameters: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Data<'a>>,
}

/// Data of a tensor in JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Data<'a> {
    Numbers(NumberList<'a>),
    Texts(Vec<Cow<'a, str>>),
}

/// Converts parameters to the protocol-independent form.
pub(super) fn parameters(map: &Map<String, Value>) -> impl Iterator<Item = (&str, Parameter)> {
    let value = |value: &Value| match value {
        Value::Number(n) => n.as_u64().map_or(Parameter::Other, Parameter::Number),
        Value::String(text) => Parameter::Text(text.clone()),
        Value::Bool(flag) => Parameter::Flag(*flag),
        _ => Parameter::Other,
    };
    map.iter().map(move |(key, v)| (key.as_str(), value(v)))
}

/// Parses the JSON object of a body, which may be empty.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>> {
    read(body)
}

/// Parses the JSON of a body; returns the default if it is empty.
pub(super) fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|e| Error::Invalid(format!("JSON: {e}")))
}
