//! `sequence_batching` of a configuration in Triton's form: its implicit state, or that a program
//! keeps its state itself.

use super::fields::{each, number, wrong};
use crate::error::{Error, Result};
use crate::models::description::Description;
use crate::models::state::spec::{StatePair, USUAL_MAX};
use serde_json::Value;

/// State of sequences, as a configuration has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SequenceBatching {
    pairs: Vec<StatePair>,
    idle_us: Option<u64>,
    max: Option<u64>,
}

/// Reads the state of sequences.
///
/// # Errors
///
/// `Invalid`; `Unimplemented` for tensors that say where a sequence begins and ends, and for
/// initial values other than zeros.
pub(super) fn sequences(value: &Value) -> Result<SequenceBatching> {
    let (mut pairs, mut idle_us, mut max) = (Vec::new(), None, None);
    for (key, value) in value.as_object().into_iter().flatten() {
        match key.as_str() {
            "max_sequence_idle_microseconds" => idle_us = Some(number(key, value)?),
            "state" => pairs = each(value).map(pair).collect::<Result<_>>()?,
            // Requests of a sequence run in their order in any case.
            "direct" => {}
            "oldest" => {
                let given = value.get("max_candidate_sequences");
                max = given.map(|given| number("max_candidate_sequences", given)).transpose()?;
            }
            _ => return Err(unknown(key)),
        }
    }
    Ok(SequenceBatching { pairs, idle_us: idle_us.filter(|&us| us > 0), max })
}

fn pair(value: &Value) -> Result<StatePair> {
    let mut pair = StatePair { input: String::new(), output: String::new(), shape: None };
    let mut initial = None;
    for (key, value) in value.as_object().into_iter().flatten() {
        match key.as_str() {
            "input_name" => pair.input = text(key, value)?,
            "output_name" => pair.output = text(key, value)?,
            "dims" => pair.shape = Some(dims(value)?),
            "initial_state" => initial = each(value).map(initial_dims).next().transpose()?,
            // The file says the type; memory grows as it must.
            "data_type" | "use_growable_memory" | "use_same_buffer_for_input_output" => {}
            _ => return Err(unknown(&format!("state.{key}"))),
        }
    }
    pair.shape = initial.or(pair.shape);
    Ok(pair)
}

/// Sizes that a sequence starts with.
fn initial_dims(value: &Value) -> Result<Vec<usize>> {
    let mut sizes = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        match key.as_str() {
            "dims" => sizes = dims(value)?,
            "zero_data" | "name" | "data_type" => {}
            _ => return Err(unknown(&format!("state.initial_state.{key}"))),
        }
    }
    Ok(sizes)
}

/// Sizes; an open one is 1, as Triton has it.
fn dims(value: &Value) -> Result<Vec<usize>> {
    let size = |value: &Value| match value.as_i64().or_else(|| value.as_str()?.parse().ok()) {
        Some(-1) => Ok(1),
        _ => Ok(usize::try_from(number("dims", value)?).unwrap_or(usize::MAX)),
    };
    each(value).map(size).collect()
}

fn text(key: &str, value: &Value) -> Result<String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| wrong(&format!("{key} must be a text, got {value}")))
}

fn unknown(key: &str) -> Error {
    Error::Unimplemented(format!("configuration: sequence_batching.{key}"))
}

impl SequenceBatching {
    /// Applies it to a description. If requests have a first size in addition, it is 1.
    ///
    /// # Errors
    ///
    /// `Unimplemented` without state, unless a program keeps it.
    pub(super) fn apply(&self, has_rows: bool, description: &mut Description) -> Result<()> {
        if self.pairs.is_empty() && description.process.is_none() {
            return Err(Error::Unimplemented(
                "configuration: sequence_batching without state".into(),
            ));
        }
        description.state.clone_from(&self.pairs);
        if has_rows {
            let shapes = description.state.iter_mut().filter_map(|pair| pair.shape.as_mut());
            shapes.for_each(|shape| shape.insert(0, 1));
        }
        description.sequence_idle_us = self.idle_us;
        let max = self.max.map(|max| usize::try_from(max).unwrap_or(usize::MAX));
        description.max_sequences = max.filter(|&max| max > 0);
        if self.pairs.is_empty() {
            // Else a program would not have sequences.
            description.max_sequences.get_or_insert(USUAL_MAX);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<SequenceBatching> {
        sequences(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn implicit_state_is_read() {
        let read = read(
            r#"{ "max_sequence_idle_microseconds": "5000", "oldest": { "max_candidate_sequences": 4 },
                "state": [{ "input_name": "past", "output_name": "present", "data_type": "TYPE_FP32",
                    "dims": [4, -1], "initial_state": { "dims": [4, 0], "zero_data": true } },
                    { "input_name": "h", "output_name": "h1", "dims": [-1, 8] }] }"#,
        );
        let mut description = Description::default();
        read.unwrap().apply(true, &mut description).unwrap();
        let shapes: Vec<_> = description.state.iter().map(|pair| pair.shape.clone()).collect();
        assert_eq!(shapes, [Some(vec![1, 4, 0]), Some(vec![1, 1, 8])]);
        assert_eq!(description.state[1].output, "h1");
        assert_eq!(
            (description.sequence_idle_us, description.max_sequences),
            (Some(5000), Some(4))
        );
    }

    #[test]
    fn unsupported_field_of_sequences_is_refused() {
        for (json, want) in [
            (r#"{ "control_input": [] }"#, "configuration: sequence_batching.control_input"),
            (
                r#"{ "state": { "input_name": "a", "initial_state": { "data_file": "x" } } }"#,
                "configuration: sequence_batching.state.initial_state.data_file",
            ),
        ] {
            let said = read(json).unwrap_err();
            assert_eq!(said, Error::Unimplemented(want.into()));
        }
        let without = read(r#"{ "direct": {} }"#).unwrap();
        let said = without.apply(false, &mut Description::default());
        let want = "configuration: sequence_batching without state";
        assert_eq!(said, Err(Error::Unimplemented(want.into())));
        assert!(read(r#"{ "state": [{ "input_name": 1 }] }"#).is_err());
    }
}
