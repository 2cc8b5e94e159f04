//! What gRPC and HTTP have in common: an inference as the standard protocol asks for it.
//!
//! A request is checked whole before it is queued, so that what is wrong with it is said at once.

use crate::class::Class;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::kserve::classes;
use crate::kserve::parameter::{Parameter, Place};
use crate::models::loaded_model::LoadedModel;
use crate::models::shaped::variant::Variant;
use crate::net::identity::peer::Peer;
use crate::net::room::charge::Charge;
use crate::requests::job::{Given, Input, Output, Wanted};
use crate::requests::region_memory::Located;
use crate::server::{Inference, Server};
use crate::tenants::claims::stated;
use crate::tensor::{TensorInfo, TensorInfos, short};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the server calls itself.
pub(crate) const NAME: &str = "reef";

/// Extensions of the protocol that are there.
const EXTENSIONS: [&str; 9] = [
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
    "system_shared_memory",
    "trace",
];

/// Extensions of the protocol that are there, on the devices that the daemon has.
pub(crate) fn extensions(server: &Server) -> Vec<&'static str> {
    let cuda = server.has_cuda().then_some("cuda_shared_memory");
    let mut all: Vec<_> = EXTENSIONS.into_iter().chain(cuda).collect();
    all.sort_unstable();
    all
}

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
    /// Those that are wanted; none for all.
    pub(crate) outputs: Vec<RequestedOutput>,
    /// Whether outputs are wanted as binary data that don't say themselves.
    pub(crate) binary: bool,
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
    /// Whether it is wanted as binary data, where a protocol has another form.
    pub(crate) binary: Option<bool>,
    /// How many of its largest values are wanted in its place; 0: all of it as it is.
    pub(crate) classes: usize,
}

/// The answer.
#[derive(Debug)]
pub(crate) struct InferResponse {
    pub(crate) model: Arc<LoadedModel>,
    variant: Arc<Variant>,
    pub(crate) id: String,
    pub(crate) outputs: Vec<AnsweredOutput>,
}

/// An output of an answer.
#[derive(Debug)]
pub(crate) struct AnsweredOutput {
    /// Its number among the model's.
    index: usize,
    pub(crate) to: Option<Place>,
    pub(crate) binary: bool,
    /// Its largest values, as texts, with their shape.
    classes: Option<(usize, Vec<i64>)>,
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
    fn settle(&mut self, info: &TensorInfo) {
        if let Some((count, shape)) = &mut self.classes {
            *shape = classes::shape(info, *count);
        }
    }

    /// Bytes that its texts take at most, while they are made.
    fn room(&self, info: &TensorInfo) -> u64 {
        self.classes.as_ref().map_or(0, |(count, _)| classes::room(info, *count))
    }

    fn set(&mut self, info: &TensorInfo, bytes: Vec<u8>) {
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

impl InputTensor {
    /// Refuses another type, or another number of bytes than its shape has; whatever the model has of that shape.
    fn check(&self, server: &Server, peer: &Peer, info: &TensorInfo) -> Result<()> {
        let info = TensorInfo { shape: self.shape.clone(), ..info.clone() };
        info.check(&self.datatype, &self.shape)?;
        match &self.from {
            TensorData::Bytes(bytes) => info.check_bytes(bytes.len()),
            TensorData::Region(place) => server.slice(peer, place, info.bytes()).map(drop),
        }
    }
}

impl Server {
    /// Checks an inference, runs it in its turn, and gives the answer.
    ///
    /// # Errors
    ///
    /// What is wrong with it; those of [`Server::infer`].
    pub(crate) async fn answer(&self, peer: &Peer, request: InferRequest) -> Result<InferResponse> {
        let arrived = Instant::now();
        let device = self.device_of(peer, &request);
        let model = self.registry.get_near(&request.model, &request.version, device.as_deref())?;
        let tenant = self.tenants.of(&peer.principal);
        let default = self.config.get().models.class;
        let priority = tenant.priority(request.priority, request.class, default)?;
        let (priority, account) = match stated(request.rate_us.0, request.rate_us.1)? {
            None => (priority, None),
            Some(rate) => {
                let at = (model.node().index, model.node().clock());
                self.tenants.claim(&tenant, &peer.life, priority, rate, at)?
            }
        };
        let timeout = (request.timeout > 0).then(|| Duration::from_micros(request.timeout));
        let mut answered = answered(&model.outputs, request.outputs, request.binary)?;
        let order = in_order(&model, &request.inputs)?;
        let variant = match model.shapes_of(order.iter().map(|input| &*input.shape))? {
            None => model.base.clone(),
            Some(shapes) => {
                // Before a network is made for a request that is wrong anyway.
                let mut each = order.iter().zip(&model.inputs.each);
                each.try_for_each(|(input, info)| input.check(self, peer, info))?;
                self.check_places(peer, &answered)?;
                self.variant(&model, &tenant, shapes, (arrived, timeout)).await?
            }
        };
        let inputs = self.inputs(peer, &variant, request.inputs)?;
        answered.iter_mut().for_each(|output| output.settle(&variant.outputs.each[output.index]));
        let of = |output: &AnsweredOutput| self.wanted(peer, &variant, output, &request.charge);
        let outputs = answered.iter().map(of).collect::<Result<_>>()?;
        let inference = Inference {
            client: peer.id,
            model: model.clone(),
            variant: variant.clone(),
            tenant,
            priority,
            account,
            arrived,
            timeout,
            inputs,
            outputs,
        };
        let made = self.infer(inference).await?;
        let outputs = self.filled(peer, answered, made, (variant.clone(), request.charge)).await?;
        Ok(InferResponse { model, variant, id: request.id, outputs })
    }

    /// The outputs with their bytes, or the texts that are wanted in their place.
    async fn filled(
        &self,
        peer: &Peer,
        mut answered: Vec<AnsweredOutput>,
        made: Vec<Vec<u8>>,
        (variant, charge): (Arc<Variant>, Option<Charge>),
    ) -> Result<Vec<AnsweredOutput>> {
        let sorted = answered.iter().zip(&made).filter(|(output, _)| output.classes.is_some());
        let bytes = sorted.map(|(_, bytes)| bytes.len()).sum();
        let work = move || {
            for (output, bytes) in answered.iter_mut().zip(made) {
                output.set(&variant.outputs.each[output.index], bytes);
            }
            Ok(answered)
        };
        self.parsers.run(&peer.principal, charge, bytes, work).await
    }

    /// The device whose memory holds tensors of it, if any does.
    fn device_of(&self, peer: &Peer, request: &InferRequest) -> Option<Arc<Node>> {
        let from = |input: &InputTensor| match &input.from {
            TensorData::Bytes(_) => None,
            TensorData::Region(place) => self.regions.device(peer, &place.region),
        };
        let to = |output: &RequestedOutput| self.regions.device(peer, &output.to.as_ref()?.region);
        request.inputs.iter().find_map(from).or_else(|| request.outputs.iter().find_map(to))
    }

    /// Refuses regions that aren't there; how long an output is isn't known yet.
    fn check_places(&self, peer: &Peer, outputs: &[AnsweredOutput]) -> Result<()> {
        let mut places = outputs.iter().filter_map(|output| output.to.as_ref());
        places.try_for_each(|place| {
            let want = usize::try_from(place.bytes).unwrap_or(usize::MAX);
            self.slice(peer, place, want).map(drop)
        })
    }

    /// All inputs of the model, which are there, each once.
    fn inputs(
        &self,
        peer: &Peer,
        variant: &Variant,
        inputs: Vec<InputTensor>,
    ) -> Result<Vec<Given>> {
        let given = |input: InputTensor| {
            let index = variant.inputs.find(&input.name)?;
            self.given((peer, variant.node()), (index, &variant.inputs.each[index]), input)
        };
        inputs.into_iter().map(given).collect()
    }

    fn given(
        &self,
        (peer, node): (&Peer, &Node),
        (index, info): (usize, &TensorInfo),
        input: InputTensor,
    ) -> Result<Given> {
        info.check(&input.datatype, &input.shape)?;
        let from = match input.from {
            TensorData::Bytes(bytes) => {
                info.check_bytes(bytes.len())?;
                Input::Bytes(bytes)
            }
            TensorData::Region(place) => match self.slice(peer, &place, info.bytes())? {
                Located::System(slice) => Input::Region(slice),
                Located::Device(slice) => {
                    slice.check_device(node)?;
                    Input::Device(slice)
                }
            },
        };
        Ok(Given { index, offset: info.offset, input: from })
    }

    /// Where an output lies and goes; what the answer takes is charged for.
    fn wanted(
        &self,
        peer: &Peer,
        variant: &Variant,
        output: &AnsweredOutput,
        charge: &Option<Charge>,
    ) -> Result<Wanted> {
        let info = &variant.outputs.each[output.index];
        let bytes = info.bytes();
        let to = match &output.to {
            None => {
                let all = (bytes as u64).saturating_add(output.room(info));
                charge.iter().try_for_each(|charge| charge.add(all))?;
                Output::Bytes
            }
            Some(place) => match self.slice(peer, place, bytes)? {
                Located::System(slice) => Output::Region(slice),
                Located::Device(slice) => {
                    slice.check_device(variant.node())?;
                    Output::Device(slice)
                }
            },
        };
        Ok(Wanted { index: output.index, offset: info.offset, bytes, output: to })
    }

    fn slice(&self, peer: &Peer, place: &Place, want: usize) -> Result<Located> {
        let Place { region, offset, bytes } = place;
        self.regions.slice(peer, region, *offset, *bytes, want)
    }
}

/// The inputs in the model's order: all, each once.
fn in_order<'a>(model: &LoadedModel, inputs: &'a [InputTensor]) -> Result<Vec<&'a InputTensor>> {
    let (given, want) = (inputs.len(), model.inputs.each.len());
    if given != want {
        let names = model.inputs.names().join(", ");
        return Err(Error::Invalid(format!("{given} inputs given, {want} wanted: {names}")));
    }
    let mut order = vec![None; want];
    for input in inputs {
        let place = &mut order[model.inputs.find(&input.name)?];
        if place.replace(input).is_some() {
            return Err(twice(&input.name));
        }
    }
    Ok(order.into_iter().flatten().collect())
}

/// The outputs that are asked for, without their bytes, and without shapes of texts.
fn answered(
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

fn twice(name: &str) -> Error {
    Error::Invalid(format!("tensor {:?} is named twice", short(name)))
}

#[cfg(test)]
mod tests;
