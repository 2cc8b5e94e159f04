//! What gRPC and HTTP have in common: an inference as the standard protocol asks for it.
//!
//! A request is checked whole before it is queued, so that what is wrong with it is said at once.

use crate::class::Class;
use crate::error::{Error, Result};
use crate::kserve::parameter::{Parameter, Place};
use crate::models::loaded_model::LoadedModel;
use crate::net::identity::peer::Peer;
use crate::net::room::charge::Charge;
use crate::requests::job::{Input, Output};
use crate::requests::regions::Slice;
use crate::server::{Inference, Server};
use crate::tenants::claims::stated;
use crate::tensor::TensorInfo;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// What the server calls itself.
pub(crate) const NAME: &str = "reef";

/// Extensions of the protocol that are there.
pub(crate) const EXTENSIONS: [&str; 6] = [
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
    "system_shared_memory",
];

/// The header with which a client says the class of its requests that name no priority.
pub(crate) const CLASS_HEADER: &str = "reef-class";

/// A request for an inference, as both protocols read it.
#[derive(Debug, Default)]
pub(crate) struct InferRequest {
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) id: String,
    pub(crate) priority: u64,
    /// Microseconds; 0 is no timeout.
    pub(crate) timeout: u64,
    /// The period and the budget that its client states, in microseconds; 0 is none.
    pub(crate) rate_us: (u64, u64),
    /// Whether an answer in a stream has to say that it is its request's last one.
    pub(crate) wants_final: bool,
    /// The client's default class.
    pub(crate) class: Option<Class>,
    /// What its bytes are charged to; the answer's are as well.
    pub(crate) charge: Option<Charge>,
    pub(crate) inputs: Vec<InputTensor>,
    pub(crate) outputs: Vec<RequestedOutput>,
}

/// An input tensor of a request.
#[derive(Debug)]
pub(crate) struct InputTensor {
    pub(crate) name: String,
    pub(crate) datatype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) from: TensorData,
}

/// Where the data of an input tensor is.
#[derive(Debug)]
pub(crate) enum TensorData {
    Bytes(Bytes),
    Region(Place),
}

/// An output tensor that the request names.
#[derive(Debug)]
pub(crate) struct RequestedOutput {
    pub(crate) name: String,
    pub(crate) to: Option<Place>,
}

/// The answer.
#[derive(Debug)]
pub(crate) struct InferResponse {
    pub(crate) model: Arc<LoadedModel>,
    pub(crate) id: String,
    /// The output, unless it went to a region.
    pub(crate) bytes: Bytes,
    pub(crate) to: Option<Place>,
}

impl InferResponse {
    pub(crate) fn output(&self) -> &TensorInfo {
        &self.model.output
    }
}

impl InferRequest {
    /// Notes a parameter of the request. Those that are not known are the client's own.
    ///
    /// # Errors
    ///
    /// `Invalid`; `Unimplemented` for sequences.
    pub(crate) fn parameter(&mut self, key: &str, value: &Parameter) -> Result<()> {
        match key {
            "priority" => self.priority = value.number(key)?,
            "timeout" => self.timeout = value.number(key)?,
            "reef_period_us" => self.rate_us.0 = value.number(key)?,
            "reef_budget_us" => self.rate_us.1 = value.number(key)?,
            "sequence_id" | "sequence_start" | "sequence_end" if !value.is_nothing() => {
                return Err(Error::Unimplemented(format!("parameter {key}: sequences")));
            }
            "triton_enable_empty_final_response" => self.wants_final = value.flag(key)?,
            _ => {}
        }
        Ok(())
    }
}

impl Server {
    /// Checks an inference, runs it in its turn, and gives the answer.
    ///
    /// # Errors
    ///
    /// What is wrong with it; those of [`Server::infer`].
    pub(crate) async fn answer(&self, peer: &Peer, request: InferRequest) -> Result<InferResponse> {
        let model = self.registry.get(&request.model, &request.version)?;
        let tenant = self.tenants.of(&peer.principal);
        let default = self.config.get().models.class;
        let priority = tenant.priority(request.priority, request.class, default)?;
        let (priority, account) = match stated(request.rate_us.0, request.rate_us.1)? {
            None => (priority, None),
            Some(rate) => {
                let now = self.engine.clock();
                self.tenants.claim(&tenant, &peer.life, priority, rate, now)?
            }
        };
        let input = self.input(peer, &model, request.inputs)?;
        let to = self.wanted(&model, request.outputs)?;
        let output = match &to {
            None => {
                request
                    .charge
                    .iter()
                    .try_for_each(|charge| charge.add(model.output.bytes() as u64))?;
                Output::Bytes
            }
            Some(place) => Output::Region(self.slice(peer, place, model.output.bytes())?),
        };
        let inference = Inference {
            client: peer.id,
            model: model.clone(),
            tenant,
            priority,
            account,
            timeout: (request.timeout > 0).then(|| Duration::from_micros(request.timeout)),
            input,
            output,
        };
        let bytes = self.infer(inference).await?.into();
        Ok(InferResponse { model, id: request.id, bytes, to })
    }

    fn input(&self, peer: &Peer, model: &LoadedModel, inputs: Vec<InputTensor>) -> Result<Input> {
        let given = inputs.len();
        let Ok([input]) = <[InputTensor; 1]>::try_from(inputs) else {
            let name = model.input.name;
            return Err(Error::Invalid(format!("{given} inputs given, 1 wanted: {name}")));
        };
        model.input.check(&input.name, &input.datatype, &input.shape)?;
        match input.from {
            TensorData::Bytes(bytes) => {
                model.input.check_bytes(bytes.len())?;
                Ok(Input::Bytes(bytes))
            }
            TensorData::Region(place) => {
                Ok(Input::Region(self.slice(peer, &place, model.input.bytes())?))
            }
        }
    }

    fn wanted(
        &self,
        model: &LoadedModel,
        mut outputs: Vec<RequestedOutput>,
    ) -> Result<Option<Place>> {
        if outputs.len() > 1 {
            let text = format!("{} outputs wanted, there is 1", outputs.len());
            return Err(Error::Invalid(text));
        }
        let Some(output) = outputs.pop() else { return Ok(None) };
        model.output.check_name(&output.name)?;
        Ok(output.to)
    }

    fn slice(&self, peer: &Peer, place: &Place, want: usize) -> Result<Slice> {
        let Place { region, offset, bytes } = place;
        self.regions.slice(peer, region, *offset, *bytes, want)
    }
}

#[cfg(test)]
mod tests;
