//! From a request to its answer.

use super::request::{InferRequest, InputTensor, RequestedOutput, TensorData};
use super::response::{AnsweredOutput, InferResponse, answered, twice};
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::kserve::parameter::Place;
use crate::models::loaded_model::LoadedModel;
use crate::models::shaped::variant::Variant;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::requests::job::{Given, Input, Output, Wanted};
use crate::requests::region_memory::Located;
use crate::server::{Inference, Server};
use crate::tenants::claims::stated;
use crate::tensor::TensorInfo;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

impl InputTensor {
    /// Refuses another type, or another number of bytes than its shape has; whatever the model has
    /// of that shape.
    fn check(&self, server: &Server, peer: &Peer, info: &TensorInfo) -> Result<()> {
        let info = TensorInfo { shape: self.shape.clone(), ..info.clone() };
        info.check(&self.datatype, &self.shape)?;
        match &self.from {
            TensorData::Bytes(bytes) => info.check_bytes(bytes.len()),
            TensorData::Region(place) => server.slice(peer, place, info.bytes()).map(drop),
        }
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
