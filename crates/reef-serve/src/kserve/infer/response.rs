//! Answer to an inference.

use super::classes;
use super::request::RequestedOutput;
use crate::engine::call::OutputSize;
use crate::error::{Error, Result};
use crate::kserve::parameter::RegionPart;
use crate::models::loaded_model::LoadedModel;
use crate::models::shaped::variant::Variant;
use crate::tensor::{TensorInfo, from_places, short};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;

/// Answer to an inference.
#[derive(Debug)]
pub(crate) struct InferResponse {
    pub(crate) model: Arc<LoadedModel>,
    pub(super) variant: Arc<Variant>,
    pub(crate) id: String,
    pub(crate) outputs: Vec<ResponseOutput>,
}

/// An output of an answer.
#[derive(Debug, Clone)]
pub(crate) struct ResponseOutput {
    /// Index among the model's outputs.
    pub(super) index: usize,
    pub(crate) to: Option<RegionPart>,
    pub(crate) is_binary: bool,
    /// Number and shape of its largest values, if it is returned as texts.
    pub(super) classes: Option<(usize, Vec<i64>)>,
    /// Shape of an output of which data decided one size.
    sized: Option<Vec<i64>>,
    /// Empty if it went to a region.
    pub(crate) bytes: Bytes,
}

impl ResponseOutput {
    /// Returns its type and shape in the answer.
    pub(crate) fn datatype_and_shape<'a>(
        &'a self,
        info: &'a TensorInfo,
    ) -> (&'static str, &'a [i64]) {
        match &self.classes {
            Some((_, shape)) => ("BYTES", shape),
            None => (info.datatype(), self.sized.as_ref().unwrap_or(&info.shape)),
        }
    }

    /// Returns its texts, if it consists of texts.
    pub(crate) fn texts(&self, info: &TensorInfo) -> Option<Vec<Cow<'_, str>>> {
        let is_texts = self.classes.is_some() || info.wire_element().is_none();
        is_texts.then(|| classes::from_bytes(&self.bytes))
    }

    /// Sets the tensor that a process has answered; `bytes` are empty if it went to a region.
    pub(super) fn set_answered(&mut self, size: OutputSize, bytes: Bytes) {
        self.to.iter_mut().for_each(|part| part.bytes = size.bytes); // it may be shorter
        self.sized = Some(size.shape);
        self.bytes = bytes;
    }

    /// Computes the shape of its texts.
    pub(super) fn set_shape(&mut self, info: &TensorInfo) {
        if let Some((count, shape)) = &mut self.classes {
            *shape = classes::shape(info, *count);
        }
    }

    /// Maximum bytes that its texts take while they are created.
    pub(super) fn max_text_bytes(&self, info: &TensorInfo) -> u64 {
        match (&self.classes, &info.texts) {
            (Some((count, _)), _) => classes::max_bytes(info, *count),
            (None, Some(texts)) => {
                (info.elements() as u64).saturating_mul(4 + texts.longest() as u64)
            }
            (None, None) => 0,
        }
    }

    pub(super) fn set(&mut self, info: &TensorInfo, bytes: Vec<u8>) {
        let bytes = match (info.bound, bytes.split_last_chunk()) {
            (Some(_), Some((all, size))) => info.cut(all.into(), i64::from_le_bytes(*size)),
            _ => bytes,
        };
        self.sized = info.bound.map(|_| info.shape_of(bytes.len()));
        self.to.iter_mut().for_each(|part| part.bytes = info.bytes() as u64); // it may be shorter
        self.bytes = match (&self.classes, &info.texts) {
            (Some((count, _)), _) => classes::to_bytes(info, &bytes, *count).into(),
            (None, Some(texts)) => from_places(texts, &bytes).into(),
            (None, None) => bytes.into(),
        };
    }
}

impl InferResponse {
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&TensorInfo, &ResponseOutput)> {
        self.outputs.iter().map(|output| (&self.variant.outputs.each[output.index], output))
    }
}

/// Error of a tensor of texts in a region.
pub(super) fn texts_in_region(name: &str) -> Error {
    Error::Unimplemented(format!("tensor {:?}: texts in a region", short(name)))
}

/// Returns the requested outputs, without bytes, and without shapes of texts.
pub(super) fn response_outputs(
    model: &LoadedModel,
    outputs: Vec<RequestedOutput>,
    is_binary: bool,
) -> Result<Vec<ResponseOutput>> {
    let one = |index, to, is_binary| {
        let (classes, sized, bytes) = (None, None, Bytes::new());
        ResponseOutput { index, to, is_binary, classes, sized, bytes }
    };
    let infos = &model.outputs;
    let answered: Vec<usize> = model.answer_outputs().map(|(index, _)| index).collect();
    if outputs.is_empty() {
        return Ok(answered.into_iter().map(|index| one(index, None, is_binary)).collect());
    }
    let mut seen = vec![false; infos.each.len()];
    let resolve = |output: RequestedOutput| {
        let index = mark_named(&mut seen, infos.find(&output.name)?, &output.name)?;
        if !answered.contains(&index) {
            return Err(is_state(&output.name));
        }
        let has_region = output.to.is_some();
        if model.spec.is_process() && output.classes > 0 {
            let text = format!("tensor {:?} of a process as classes", short(&output.name));
            return Err(Error::Unimplemented(text));
        }
        if infos.each[index].bound.is_some() && (has_region || output.classes > 0) {
            let text = format!(
                "tensor {:?}, about whose size data decide, in a region or as classes",
                short(&output.name)
            );
            return Err(Error::Unimplemented(text));
        }
        if infos.each[index].texts.is_some() && has_region {
            return Err(texts_in_region(&output.name));
        }
        let mut answered = one(index, output.to, output.is_binary.unwrap_or(is_binary));
        if output.classes > 0 {
            if has_region {
                let text =
                    format!("tensor {:?}: classification into a region", short(&output.name));
                return Err(Error::Unimplemented(text));
            }
            classes::check(&infos.each[index])?;
            answered.classes = Some((output.classes, Vec::new()));
        }
        Ok(answered)
    };
    outputs.into_iter().map(resolve).collect()
}

/// Notes the use of a tensor's name.
fn mark_named(seen: &mut [bool], index: usize, name: &str) -> Result<usize> {
    if std::mem::replace(&mut seen[index], true) { Err(named_twice(name)) } else { Ok(index) }
}

/// Refuses a tensor that stays on the device.
pub(super) fn is_state(name: &str) -> Error {
    let name = short(name);
    Error::Invalid(format!("tensor {name:?}: is state of the sequence, which stays on the device"))
}

pub(super) fn named_twice(name: &str) -> Error {
    Error::Invalid(format!("tensor {:?} must be named once", short(name)))
}
