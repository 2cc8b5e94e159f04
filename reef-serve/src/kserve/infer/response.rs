//! The answer to an inference.

use super::classes;
use super::request::RequestedOutput;
use crate::error::{Error, Result};
use crate::kserve::parameter::Place;
use crate::models::loaded_model::LoadedModel;
use crate::models::shaped::variant::Variant;
use crate::tensor::{TensorInfo, TensorInfos, short};
use bytes::Bytes;
use std::sync::Arc;

/// The answer.
#[derive(Debug)]
pub(crate) struct InferResponse {
    pub(crate) model: Arc<LoadedModel>,
    pub(super) variant: Arc<Variant>,
    pub(crate) id: String,
    pub(crate) outputs: Vec<AnsweredOutput>,
}

/// An output of an answer.
#[derive(Debug)]
pub(crate) struct AnsweredOutput {
    /// Its number among the model's.
    pub(super) index: usize,
    pub(crate) to: Option<Place>,
    pub(crate) binary: bool,
    /// Its largest values, as texts, with their shape.
    pub(super) classes: Option<(usize, Vec<i64>)>,
    /// Empty if it went to a region.
    pub(crate) bytes: Bytes,
}

impl AnsweredOutput {
    /// What it is in the answer: its type, and its shape.
    pub(crate) fn shown<'a>(&'a self, info: &'a TensorInfo) -> (&'static str, &'a [i64]) {
        match &self.classes {
            Some((_, shape)) => ("BYTES", shape),
            None => (info.datatype(), &info.shape),
        }
    }

    /// The texts that it is, if it is some.
    pub(crate) fn texts(&self) -> Option<Vec<&str>> {
        self.classes.as_ref().map(|_| classes::from_bytes(&self.bytes))
    }

    /// Notes its shape as texts.
    pub(super) fn settle(&mut self, info: &TensorInfo) {
        if let Some((count, shape)) = &mut self.classes {
            *shape = classes::shape(info, *count);
        }
    }

    /// Bytes that its texts take at most, while they are made.
    pub(super) fn room(&self, info: &TensorInfo) -> u64 {
        self.classes.as_ref().map_or(0, |(count, _)| classes::room(info, *count))
    }

    pub(super) fn set(&mut self, info: &TensorInfo, bytes: Vec<u8>) {
        self.bytes = match &self.classes {
            Some((count, _)) => classes::to_bytes(info, &bytes, *count).into(),
            None => bytes.into(),
        };
    }
}

impl InferResponse {
    /// The outputs with what they are.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&TensorInfo, &AnsweredOutput)> {
        self.outputs.iter().map(|output| (&self.variant.outputs.each[output.index], output))
    }
}

/// The outputs that are asked for, without their bytes, and without shapes of texts.
pub(super) fn answered(
    infos: &TensorInfos,
    outputs: Vec<RequestedOutput>,
    binary: bool,
) -> Result<Vec<AnsweredOutput>> {
    let one = |index, to, binary| {
        let (classes, bytes) = (None, Bytes::new());
        AnsweredOutput { index, to, binary, classes, bytes }
    };
    let count = infos.each.len();
    if outputs.is_empty() {
        return Ok((0..count).map(|index| one(index, None, binary)).collect());
    }
    let mut seen = vec![false; count];
    let asked = |output: RequestedOutput| {
        let index = once(&mut seen, infos.find(&output.name)?, &output.name)?;
        let has_place = output.to.is_some();
        let mut answered = one(index, output.to, output.binary.unwrap_or(binary));
        if output.classes > 0 {
            if has_place {
                let text =
                    format!("tensor {:?}: classification into a region", short(&output.name));
                return Err(Error::Unimplemented(text));
            }
            classes::check(&infos.each[index])?;
            answered.classes = Some((output.classes, Vec::new()));
        }
        Ok(answered)
    };
    outputs.into_iter().map(asked).collect()
}

/// Notes that a tensor was named.
fn once(seen: &mut [bool], index: usize, name: &str) -> Result<usize> {
    match std::mem::replace(&mut seen[index], true) {
        false => Ok(index),
        true => Err(twice(name)),
    }
}

pub(super) fn twice(name: &str) -> Error {
    Error::Invalid(format!("tensor {:?} is named twice", short(name)))
}
