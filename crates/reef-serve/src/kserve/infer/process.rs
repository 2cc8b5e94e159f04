//! Requests to models that are processes: each chooses its shapes, and so does each answer.

use super::inference::in_order;
use super::request::{InferRequest, InputTensor, TensorData};
use super::response::{InferResponse, ResponseOutput, response_outputs};
use super::sequence::SequenceStep;
use crate::engine::call::{CallHead, CallOutput, OutputSize};
use crate::error::{Error, Result};
use crate::models::entries::EntryGuard;
use crate::models::loaded_model::LoadedModel;
use crate::models::shaped::variant::Variant;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::net::quota::stream_buffer::stream_buffer;
use crate::requests::call::in_device_memory;
use crate::requests::job::{BoundInput, BoundOutput, Input, Output};
use crate::requests::region_memory::RegionSlice;
use crate::server::{Inference, Server};
use crate::tensor::TensorInfo;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A checked request to a process, before it runs.
struct ProcessRequest {
    inference: Inference,
    form: AnswerForm,
    /// Its turn in its sequence.
    sequence: Option<SequenceStep>,
}

/// Form of each answer to a request.
struct AnswerForm {
    model: Arc<LoadedModel>,
    id: String,
    outputs: Vec<ResponseOutput>,
    sizes: Arc<OnceLock<Vec<OutputSize>>>,
    charge: Option<Charge>,
}

impl Server {
    /// True if the model of a request answers in parts.
    pub(crate) fn streams(&self, request: &InferRequest) -> bool {
        let model = self.registry.get(&request.model, &request.version);
        model.is_ok_and(|model| model.base.streams())
    }

    /// Has a process run a request, and returns its only answer.
    ///
    /// # Errors
    ///
    /// Errors of the check and of [`Server::infer`]; `Unimplemented` if it answers in parts.
    pub(super) async fn answer_by_process(
        &self,
        peer: &Peer,
        model: Arc<LoadedModel>,
        entry: EntryGuard,
        request: InferRequest,
    ) -> Result<InferResponse> {
        if model.base.streams() {
            let title = model.title();
            let text = format!(
                "{title}: one answer of a model that streams (ModelStreamInfer and generate_stream take all)"
            );
            return Err(Error::Unimplemented(text));
        }
        let prepared = self.process_request(peer, model, entry, request).await?;
        let ProcessRequest { inference, form, sequence } = prepared;
        let made = self.infer(inference).await?;
        sequence.into_iter().for_each(SequenceStep::advance);
        form.last(made)
    }

    /// Has a process run a request, and sends each of its answers as it comes.
    ///
    /// # Errors
    ///
    /// Errors of the check and of [`Server::infer`].
    pub(crate) async fn answer_in_parts(
        &self,
        peer: &Peer,
        request: InferRequest,
        to: &mpsc::Sender<Result<Option<InferResponse>>>,
    ) -> Result<()> {
        let (model, entry) = self.model_of(peer, &request)?;
        let prepared = tokio::select! {
            biased;
            prepared = self.process_request(peer, model, entry, request) => prepared?,
            () = to.closed() => return Err(gone()), // while it waits for others of its sequence
        };
        let ProcessRequest { mut inference, form, sequence } = prepared;
        let (sender, mut parts) = stream_buffer(self.memory.charge(peer));
        if let Some(call) = &mut inference.call {
            call.parts = Some(sender);
        }
        let mut run = std::pin::pin!(self.infer(inference));
        let made = loop {
            tokio::select! {
                biased;
                Some(part) = parts.recv() => form.send(part, to).await?,
                made = &mut run => break made,
                () = to.closed() => return Err(gone()),
            }
        };
        while let Some(part) = parts.try_recv() {
            form.send(part, to).await?; // they come before an error, too
        }
        let made = made?;
        sequence.into_iter().for_each(SequenceStep::advance);
        if !made.is_empty() {
            to.send(Ok(Some(form.last(made)?))).await.map_err(|_| gone())?;
        }
        Ok(())
    }

    async fn process_request(
        &self,
        peer: &Peer,
        model: Arc<LoadedModel>,
        entry: EntryGuard,
        request: InferRequest,
    ) -> Result<ProcessRequest> {
        let arrived = Instant::now();
        let timeout = (request.timeout > 0).then(|| Duration::from_micros(request.timeout));
        let tenant = self.tenants.of(&peer.principal);
        self.check_class(&model, &tenant, &request)?; // before it waits for others of its sequence
        let sequence = self.turn(peer, &model, &request, arrived, timeout).await?;
        let (priority, account) = self.class_of(peer, &model, &tenant, &request)?;
        let answered = response_outputs(&model, request.outputs, request.is_binary)?;
        let order = in_order(&model, &request.inputs)?;
        let mut call = self.call_head(peer, &model, &request.id, &order)?;
        call.sequence = sequence.as_ref().map(SequenceStep::call);
        let (variant, sizes) = (model.base.clone(), call.sizes.clone());
        let inputs = self.process_inputs(peer, &variant, &call, request.inputs)?;
        let copied =
            inputs.iter().fold(0, |sum: u64, input| sum.saturating_add(copied_bytes(input)));
        request.charge.iter().try_for_each(|charge| charge.add(copied))?;
        let bind = |output: &ResponseOutput| self.bind_process_output(peer, &model, output);
        let outputs = answered.iter().map(bind).collect::<Result<_>>()?;
        let (id, charge, client) = (request.id, request.charge, peer.id);
        let form = AnswerForm { model: model.clone(), id, outputs: answered, sizes, charge };
        let inference = Inference {
            client,
            tenant,
            model,
            variant,
            entry: Some(entry),
            priority,
            account,
            arrived,
            timeout,
            call: Some(call),
            inputs,
            outputs,
        };
        Ok(ProcessRequest { inference, form, sequence })
    }

    /// Returns the facts about a request that its process is told.
    ///
    /// # Errors
    ///
    /// `Invalid` if an input has another type or shape than the model's.
    fn call_head(
        &self,
        peer: &Peer,
        model: &LoadedModel,
        id: &str,
        order: &[&InputTensor],
    ) -> Result<CallHead> {
        let each = order.iter().zip(&model.inputs.each);
        let with_shape = |(input, info): (&&InputTensor, &TensorInfo)| {
            let chosen = info.with_shape(&input.datatype, &input.shape)?;
            self.process_data(peer, &model.base, &chosen, input).map(|_| chosen)
        };
        let inputs = each.map(with_shape).collect::<Result<_>>()?;
        let (id, sizes) = (id.into(), Arc::new(OnceLock::new()));
        Ok(CallHead { id, inputs, sizes, parts: None, sequence: None })
    }

    /// Binds all inputs of a process, each once, in the model's order.
    fn process_inputs(
        &self,
        peer: &Peer,
        variant: &Variant,
        call: &CallHead,
        inputs: Vec<InputTensor>,
    ) -> Result<Vec<BoundInput>> {
        let bind = |input: InputTensor| {
            let index = variant.inputs.find(&input.name)?;
            let input = self.process_data(peer, variant, &call.inputs[index], &input)?;
            Ok(BoundInput { index, offset: 0, input })
        };
        let mut bound = inputs.into_iter().map(bind).collect::<Result<Vec<_>>>()?;
        bound.sort_by_key(|input| input.index);
        Ok(bound)
    }

    /// Returns the source of an input, whose number of bytes has been checked. Texts in a region
    /// are the program's to check, because their client may change them.
    fn process_data(
        &self,
        peer: &Peer,
        variant: &Variant,
        info: &TensorInfo,
        input: &InputTensor,
    ) -> Result<Input> {
        match &input.from {
            TensorData::Bytes(bytes) => {
                info.check_data(bytes)?;
                Ok(Input::Bytes(bytes.clone()))
            }
            TensorData::State(_) | TensorData::Zeros => Err(in_device_memory()),
            TensorData::Region(part) => {
                let texts = usize::try_from(part.bytes).unwrap_or(usize::MAX);
                let want = if info.element.is_some() { info.bytes() } else { texts };
                match self.slice(peer, part, want)? {
                    RegionSlice::System(slice) => Ok(Input::Region(slice)),
                    RegionSlice::Device(slice)
                        if variant.opens_device_memory() && info.element.is_some() =>
                    {
                        slice.check_device(variant.node())?;
                        Ok(Input::Device(slice))
                    }
                    RegionSlice::Device(_) => Err(in_device_memory()),
                }
            }
        }
    }

    fn bind_process_output(
        &self,
        peer: &Peer,
        model: &LoadedModel,
        output: &ResponseOutput,
    ) -> Result<BoundOutput> {
        let to = match &output.to {
            None => Output::Bytes,
            Some(_) if model.base.streams() => {
                return Err(Error::Unimplemented("a region for an answer in parts".into()));
            }
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

impl AnswerForm {
    /// Returns the last answer. Its bytes are charged.
    fn last(&self, made: Vec<Vec<u8>>) -> Result<InferResponse> {
        let sizes = self.sizes.get().filter(|sizes| sizes.len() == made.len());
        let sizes = sizes.ok_or_else(|| Error::Failed("an answer without sizes".into()))?;
        let bytes: u64 = made.iter().map(|bytes| bytes.len() as u64).sum();
        self.charge.iter().try_for_each(|charge| charge.add(bytes))?;
        Ok(self.filled(sizes.iter().cloned().zip(made.into_iter().map(Bytes::from))))
    }

    /// Sends a part, which is charged no longer: one at a time is on its way.
    async fn send(
        &self,
        part: Vec<CallOutput>,
        to: &mpsc::Sender<Result<Option<InferResponse>>>,
    ) -> Result<()> {
        let part = self.filled(part.into_iter().map(|output| (output.size(), output.bytes)));
        to.send(Ok(Some(part))).await.map_err(|_| gone())
    }

    fn filled(&self, made: impl Iterator<Item = (OutputSize, Bytes)>) -> InferResponse {
        let mut outputs = self.outputs.clone();
        for (output, (size, bytes)) in outputs.iter_mut().zip(made) {
            output.set_answered(size, bytes);
        }
        let (model, id) = (self.model.clone(), self.id.clone());
        InferResponse { variant: model.base.clone(), model, id, outputs }
    }
}

/// Bytes that are copied for a process, by the daemon or by itself: regions of any size take no
/// memory until then. Device memory is not copied.
fn copied_bytes(input: &BoundInput) -> u64 {
    match &input.input {
        Input::Region(slice) => slice.bytes() as u64,
        Input::Bytes(_) | Input::Device(_) => 0,
    }
}

fn gone() -> Error {
    Error::Unavailable("cancelled: the client disconnected".into())
}
