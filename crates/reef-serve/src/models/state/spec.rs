//! Pairs of inputs and outputs that are state.

use crate::error::{Error, Result};
use crate::tensor::{TensorInfo, TensorInfos};
use serde::Deserialize;
use std::time::Duration;

/// Time after which an unused sequence is forgotten, by default.
const IDLE: Duration = Duration::from_secs(60);

/// Maximum number of sequences of a model, by default and at all.
pub(crate) const USUAL_MAX: usize = 64;
const MAX: usize = 65_536;

/// An output that is an input of the sequence's next request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatePair {
    pub(crate) input: String,
    pub(crate) output: String,
    /// Sizes of the zeros that a sequence starts with; `None` if the model fixes them.
    pub(crate) shape: Option<Vec<usize>>,
}

/// State of a model, as it is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateSpec {
    /// Empty if the model's program keeps its state.
    pub(crate) pairs: Vec<StatePair>,
    /// Time after which an unused sequence is forgotten.
    pub(crate) idle: Duration,
    /// Maximum number of sequences.
    pub(crate) max: usize,
}

/// A state tensor of a loaded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateTensor {
    /// Index among the model's inputs.
    pub(crate) input: usize,
    /// Index among its outputs.
    pub(crate) output: usize,
    /// Shape that a sequence starts with.
    pub(crate) first: Vec<i64>,
}

impl StateSpec {
    /// Returns the state of these pairs.
    ///
    /// # Errors
    ///
    /// The number that is out of range.
    pub(crate) fn new(
        pairs: &[StatePair],
        idle_us: Option<u64>,
        max: Option<usize>,
    ) -> Result<Self, String> {
        let max = max.unwrap_or(USUAL_MAX);
        if !(1..=MAX).contains(&max) {
            return Err(format!("max_sequences must be 1 to {MAX}, got {max}"));
        }
        if idle_us == Some(0) {
            return Err("sequence_idle_us must be at least 1, got 0".into());
        }
        let idle = idle_us.map_or(IDLE, Duration::from_micros);
        Ok(Self { pairs: pairs.into(), idle, max })
    }

    /// Finds its tensors among those of a model, whose open sizes are -1.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the tensor.
    pub(crate) fn tensors(
        &self,
        inputs: &TensorInfos,
        outputs: &TensorInfos,
    ) -> Result<Vec<StateTensor>> {
        let mut found: Vec<StateTensor> = Vec::new();
        for pair in &self.pairs {
            let tensor = pair.tensor(inputs, outputs)?;
            let is_twice =
                |other: &StateTensor| other.input == tensor.input || other.output == tensor.output;
            if found.iter().any(is_twice) {
                return Err(wrong(&pair.input, "input and output must be of one pair alone"));
            }
            found.push(tensor);
        }
        Ok(found)
    }
}

impl StatePair {
    fn tensor(&self, inputs: &TensorInfos, outputs: &TensorInfos) -> Result<StateTensor> {
        let named = |error: Error| error.map_text(|why| format!("state: {why}"));
        let input = inputs.find(&self.input).map_err(named)?;
        let output = outputs.find(&self.output).map_err(named)?;
        let (from, to) = (&outputs.each[output], &inputs.each[input]);
        if from.element != to.element || from.shape.len() != to.shape.len() {
            let why = format!(
                "output {} must have its type and rank, {} of {} sizes, got {} of {}",
                from.name,
                to.datatype(),
                to.shape.len(),
                from.datatype(),
                from.shape.len()
            );
            return Err(wrong(&to.name, &why));
        }
        if from.bound.is_some() {
            let why = format!("data must not decide about a size of output {}", from.name);
            return Err(wrong(&to.name, &why));
        }
        if from.texts.is_some() || to.texts.is_some() {
            return Err(wrong(&to.name, "texts cannot be kept"));
        }
        if !fits(&from.shape, &to.shape) {
            let why = format!("output {} must fit {:?}, got {:?}", from.name, to.shape, from.shape);
            return Err(wrong(&to.name, &why));
        }
        Ok(StateTensor { input, output, first: self.first(to)? })
    }

    /// Shape that a sequence starts with.
    fn first(&self, info: &TensorInfo) -> Result<Vec<i64>> {
        let Some(given) = &self.shape else {
            if info.shape.contains(&-1) {
                let why = format!("shape must be given, as {:?} leaves sizes open", info.shape);
                return Err(wrong(&info.name, &why));
            }
            return Ok(info.shape.clone());
        };
        let given: Vec<i64> = given.iter().map(|&size| i64::try_from(size).unwrap_or(-2)).collect();
        if given.len() == info.shape.len() && fits(&given, &info.shape) {
            return Ok(given);
        }
        Err(wrong(&info.name, &format!("shape must fit {:?}, got {given:?}", info.shape)))
    }
}

/// True if sizes are equal where both are known; -1 is open.
fn fits(one: &[i64], other: &[i64]) -> bool {
    one.iter().zip(other).all(|(a, b)| a == b || *a == -1 || *b == -1)
}

fn wrong(name: &str, why: &str) -> Error {
    Error::Invalid(format!("state {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::tensor::Element;

    fn infos(each: &[(&str, Element, &[i64])]) -> TensorInfos {
        let info = |&(name, element, shape): &(&str, Element, &[i64])| TensorInfo {
            name: name.into(),
            element: Some(element),
            shape: shape.into(),
            offset: 0,
            bound: None,
            texts: None,
        };
        TensorInfos { each: each.iter().map(info).collect(), bytes: 0, has_checks: false }
    }

    fn found(pair: (&str, &str, Option<&[usize]>)) -> Result<Vec<StateTensor>> {
        let inputs = infos(&[("x", Element::F32, &[1, 4]), ("past", Element::F32, &[1, -1, 4])]);
        let outputs =
            infos(&[("y", Element::F16, &[1, -1, 4]), ("present", Element::F32, &[1, -1, 4])]);
        let (input, output, shape) = pair;
        let shape = shape.map(<[usize]>::to_vec);
        let pair = StatePair { input: input.into(), output: output.into(), shape };
        let spec = StateSpec::new(&[pair], None, None).unwrap();
        spec.tensors(&inputs, &outputs)
    }

    #[test]
    fn pair_starts_with_its_shape() {
        let want = StateTensor { input: 1, output: 1, first: vec![1, 0, 4] };
        assert_eq!(found(("past", "present", Some(&[1, 0, 4]))), Ok(vec![want]));
    }

    #[test]
    fn pair_that_does_not_fit_is_refused() {
        for (pair, why) in [
            (("past", "present", None), "shape must be given, as [1, -1, 4] leaves sizes open"),
            (("past", "present", Some(&[2, 0, 4][..])), "shape must fit [1, -1, 4], got [2, 0, 4]"),
            (("past", "present", Some(&[0, 4])), "shape must fit [1, -1, 4], got [0, 4]"),
            (
                ("past", "y", Some(&[1, 0, 4])),
                "output y must have its type and rank, FP32 of 3 sizes, got FP16 of 3",
            ),
        ] {
            assert_eq!(found(pair), Err(Error::Invalid(format!("state past: {why}"))));
        }
        let said = found(("pas", "present", None)).unwrap_err().to_string();
        assert!(said.starts_with("state: no tensor \"pas\""), "{said}");
    }
}
