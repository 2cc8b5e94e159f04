//! A request of a sequence: its state inputs and outputs, which stay on the device.

use super::request::{InferRequest, InputTensor, TensorData};
use super::response::is_state;
use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::sequences::sequence::{NextState, StateMemory};
use crate::models::sequences::table::{RunningSequence, SequenceKey};
use crate::models::shaped::variant::Variant;
use crate::net::identity::peer::Peer;
use crate::requests::job::BoundOutput;
use crate::server::Server;
use crate::tenants::tenant::Tenant;
use crate::tensor::TensorInfo;
use std::sync::Arc;

/// A sequence while this request of it runs.
pub(super) struct SequenceStep {
    running: RunningSequence,
    starts: bool,
    ends: bool,
    next: Option<NextState>,
}

impl Server {
    /// Waits for the turn of a request in its sequence; `None` if the model has no state.
    ///
    /// # Errors
    ///
    /// `Invalid` for a sequence of a model without state, a model with state without a sequence,
    /// and a sequence that has not been started; `Exhausted` if there are too many.
    pub(super) async fn sequence(
        &self,
        peer: &Peer,
        model: &LoadedModel,
        request: &InferRequest,
    ) -> Result<Option<SequenceStep>> {
        let parameters = &request.sequence;
        let wrong = |why: &str| Error::Invalid(format!("parameter sequence_id: {why}"));
        let (starts, ends) = (parameters.starts, parameters.ends);
        let (sequences, id) = match (&model.sequences, &parameters.id) {
            (Some(sequences), Some(id)) => (sequences, id),
            (Some(_), None) => {
                return Err(wrong(&format!("must be given, as {} has state", model.title())));
            }
            (None, None) if starts || ends => {
                return Err(wrong("must be given with sequence_start and sequence_end"));
            }
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                let title = model.title();
                let why = format!(
                    "cannot be used with {title}, which has no state (model.toml: [[state]])"
                );
                return Err(wrong(&why));
            }
        };
        let part = self.config.get().limits.part(sequences.max() as u64) as usize;
        let running = sequences.enter(&SequenceKey::new(peer, id)?, starts, part).await?;
        Ok(Some(SequenceStep { running, starts, ends, next: None }))
    }
}

impl SequenceStep {
    /// Returns the state inputs: zeros for the first request.
    ///
    /// # Errors
    ///
    /// `Invalid` if the request has one itself.
    pub(super) fn inputs(
        &self,
        model: &LoadedModel,
        given: &[InputTensor],
    ) -> Result<Vec<InputTensor>> {
        let tensors = model.sequences.iter().flat_map(|sequences| &sequences.tensors);
        let held = self.running.sequence.inputs().filter(|_| !self.starts);
        let mut held = held.into_iter().flatten();
        let state = tensors.map(|tensor| {
            let info = &model.inputs.each[tensor.input];
            if given.iter().any(|input| input.name == info.name) {
                return Err(is_state(&info.name));
            }
            let (shape, from) = match held.next() {
                Some((shape, slice)) => (shape, TensorData::State(slice)),
                None => {
                    let shape = tensor.first.clone();
                    let zeros = TensorInfo { shape: shape.clone(), ..info.clone() }.bytes();
                    (shape, TensorData::Bytes(vec![0; zeros].into()))
                }
            };
            let (name, datatype) = (info.name.clone(), info.datatype().into());
            Ok(InputTensor { name, datatype, shape, from })
        });
        state.collect()
    }

    /// Returns the state outputs, with memory for them.
    ///
    /// # Errors
    ///
    /// `Exhausted`; errors of the device.
    pub(super) async fn outputs(
        &mut self,
        server: &Server,
        tenant: &Arc<Tenant>,
        model: &Arc<LoadedModel>,
        variant: &Arc<Variant>,
    ) -> Result<Vec<BoundOutput>> {
        let tensors = model.sequences.as_ref().map_or(&[][..], |sequences| &sequences.tensors);
        let memory = StateMemory {
            node: model.node().clone(),
            budget: model.budget().clone(),
            max: server.max_device_bytes(tenant),
            tenant: tenant.clone(),
        };
        let sequence = &mut self.running.sequence;
        let missing = sequence.missing(tensors, variant);
        let fresh = if missing.is_empty() {
            Vec::new()
        } else {
            let alloc = move || memory.alloc(&missing);
            let workers = &server.network_workers[model.node().index];
            workers.run_blocking(&tenant.principal, (), alloc).await?
        };
        let next = sequence.next(tensors, variant, fresh);
        let outputs = next.outputs(tensors, variant);
        self.next = Some(next);
        Ok(outputs)
    }

    /// Takes the state that the request has written, or forgets it with the last one.
    pub(super) fn advance(mut self) {
        if self.ends {
            self.running.sequence.end();
        } else if let Some(next) = self.next {
            self.running.sequence.advance(next);
        }
        self.running.leave();
    }
}
