//! A request of a sequence: its state inputs and outputs, which stay on the device, or the process
//! that keeps its state.

use super::request::{InferRequest, InputTensor, TensorData};
use super::response::is_state;
use crate::engine::call::{CallSequence, ProcessCell};
use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::sequences::sequence::{NextState, StateMemory};
use crate::models::sequences::table::{RunningSequence, SequenceKey};
use crate::models::shaped::variant::Variant;
use crate::net::identity::peer::Peer;
use crate::requests::job::BoundOutput;
use crate::server::Server;
use crate::tenants::tenant::Tenant;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A sequence while this request of it runs.
pub(super) struct SequenceStep {
    running: RunningSequence,
    starts: bool,
    ends: bool,
    next: Option<NextState>,
    /// Process that has run it, for a program.
    cell: Arc<ProcessCell>,
}

impl Server {
    /// Waits for the turn of a request in its sequence, up to the request's deadline; `None` if the
    /// model has no state.
    ///
    /// # Errors
    ///
    /// `Invalid` for a sequence of a model without state, a model with state without a sequence,
    /// and a sequence that has not been started; `Exhausted` if there are too many; `Deadline`.
    pub(super) async fn turn(
        &self,
        peer: &Peer,
        model: &LoadedModel,
        request: &InferRequest,
        arrived: Instant,
        timeout: Option<Duration>,
    ) -> Result<Option<SequenceStep>> {
        let (time, deadline) = self.time(arrived, timeout);
        let turn = tokio::time::timeout_at(deadline.into(), self.sequence(peer, model, request));
        let late = |_| Error::Deadline(format!("timed out after {time:?} in its sequence"));
        turn.await.map_err(late)?
    }

    async fn sequence(
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
                let has = if model.spec.is_process() { "sequences" } else { "state" };
                return Err(wrong(&format!("must be given, as {} has {has}", model.title())));
            }
            (None, None) if starts || ends => {
                return Err(wrong("must be given with sequence_start and sequence_end"));
            }
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                let title = model.title();
                let has_no = if model.spec.is_process() {
                    "sequences (model.toml: max_sequences)"
                } else {
                    "state (model.toml: [[state]])"
                };
                let why = format!("cannot be used with {title}, which has no {has_no}");
                return Err(wrong(&why));
            }
        };
        let max = sequences.max();
        let part = self.config.get().limits.part(max as u64) as usize;
        let part = if peer.principal.is_owner() { max } else { part };
        let running = sequences.enter(&SequenceKey::new(peer, id)?, starts, part).await?;
        let (next, cell) = (None, Arc::default());
        Ok(Some(SequenceStep { running, starts, ends, next, cell }))
    }
}

impl SequenceStep {
    /// Returns the facts about the sequence for the process of this request.
    pub(super) fn call(&self) -> CallSequence {
        CallSequence {
            number: self.running.number(),
            starts: self.starts,
            ends: self.ends,
            process: self.running.sequence.process().filter(|_| !self.starts),
            cell: self.cell.clone(),
        }
    }

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
                None => (tensor.first.clone(), TensorData::Zeros),
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

    /// Takes the state that the request has written, or the process that keeps it; forgets it with
    /// the last request.
    pub(super) fn advance(mut self) {
        if self.ends {
            self.running.sequence.end();
        } else if let Some(next) = self.next {
            self.running.sequence.advance(next);
        } else {
            self.running.sequence.set_process(self.cell.id());
        }
        self.running.leave();
    }
}
