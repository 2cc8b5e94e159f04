//! One session: messages become calls of the device and of its dispatcher.

use super::lanes::{SharedLane, no_lane};
use super::objects::{Fault, Launches, Objects, Outcome};
use super::own_lane::OwnLane;
use super::shared::Shared;
use super::tenants::Account;
use crate::error::{NAME, RemoteError};
use crate::messages::{
    AbandonLane, Alloc, Ask, AskClock, AskEach, CloseLane, Failed, Free, MAX_PIECE_LEN, MakeGraph,
    NamedKernel, OpenLane, Operation, Pack, PackInput, PackedSpec, Prepare, PrepareEach, Question,
    Read, RemoteCommand, Run, Section, Shape, Stage, TensorCall, Write,
};
use reef_core::dkp::Resources;
use reef_core::op::{Operands, Operators, TensorOperands};
use reef_core::rounding::Rounded;
use reef_core::tensor::TensorOp;
use reef_core::{Command, Error, Launch, Task};
use reef_wire::{Cold, Endpoint, Handler, Hot, Id, Message, codec};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of staged bytes: the largest layer of a network that is packed at once.
const MAX_STAGED_LEN: u64 = 2 << 30;
/// Maximum number of lanes of a session.
const MAX_LANES: usize = 1024;

#[derive(Debug)]
pub(super) struct Session<D: Operators> {
    pub(super) host: Arc<Shared<D>>,
    endpoint: Option<Arc<Endpoint>>,
    pub(super) objects: Objects<D>,
    pub(super) lanes: HashMap<u32, Lane<D>>,
    staged: Vec<f32>,
}

/// A lane, as the thread that reads frames sees it.
#[derive(Debug)]
pub(super) enum Lane<D: Operators> {
    Shared(SharedLane<D>),
    Own(OwnLane<D>),
}

impl<D: Operators> Session<D> {
    pub(super) fn new(host: Arc<Shared<D>>, account: Arc<Account>) -> Self {
        let (objects, lanes) = (Objects::new(account), HashMap::new());
        Self { host, endpoint: None, objects, lanes, staged: Vec::new() }
    }

    /// Handles a message, and returns the reply's bytes.
    fn answer(&mut self, message: &Message<'_>) -> Outcome<Vec<u8>> {
        let body = message.body;
        match message.op {
            Alloc::OP => self.alloc(&Alloc::from_bytes(body)?),
            Read::OP => self.read(Read::split(body)?.0),
            NamedKernel::OP => self.named_kernel(&NamedKernel::from_bytes(body)?),
            MakeGraph::OP => self.make_graph(&MakeGraph::from_bytes(body)?),
            OpenLane::OP => self.open_lane(message.lane, &OpenLane::from_bytes(body)?),
            Ask::OP => self.ask(Ask::from_bytes(body)?.question),
            AskEach::OP => {
                let questions = AskEach::from_bytes(body)?.questions.into_iter();
                let answers = questions.map(|question| self.ask(question));
                encode(&answers.collect::<Outcome<Vec<_>>>()?)
            }
            Pack::OP => self.pack(&Pack::from_bytes(body)?),
            PackInput::OP => self.pack_input(&PackInput::from_bytes(body)?),
            Prepare::OP => {
                let Prepare { id, operation } = Prepare::from_bytes(body)?;
                let (launches, shapes) = self.prepare(operation)?;
                self.objects.launches.insert(Id::from_bits(id), Launches::Prepared(launches))?;
                encode(&shapes)
            }
            PrepareEach::OP => self.prepare_each(PrepareEach::from_bytes(body)?.each),
            AskClock::OP => encode(&(self.host.device.clock().as_nanos() as u64)),
            _ => self.answer_own(message),
        }
    }

    /// Handles a message without reply.
    fn take(&mut self, message: &Message<'_>) -> Outcome<()> {
        let body = message.body;
        match message.op {
            Run::OP => {
                let (run, bytes) = Run::front(body)?;
                self.take_inputs(&run.inputs, bytes)?;
                self.run(message.lane, &run)
            }
            AbandonLane::OP => {
                let lane = self.lanes.remove(&message.lane);
                lane.map(drop).ok_or_else(|| no_lane(message.lane).into())
            }
            Free::OP => self.objects.free(Free::split(body)?.0.id.get()),
            Write::OP => {
                let (write, bytes) = Write::split(body)?;
                let buffer = self.objects.buffer(write.buffer.get())?;
                Ok(self.host.device.write(buffer, write.offset.get() as usize, bytes)?)
            }
            Stage::OP => {
                let (stage, bytes) = Stage::split(body)?;
                self.stage(stage.total.get(), bytes)
            }
            _ => self.take_own(message),
        }
    }

    fn alloc(&mut self, alloc: &Alloc) -> Outcome<Vec<u8>> {
        let device = &self.host.device;
        let bytes = usize::try_from(alloc.bytes).unwrap_or(usize::MAX);
        let charge = self.objects.charge(alloc.bytes)?;
        let buffer = if alloc.is_host { device.alloc_host(bytes) } else { device.alloc(bytes) };
        self.objects.add_buffer(alloc.id, alloc.address, alloc.bytes, buffer?, charge)?;
        encode(&())
    }

    fn read(&mut self, read: &Read) -> Outcome<Vec<u8>> {
        let (buffer, len) = (self.objects.buffer(read.buffer.get())?, read.bytes.get() as usize);
        if len > MAX_PIECE_LEN {
            let text = format!("read: must be at most {MAX_PIECE_LEN} bytes, got {len}");
            return Err(reef_wire::Error::Protocol(text).into());
        }
        let mut bytes = vec![0; len];
        self.host.device.read(buffer, read.offset.get() as usize, &mut bytes)?;
        Ok(bytes)
    }

    fn named_kernel(&mut self, asked: &NamedKernel) -> Outcome<Vec<u8>> {
        let (is_own, device) = (self.host.dispatcher.is_none(), &self.host.device);
        let kernel = match (self.host.has_raw_launches, is_own && asked.name == "append") {
            (true, _) => Launches::Named(device.kernel(&asked.name)?),
            (false, true) => Launches::Append(device.kernel(&asked.name)?),
            (false, false) => {
                let what = "launches with arguments of the client, in a session of this server";
                return Err(Error::Unsupported { backend: NAME, what: what.into() }.into());
            }
        };
        self.objects.launches.insert(Id::from_bits(asked.id), kernel)?;
        encode(&())
    }

    /// The device's own graph. On a shared device without graphs it is a list of its commands.
    fn make_graph(&mut self, asked: &MakeGraph) -> Outcome<Vec<u8>> {
        let device = &self.host.device;
        let commands = asked.commands.iter().map(|command| self.objects.command(device, command));
        let commands = commands.collect::<Outcome<Vec<_>>>()?;
        let task = match device.graph(&commands) {
            Ok(graph) => Task::new([Command::Graph(graph)])?,
            Err(Error::Unsupported { .. }) if self.host.dispatcher.is_some() => {
                Task::new(commands)?
            }
            Err(error) => return Err(error.into()),
        };
        self.objects.graphs.insert(Id::from_bits(asked.id), task)?;
        encode(&())
    }

    fn open_lane(&mut self, number: u32, asked: &OpenLane) -> Outcome<Vec<u8>> {
        if number == 0 || self.lanes.contains_key(&number) || self.lanes.len() >= MAX_LANES {
            let text = format!("lane {number}: cannot be opened, there are {}", self.lanes.len());
            return Err(reef_wire::Error::Protocol(text).into());
        }
        let endpoint = self.endpoint.clone().expect("a session has begun before its messages");
        let device = &self.host.device;
        let lane = match &self.host.dispatcher {
            Some(dispatcher) => Lane::Shared(SharedLane::open(
                number,
                asked.is_real_time,
                device,
                dispatcher,
                endpoint,
            )?),
            None => Lane::Own(self.open_own(number, asked, endpoint)?),
        };
        self.lanes.insert(number, lane);
        encode(&())
    }

    /// Writes the host memory that came along with a command.
    fn take_inputs(&self, sections: &[Section], mut bytes: &[u8]) -> Outcome<()> {
        for &(buffer, offset, len) in sections {
            let (piece, rest) = bytes.split_at_checked(len as usize).ok_or_else(|| {
                let got = bytes.len();
                reef_wire::Error::Protocol(format!("input: must have {len} bytes, got {got}"))
            })?;
            let buffer = self.objects.buffer(buffer)?;
            self.host.device.write(buffer, offset as usize, piece)?;
            bytes = rest;
        }
        match bytes.len() {
            0 => Ok(()),
            more => {
                let text = format!("a command with {more} bytes too many");
                Err(reef_wire::Error::Protocol(text).into())
            }
        }
    }

    fn run(&mut self, number: u32, run: &Run) -> Outcome<()> {
        let device = &self.host.device;
        let outputs = self.objects.outputs(&run.outputs)?;
        let lane = match self.lanes.get_mut(&number).ok_or_else(|| no_lane(number))? {
            Lane::Shared(lane) => lane,
            Lane::Own(_) => return self.run_own(number, run, outputs),
        };
        if run.command == RemoteCommand::Record {
            return Ok(lane.record(run.seq, device.clock())?);
        }
        let task = match self.objects.task(device, &run.command) {
            Ok(task) => Ok(task),
            Err(Fault::Device(error)) => Err(error),
            Err(protocol) => return Err(protocol),
        };
        Ok(lane.run(run.seq, task, outputs)?)
    }

    fn stage(&mut self, total: u64, bytes: &[u8]) -> Outcome<()> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let len = (self.staged.len() * 4 + bytes.len()) as u64;
        if !rest.is_empty() || len > total || total > MAX_STAGED_LEN {
            let text =
                format!("staged bytes: must be {total}, at most {MAX_STAGED_LEN}, got {len}");
            return Err(reef_wire::Error::Protocol(text).into());
        }
        self.staged.extend(numbers.iter().map(|&number| f32::from_le_bytes(number)));
        Ok(())
    }

    fn pack(&mut self, asked: &Pack) -> Outcome<Vec<u8>> {
        let staged = std::mem::take(&mut self.staged);
        let (weights, bias) = staged.split_at_checked(asked.weights as usize).ok_or_else(|| {
            let (weights, got) = (asked.weights, staged.len());
            reef_wire::Error::Protocol(format!("pack: must have {weights} weights, got {got}"))
        })?;
        asked.op.check()?;
        let charge = self.objects.charge(size_of_val(&*staged) as u64)?;
        let buffer = self.host.device.pack(&asked.op, weights, bias)?;
        self.objects.add_buffer(asked.id, asked.address, 0, buffer, charge)?;
        encode(&())
    }

    fn pack_input(&mut self, asked: &PackInput) -> Outcome<Vec<u8>> {
        let staged = std::mem::take(&mut self.staged);
        let charge = self.objects.charge(size_of_val(&*staged) as u64)?;
        let buffer = self.host.device.pack_input(&asked.packed.into(), &staged)?;
        self.objects.add_buffer(asked.id, asked.address, 0, buffer, charge)?;
        encode(&())
    }

    fn prepare_each(&mut self, each: Vec<(u64, Operation)>) -> Outcome<Vec<u8>> {
        let mut made = Vec::with_capacity(each.len());
        for (at, (id, operation)) in each.into_iter().enumerate() {
            match self.prepare(operation) {
                Ok(prepared) => made.push((id, prepared)),
                Err(Fault::Device(error)) => {
                    return encode(&Err::<Vec<Vec<Shape>>, _>((
                        at as u64,
                        RemoteError::from(&error),
                    )));
                }
                Err(fault) => return Err(fault),
            }
        }
        let mut shapes = Vec::with_capacity(made.len());
        for (id, (launches, shape)) in made {
            self.objects.launches.insert(Id::from_bits(id), Launches::Prepared(launches))?;
            shapes.push(shape);
        }
        encode(&Ok::<_, (u64, RemoteError)>(shapes))
    }

    fn prepare(&self, operation: Operation) -> Outcome<(Vec<Launch<D>>, Vec<Shape>)> {
        let launches = match operation {
            Operation::Picture { op, input, residual, output, constants, scratch, rounded } => {
                op.check()?;
                let [in_rounded, out_rounded] = rounded;
                let operands = Operands {
                    input: self.objects.storage(input)?,
                    residual: residual.map(|at| self.objects.storage(at)).transpose()?,
                    output: self.objects.storage(output)?,
                    constants: constants.map(|id| self.objects.buffer(id)).transpose()?,
                    scratch: scratch.map(|at| self.objects.storage(at)).transpose()?,
                    rounded: Rounded { input: in_rounded, output: out_rounded },
                };
                self.host.device.operator(&op, &operands)?
            }
            Operation::Tensors { ops, is_group } => self.tensor_launches(ops, is_group)?,
        };
        let shape = |launch: &Launch<D>| {
            let Resources { threads, registers, shared } = self.host.device.resources(launch);
            let resources = [threads, registers, shared];
            Shape { grid: launch.grid(), block: launch.block(), resources }
        };
        let shapes = launches.iter().map(shape).collect();
        Ok((launches, shapes))
    }

    fn tensor_launches(&self, calls: Vec<TensorCall>, is_group: bool) -> Outcome<Vec<Launch<D>>> {
        let mut ops = Vec::new();
        for call in calls {
            call.op.check()?;
            let inputs = call.inputs.iter().map(|&at| self.objects.storage(at));
            let operands = TensorOperands {
                inputs: inputs.collect::<Outcome<Vec<_>>>()?,
                output: self.objects.storage(call.output)?,
                packed: call.packed,
                scratch: call.scratch.map(|at| self.objects.storage(at)).transpose()?,
            };
            ops.push((Arc::new(call.op), operands));
        }
        let device = &self.host.device;
        match (&*ops, is_group) {
            ([(op, operands)], false) => Ok(device.tensor_operator(op, operands)?),
            (_, true) => {
                let ops: Vec<_> = ops.iter().map(|(op, operands)| (op, borrow(operands))).collect();
                Ok(device.tensor_group(&ops)?)
            }
            _ => {
                Err(reef_wire::Error::Protocol("several operations: must be a group".into()).into())
            }
        }
    }

    fn ask(&self, question: Question) -> Outcome<Vec<u8>> {
        let device = &self.host.device;
        let pair = |scratch: reef_core::op::Scratch| {
            encode(&[scratch.zeroed as u64, scratch.bytes as u64])
        };
        match question {
            Question::Scratch(op, [input, output]) => {
                op.check()?;
                pair(device.scratch(&op, Rounded { input, output }))
            }
            Question::Rounding(op) => {
                op.check()?;
                let rounding = device.rounding(&op);
                encode(&[rounding.input, rounding.output, rounding.keeps])
            }
            Question::TensorScratch(op) => pair(device.tensor_scratch(checked(&op)?)),
            Question::Grouped(ops) => {
                let ops: Vec<&TensorOp> = ops.iter().map(checked).collect::<Outcome<_>>()?;
                encode(&(device.grouped(&ops) as u64))
            }
            Question::PackedInput(op) => {
                encode(&device.packed_input(checked(&op)?).map(PackedSpec::from))
            }
            Question::HasJoined(op) => encode(&device.has_joined(checked(&op)?)),
            Question::RoundsToHalves(op, input) if (input as usize) < op.inputs.len() => {
                encode(&device.rounds_to_halves(checked(&op)?, input as usize))
            }
            Question::RoundsToHalves(..) => encode(&false),
            Question::TakesHalves(op) => encode(&device.takes_halves(checked(&op)?)),
        }
    }
}

fn borrow<'a, D: Operators>(operands: &TensorOperands<'a, D>) -> TensorOperands<'a, D> {
    let storage = |at: &reef_core::op::Storage<'a, D>| reef_core::op::Storage {
        buffer: at.buffer,
        offset: at.offset,
    };
    TensorOperands {
        inputs: operands.inputs.iter().map(storage).collect(),
        output: storage(&operands.output),
        packed: operands.packed,
        scratch: operands.scratch.as_ref().map(storage),
    }
}

fn checked(op: &TensorOp) -> Outcome<&TensorOp> {
    op.check()?;
    Ok(op)
}

pub(super) fn encode<T: Serialize>(value: &T) -> Outcome<Vec<u8>> {
    Ok(codec::write(value)?)
}

pub(super) fn unknown(op: u16) -> Fault {
    reef_wire::Error::Protocol(format!("operation {op}: there is none")).into()
}

impl<D: Operators> Handler for Session<D> {
    fn begun(&mut self, endpoint: &Arc<Endpoint>) {
        self.endpoint = Some(endpoint.clone());
    }

    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> reef_wire::Result<()> {
        if message.op == CloseLane::OP && message.wants_reply {
            let number = CloseLane::from_bytes(message.body)?.lane;
            let lane = self.lanes.remove(&number).ok_or_else(|| no_lane(number))?;
            match lane {
                Lane::Shared(lane) => lane.close(message.number),
                Lane::Own(lane) => lane.close(message.number),
            }
            return Ok(());
        }
        if message.wants_reply {
            return match self.answer(message) {
                Ok(bytes) => endpoint.reply(message.number, Ok(&[&bytes])),
                Err(Fault::Protocol(error)) => Err(error),
                Err(Fault::Device(error)) => {
                    let (code, text) = RemoteError::from(&error).to_reply();
                    endpoint.reply(message.number, Err((code, &text)))
                }
            };
        }
        match self.take(message) {
            Ok(()) => Ok(()),
            Err(Fault::Protocol(error)) => Err(error),
            Err(Fault::Device(error)) => {
                let failed = Failed { error: RemoteError::from(&error) };
                endpoint.push(Failed::OP, 0, &[&failed.to_bytes()?]).map(|_| ())
            }
        }
    }
}
