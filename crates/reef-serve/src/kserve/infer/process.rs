//! Requests to models that are processes: each chooses its shapes, and so does each answer.

use super::request::{InputTensor, TensorData};
use super::response::ResponseOutput;
use crate::engine::call::CallHead;
use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::shaped::variant::Variant;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::requests::call::in_device_memory;
use crate::requests::job::{BoundInput, BoundOutput, Input, Output};
use crate::requests::region_memory::RegionSlice;
use crate::server::Server;
use crate::tensor::TensorInfo;
use std::sync::{Arc, OnceLock};

impl Server {
    /// Returns what a process is told about a request; `None` if the model is not a process.
    ///
    /// # Errors
    ///
    /// `Invalid` if an input has another type or shape than the model's.
    pub(super) fn call_head(
        &self,
        peer: &Peer,
        model: &LoadedModel,
        id: &str,
        order: &[&InputTensor],
    ) -> Result<Option<CallHead>> {
        if !model.spec.is_process() {
            return Ok(None);
        }
        let each = order.iter().zip(&model.inputs.each);
        let with_shape = |(input, info): (&&InputTensor, &TensorInfo)| {
            let chosen = info.with_shape(&input.datatype, &input.shape)?;
            self.process_data(peer, &chosen, input).map(|_| chosen)
        };
        let inputs = each.map(with_shape).collect::<Result<_>>()?;
        Ok(Some(CallHead { id: id.into(), inputs, shapes: Arc::new(OnceLock::new()) }))
    }

    /// Binds all inputs of a process, each once, in the model's order.
    pub(super) fn process_inputs(
        &self,
        peer: &Peer,
        variant: &Variant,
        call: &CallHead,
        inputs: Vec<InputTensor>,
    ) -> Result<Vec<BoundInput>> {
        let bind = |input: InputTensor| {
            let index = variant.inputs.find(&input.name)?;
            let input = self.process_data(peer, &call.inputs[index], &input)?;
            Ok(BoundInput { index, offset: 0, input })
        };
        let mut bound = inputs.into_iter().map(bind).collect::<Result<Vec<_>>>()?;
        bound.sort_by_key(|input| input.index);
        Ok(bound)
    }

    /// Returns the source of an input, whose number of bytes has been checked. Texts in a region
    /// are the program's to check, because their client may change them.
    fn process_data(&self, peer: &Peer, info: &TensorInfo, input: &InputTensor) -> Result<Input> {
        match &input.from {
            TensorData::Bytes(bytes) => {
                info.check_data(bytes)?;
                Ok(Input::Bytes(bytes.clone()))
            }
            TensorData::State(_) => Err(in_device_memory()),
            TensorData::Region(part) => {
                let texts = usize::try_from(part.bytes).unwrap_or(usize::MAX);
                let want = if info.element.is_some() { info.bytes() } else { texts };
                match self.slice(peer, part, want)? {
                    RegionSlice::System(slice) => Ok(Input::Region(slice)),
                    RegionSlice::Device(_) => Err(in_device_memory()),
                }
            }
        }
    }

    /// Binds an output of a process to its destination.
    pub(super) fn bind_process_output(
        &self,
        peer: &Peer,
        output: &ResponseOutput,
    ) -> Result<BoundOutput> {
        let to = match &output.to {
            None => Output::Bytes,
            Some(part) => {
                let want = usize::try_from(part.bytes).unwrap_or(usize::MAX);
                match self.slice(peer, part, want)? {
                    RegionSlice::System(slice) => Output::Region(slice),
                    RegionSlice::Device(_) => return Err(in_device_memory()),
                }
            }
        };
        Ok(BoundOutput { index: output.index, offset: 0, bytes: 0, size: None, output: to })
    }
}

/// Sets the tensors that a process has answered. Their bytes are charged.
///
/// # Errors
///
/// `Exhausted`.
pub(super) fn fill_answered(
    mut answered: Vec<ResponseOutput>,
    made: Vec<Vec<u8>>,
    shapes: &OnceLock<Vec<Vec<i64>>>,
    charge: &Option<Charge>,
) -> Result<Vec<ResponseOutput>> {
    let bytes: u64 = made.iter().map(|bytes| bytes.len() as u64).sum();
    charge.iter().try_for_each(|charge| charge.add(bytes))?;
    let shapes = shapes.get().filter(|shapes| shapes.len() == answered.len());
    let shapes = shapes.ok_or_else(|| Error::Failed("an answer without shapes".into()))?;
    for ((output, bytes), shape) in answered.iter_mut().zip(made).zip(shapes) {
        output.set_answered(shape.clone(), bytes);
    }
    Ok(answered)
}
