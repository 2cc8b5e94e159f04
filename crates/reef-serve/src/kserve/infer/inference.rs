//! Execution of a request, from its check to its answer.

use super::request::{InferRequest, InputTensor, RequestedOutput, TensorData};
use super::response::{
    InferResponse, ResponseOutput, named_twice, response_outputs, texts_in_region,
};
use super::sequence::SequenceStep;
use crate::class::Priority;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::kserve::parameter::RegionPart;
use crate::models::entries::EntryGuard;
use crate::models::loaded_model::LoadedModel;
use crate::models::sequences::table::SequenceKey;
use crate::models::shaped::variant::Variant;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::requests::job::{BoundInput, BoundOutput, Input, Output};
use crate::requests::region_memory::RegionSlice;
use crate::server::{Inference, Server};
use crate::tenants::claims::stated_rate;
use crate::tenants::tenant::Tenant;
use crate::tensor::{TensorInfo, to_places};
use reef::Account;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Server {
    /// Checks an inference, runs it in its turn, and returns the answer.
    ///
    /// # Errors
    ///
    /// Errors of the check and of [`Server::infer`].
    pub(crate) async fn answer(
        &self,
        peer: &Peer,
        mut request: InferRequest,
    ) -> Result<InferResponse> {
        let arrived = Instant::now();
        let (model, entry) = self.model_of(peer, &request)?;
        if model.spec.is_process() {
            return self.answer_by_process(peer, model, entry, request).await;
        }
        let timeout = (request.timeout > 0).then(|| Duration::from_micros(request.timeout));
        let (time, deadline) = self.time(arrived, timeout);
        let mut sequence = self.turn(peer, &model, &request, arrived, timeout).await?;
        if let Some(sequence) = &sequence {
            request.inputs.extend(sequence.inputs(&model, &request.inputs)?);
        }
        let tenant = self.tenants.of(&peer.principal);
        let (priority, account) = self.class_of(peer, &model, &tenant, &request)?;
        let mut answered = response_outputs(&model, request.outputs, request.is_binary)?;
        let order = in_order(&model, &request.inputs)?;
        let variant = match model.shapes_of(order.iter().map(|input| &*input.shape))? {
            None => model.base.clone(),
            Some(mut shapes) => {
                // Checked before a network is created for an invalid request.
                let mut each = order.iter().zip(&model.inputs.each);
                each.try_for_each(|(input, info)| input.check(self, peer, info))?;
                self.check_regions(peer, &answered)?;
                shapes.extend(self.values_of(peer, &model, &order)?);
                self.variant(&model, &tenant, shapes, arrived, timeout).await?
            }
        };
        let charge = request.charge.clone();
        let inputs = self.encode_texts(peer, &variant, request.inputs, charge).await?;
        let inputs = self.inputs(peer, &variant, inputs)?;
        answered
            .iter_mut()
            .for_each(|output| output.set_shape(&variant.outputs.each[output.index]));
        let of =
            |output: &ResponseOutput| self.bind_output(peer, &variant, output, &request.charge);
        let mut outputs = answered.iter().map(of).collect::<Result<Vec<_>>>()?;
        if let Some(sequence) = &mut sequence {
            let state = sequence.outputs(self, &tenant, &model, &variant);
            let state = tokio::time::timeout_at(deadline.into(), state).await;
            let text = || format!("timed out after {time:?} while allocating its state");
            outputs.extend(state.map_err(|_| Error::Deadline(text()))??);
        }
        let inference = Inference {
            client: peer.id,
            model: model.clone(),
            variant: variant.clone(),
            entry: Some(entry),
            tenant,
            priority,
            account,
            arrived,
            timeout,
            call: None,
            inputs,
            outputs,
        };
        let made = self.infer(inference).await?;
        sequence.into_iter().for_each(SequenceStep::advance);
        let outputs = self.fill(peer, answered, made, variant.clone(), request.charge).await?;
        Ok(InferResponse { model, variant, id: request.id, outputs })
    }

    /// Returns the model of a request, on the device that has its tensors, and enters it.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub(super) fn model_of(
        &self,
        peer: &Peer,
        request: &InferRequest,
    ) -> Result<(Arc<LoadedModel>, EntryGuard)> {
        let device = self.device_of(peer, request)?;
        loop {
            let (name, version) = (&request.model, &request.version);
            let model = self.registry.get_on(name, version, device.as_deref())?;
            if let Some(entry) = model.enter() {
                return Ok((model, entry));
            } // else it was replaced or unloaded since the lookup
        }
    }

    /// Refuses a request that asks for a class for which its model has no instance. Its right to
    /// the class is checked later.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(super) fn check_class(
        &self,
        model: &LoadedModel,
        tenant: &Tenant,
        request: &InferRequest,
    ) -> Result<()> {
        let default = self.config.get().models.class;
        let asked = tenant.priority(request.priority, request.class, default);
        asked.map_or(Ok(()), |priority| model.check_class(priority.class()))
    }

    /// Returns the priority of a request, and its account if its client states a rate.
    ///
    /// # Errors
    ///
    /// `Denied`; `Invalid`; `Exhausted`.
    pub(super) fn class_of(
        &self,
        peer: &Peer,
        model: &LoadedModel,
        tenant: &Arc<Tenant>,
        request: &InferRequest,
    ) -> Result<(Priority, Option<Account>)> {
        let default = self.config.get().models.class;
        let priority = tenant.priority(request.priority, request.class, default)?;
        match stated_rate(request.rate_us.0, request.rate_us.1)? {
            None => Ok((priority, None)),
            Some(rate) => {
                let (device, now) = (model.node().index, model.node().clock());
                self.tenants.claim(tenant, &peer.life, priority, rate, device, now)
            }
        }
    }

    /// Sets the bytes of the outputs, or the texts that replace them.
    async fn fill(
        &self,
        peer: &Peer,
        mut answered: Vec<ResponseOutput>,
        made: Vec<Vec<u8>>,
        variant: Arc<Variant>,
        charge: Option<Charge>,
    ) -> Result<Vec<ResponseOutput>> {
        let is_converted = |output: &ResponseOutput| {
            output.classes.is_some() || variant.outputs.each[output.index].texts.is_some()
        };
        let converted = answered.iter().zip(&made).filter(|(output, _)| is_converted(output));
        let bytes = converted.map(|(_, bytes)| bytes.len()).sum();
        let work = move || {
            for (output, bytes) in answered.iter_mut().zip(made) {
                output.set(&variant.outputs.each[output.index], bytes);
            }
            Ok(answered)
        };
        self.workers.run(&peer.principal, charge, bytes, work).await
    }

    /// Returns the device whose memory holds tensors or the sequence of the request, if any.
    fn device_of(&self, peer: &Peer, request: &InferRequest) -> Result<Option<Arc<Node>>> {
        let from = |input: &InputTensor| match &input.from {
            TensorData::Bytes(_) | TensorData::State(_) | TensorData::Zeros => None,
            TensorData::Region(part) => self.regions.device(peer, &part.region),
        };
        let to = |output: &RequestedOutput| self.regions.device(peer, &output.to.as_ref()?.region);
        if let Some(id) = &request.sequence.id {
            let key = SequenceKey::new(peer, id)?;
            let device = self.registry.device_with(&request.model, &request.version, &key);
            if device.is_some() {
                return Ok(device);
            }
        }
        let regions = request.inputs.iter().find_map(from);
        Ok(regions.or_else(|| request.outputs.iter().find_map(to)))
    }

    /// Refuses unknown regions; the length of an output is not known yet.
    fn check_regions(&self, peer: &Peer, outputs: &[ResponseOutput]) -> Result<()> {
        let mut parts = outputs.iter().filter_map(|output| output.to.as_ref());
        parts.try_for_each(|part| self.check_part(peer, part))
    }

    /// Refuses a part of an unknown region, or one that is not inside of it.
    fn check_part(&self, peer: &Peer, part: &RegionPart) -> Result<()> {
        let all = usize::try_from(part.bytes).unwrap_or(usize::MAX);
        self.slice(peer, part, all).map(drop)
    }

    /// Returns the first `want` bytes of a part for an output, which may be longer, as with Triton.
    fn output_slice(&self, peer: &Peer, part: &RegionPart, want: usize) -> Result<RegionSlice> {
        if part.bytes <= want as u64 {
            return self.slice(peer, part, want);
        }
        self.check_part(peer, part)?;
        self.slice(peer, &RegionPart { bytes: want as u64, ..part.clone() }, want)
    }

    /// Replaces texts of inputs by their places, which the model takes.
    ///
    /// # Errors
    ///
    /// `Invalid` for another type, shape or number of texts; `Unimplemented` for texts in a region.
    async fn encode_texts(
        &self,
        peer: &Peer,
        variant: &Arc<Variant>,
        mut inputs: Vec<InputTensor>,
        charge: Option<Charge>,
    ) -> Result<Vec<InputTensor>> {
        if variant.inputs.each.iter().all(|info| info.texts.is_none()) {
            return Ok(inputs);
        }
        let mut bytes = 0;
        for input in &inputs {
            let info = &variant.inputs.each[variant.inputs.find(&input.name)?];
            if info.texts.is_none() {
                continue;
            }
            info.check(&input.datatype, &input.shape)?;
            let TensorData::Bytes(given) = &input.from else {
                return Err(texts_in_region(&input.name));
            };
            charge.iter().try_for_each(|charge| charge.add(info.bytes() as u64))?;
            bytes += given.len();
        }
        let variant = variant.clone();
        let work = move || {
            for input in &mut inputs {
                let info = &variant.inputs.each[variant.inputs.find(&input.name)?];
                if let (TensorData::Bytes(bytes), Some(list)) = (&mut input.from, &info.texts) {
                    info.check_data(bytes)?;
                    *bytes = to_places(list, bytes, info.elements()).into();
                }
            }
            Ok(inputs)
        };
        self.workers.run(&peer.principal, charge, bytes, work).await
    }

    /// Returns the values of the inputs that decide about shapes, in the model's order. `None` if
    /// there are no such inputs.
    ///
    /// # Errors
    ///
    /// `Unimplemented` for values in device memory; `Invalid` if a region has shrunk.
    fn values_of(
        &self,
        peer: &Peer,
        model: &LoadedModel,
        order: &[&InputTensor],
    ) -> Result<Option<Vec<usize>>> {
        let inputs = model.value_inputs();
        let mut values = Vec::new();
        for input in inputs {
            let (info, given) = (&model.inputs.each[input.index], order[input.index]);
            let wrong = || {
                let name = &info.name;
                let text = format!("tensor {name}, whose values decide about shapes, on a device");
                Error::Unimplemented(text)
            };
            let mut bytes = vec![0; info.bytes()];
            match &given.from {
                TensorData::Bytes(given) => bytes.copy_from_slice(given),
                TensorData::Region(part) => match self.slice(peer, part, info.bytes())? {
                    RegionSlice::System(slice) => slice.read(0, &mut bytes)?,
                    RegionSlice::Device(_) => return Err(wrong()),
                },
                TensorData::State(_) => return Err(wrong()),
                TensorData::Zeros => {}
            }
            values.extend(input.decode(&bytes));
        }
        Ok((!inputs.is_empty()).then_some(values))
    }

    /// Binds all inputs of the model, each once.
    fn inputs(
        &self,
        peer: &Peer,
        variant: &Variant,
        inputs: Vec<InputTensor>,
    ) -> Result<Vec<BoundInput>> {
        let bind = |input: InputTensor| {
            let index = variant.inputs.find(&input.name)?;
            self.bind_input(peer, variant, index, input)
        };
        inputs.into_iter().map(bind).collect()
    }

    fn bind_input(
        &self,
        peer: &Peer,
        variant: &Variant,
        index: usize,
        input: InputTensor,
    ) -> Result<BoundInput> {
        let info = &variant.inputs.each[index];
        info.check(&input.datatype, &input.shape)?;
        let from = match input.from {
            TensorData::Bytes(bytes) => {
                info.check_bytes(bytes.len())?;
                Input::Bytes(bytes)
            }
            TensorData::State(slice) => {
                info.check_bytes(slice.bytes)?;
                Input::Device(slice)
            }
            TensorData::Zeros => Input::Bytes(vec![0; info.bytes()].into()),
            TensorData::Region(part) => match self.slice(peer, &part, info.bytes())? {
                RegionSlice::System(slice) => Input::Region(slice),
                RegionSlice::Device(slice) => {
                    slice.check_device(variant.node())?;
                    Input::Device(slice)
                }
            },
        };
        Ok(BoundInput { index, offset: info.offset, input: from })
    }

    /// Binds an output to its destination; the bytes of the answer are charged.
    fn bind_output(
        &self,
        peer: &Peer,
        variant: &Variant,
        output: &ResponseOutput,
        charge: &Option<Charge>,
    ) -> Result<BoundOutput> {
        let info = &variant.outputs.each[output.index];
        let bytes = info.bytes();
        let to = match &output.to {
            None => {
                let all = (bytes as u64).saturating_add(output.max_text_bytes(info));
                charge.iter().try_for_each(|charge| charge.add(all))?;
                Output::Bytes
            }
            Some(part) => match self.output_slice(peer, part, bytes)? {
                RegionSlice::System(slice) => Output::Region(slice),
                RegionSlice::Device(slice) => {
                    slice.check_device(variant.node())?;
                    Output::Device(slice)
                }
            },
        };
        let size = info.bound.map(|bound| bound.offset);
        Ok(BoundOutput { index: output.index, offset: info.offset, bytes, size, output: to })
    }

    pub(super) fn slice(
        &self,
        peer: &Peer,
        place: &RegionPart,
        want: usize,
    ) -> Result<RegionSlice> {
        let RegionPart { region, offset, bytes } = place;
        self.regions.slice(peer, region, *offset, *bytes, want)
    }
}

impl InputTensor {
    /// Refuses another type, or a number of bytes that does not match its own shape, which the
    /// model need not accept.
    fn check(&self, server: &Server, peer: &Peer, info: &TensorInfo) -> Result<()> {
        let info = TensorInfo { shape: self.shape.clone(), ..info.clone() };
        info.check(&self.datatype, &self.shape)?;
        match &self.from {
            TensorData::Bytes(bytes) => info.check_data(bytes),
            TensorData::State(slice) => info.check_bytes(slice.bytes),
            TensorData::Zeros => Ok(()),
            TensorData::Region(_) if info.texts.is_some() => Err(texts_in_region(&self.name)),
            TensorData::Region(part) => server.slice(peer, part, info.bytes()).map(drop),
        }
    }
}

/// Returns the inputs in the model's order: all, each once.
pub(super) fn in_order<'a>(
    model: &LoadedModel,
    inputs: &'a [InputTensor],
) -> Result<Vec<&'a InputTensor>> {
    let (given, want) = (inputs.len(), model.inputs.each.len());
    if given != want {
        let names: Vec<_> = model.request_inputs().map(|info| info.name.as_str()).collect();
        let (state, names) = (want - names.len(), names.join(", "));
        let (given, want) = (given - state, want - state);
        return Err(Error::Invalid(format!("must have the {want} inputs {names}, got {given}")));
    }
    let mut order = vec![None; want];
    for input in inputs {
        let slot = &mut order[model.inputs.find(&input.name)?];
        if slot.replace(input).is_some() {
            return Err(named_twice(&input.name));
        }
    }
    Ok(order.into_iter().flatten().collect())
}
