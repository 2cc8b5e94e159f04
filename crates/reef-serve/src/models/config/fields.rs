//! Fields of a configuration as JSON: numbers, lists, and what is wrong with them.

use crate::error::{Error, Result};
use serde_json::Value;

/// Reads a non-negative number, also from text: JSON of protocol buffers writes 64-bit numbers as
/// text.
pub(super) fn number(key: &str, value: &Value) -> Result<u64> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| wrong(&format!("{key} must be a non-negative integer, got {value}")))
}

/// Iterates over a list, or over a single value.
pub(super) fn each(value: &Value) -> impl Iterator<Item = &Value> {
    let one = std::slice::from_ref(value);
    value.as_array().map_or(one, Vec::as_slice).iter()
}

/// Returns the error for a field.
pub(super) fn wrong(why: &dyn std::fmt::Display) -> Error {
    Error::Invalid(format!("configuration: {why}"))
}
