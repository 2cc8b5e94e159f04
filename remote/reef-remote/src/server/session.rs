//! One session: messages become calls of the device and of its dispatcher.

use super::lanes::{MAX_POSITION, SharedLane, no_lane};
use super::objects::{Fault, Objects, Outcome};
use super::origin::{Memory, Needs, Object, Origin};
use super::own_lane::OwnLane;
use super::shared::{Outlet, Shared};
use super::tenants::accounts::{Account, Charge};
use super::tenants::resource::Resource;
use crate::error::{NAME, RemoteError, invalid};
use crate::messages::{
    AbandonLane, Alloc, Ask, AskClock, AskEach, CloseLane, Failed, Free, MAX_PIECE_LEN, MakeGraph,
    NamedKernel, OpenLane, Operation, Pack, PackInput, PackedSpec, Prepare, PrepareEach, Question,
    Read, RemoteCommand, Run, Section, Shape, Stage, TensorCall, Write,
};
use parking_lot::Mutex;
use reef_core::dkp::Resources;
use reef_core::{Command, Device, Error, Launch, Task};
use reef_op::rounding::Rounded;
use reef_op::tensor::TensorOp;
use reef_op::{Operands, Operators, Quantization, TensorOperands};
use reef_wire::{Cold, Endpoint, Handler, Hot, Message, codec};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of staged bytes: the largest layer of a network that is packed at once.
const MAX_STAGED_LEN: u64 = 2 << 30;
/// Maximum number of lanes of a session.
const MAX_LANES: usize = 1024;
/// Maximum number of answers that are kept, and of their bytes.
const MAX_ANSWERS: usize = 1 << 16;
const MAX_ANSWERS_LEN: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Session<D: Operators> {
    pub(super) host: Arc<Shared<D>>,
    pub(super) outlet: Arc<Outlet>,
    pub(super) objects: Objects<D>,
    pub(super) lanes: HashMap<u32, OpenedLane<D>>,
    pub(super) staged: Vec<f32>,
    /// Their bytes in the session's account.
    pub(super) staged_charge: Charge,
    /// Reason for which those that come are not kept. The message that packs them is told.
    unstaged: Option<String>,
    pub(super) answers: Answers,
    pub(super) has_trace: bool,
}

/// Answers that the client has got, by question: another device must give the same.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) all: HashMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// There were too many.
    pub(super) is_full: bool,
}

impl Answers {
    pub(super) fn add(&mut self, question: Vec<u8>, answer: Vec<u8>) {
        self.bytes += question.len() + answer.len();
        if self.all.len() >= MAX_ANSWERS || self.bytes > MAX_ANSWERS_LEN {
            self.is_full = true;
            self.all = HashMap::new();
        }
        if !self.is_full {
            self.all.insert(question, answer);
        }
    }
}

/// A lane, and what has opened it.
#[derive(Debug)]
pub(super) struct OpenedLane<D: Operators> {
    pub(super) lane: Lane<D>,
    pub(super) origin: Arc<Origin<D>>,
}

/// A lane, as the thread that reads frames sees it.
#[derive(Debug)]
pub(super) enum Lane<D: Operators> {
    Shared(SharedLane<D>),
    Own(OwnLane<D>),
}

impl<D: Operators> Session<D> {
    pub(super) fn new(host: Arc<Shared<D>>, account: Arc<Account>) -> Self {
        Self {
            host,
            outlet: Arc::new(Outlet::new(account.clone())),
            staged_charge: account.nothing(Resource::State),
            objects: Objects::new(account),
            lanes: HashMap::new(),
            staged: Vec::new(),
            unstaged: None,
            answers: Answers::default(),
            has_trace: false,
        }
    }

    /// Handles a message, and returns the reply's bytes.
    fn answer(&mut self, message: &Message<'_>) -> Outcome<Vec<u8>> {
        let body = message.body;
        match message.op {
            Alloc::OP => self.alloc(&Alloc::from_bytes(body)?),
            Read::OP => self.read(Read::split(body)?.0),
            NamedKernel::OP => self.named_kernel(&NamedKernel::from_bytes(body)?),
            MakeGraph::OP => self.make_graph(&MakeGraph::from_bytes(body)?),
            OpenLane::OP => {
                self.open_lane(message.lane, &OpenLane::from_bytes(body)?)?;
                encode(&())
            }
            Ask::OP => self.ask_noted(Ask::from_bytes(body)?.question),
            AskEach::OP => {
                let questions = AskEach::from_bytes(body)?.questions.into_iter();
                let answers = questions.map(|question| self.ask_noted(question));
                encode(&answers.collect::<Outcome<Vec<_>>>()?)
            }
            Pack::OP => self.pack(&Pack::from_bytes(body)?),
            PackInput::OP => self.pack_input(&PackInput::from_bytes(body)?),
            Prepare::OP => {
                let Prepare { id, operation } = Prepare::from_bytes(body)?;
                let (launches, needs) = self.prepare(&operation)?;
                let reply = encode(&launches.shapes)?;
                self.objects.add(id, launches.object(operation), needs)?;
                Ok(reply)
            }
            PrepareEach::OP => self.prepare_each(PrepareEach::from_bytes(body)?.each),
            AskClock::OP => {
                let now = self.outlet.time(self.host.device.clock());
                encode(&(now.as_nanos() as u64))
            }
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
                self.remove_lane(message.lane)?;
                Ok(())
            }
            Free::OP => self.objects.free(Free::split(body)?.0.id.get()),
            Write::OP => {
                let (write, bytes) = Write::split(body)?;
                let memory = self.objects.memory(write.buffer.get())?;
                memory.note_write();
                Ok(self.host.device.write(&memory.buffer, write.offset.get() as usize, bytes)?)
            }
            Stage::OP => {
                let (stage, bytes) = Stage::split(body)?;
                self.stage(stage.total.get(), bytes)
            }
            _ => self.take_own(message),
        }
    }

    fn alloc(&mut self, alloc: &Alloc) -> Outcome<Vec<u8>> {
        let &Alloc { id, address, bytes, is_host } = alloc;
        self.allocate(id, [address, bytes, bytes], is_host)?;
        encode(&())
    }

    /// Allocates memory with this address and these bytes for the client, and these bytes on the
    /// device.
    pub(super) fn allocate(
        &mut self,
        id: u64,
        [address, bytes, len]: [u64; 3],
        is_host: bool,
    ) -> Outcome<()> {
        let (device, size) = (&self.host.device, usize::try_from(len).unwrap_or(usize::MAX));
        let charge = self.objects.charge(Resource::Memory, len)?;
        let buffer = if is_host { device.alloc_host(size) } else { device.alloc(size) };
        let memory = Memory::new(buffer?, [address, bytes, len], is_host, charge);
        self.objects.add_buffer(id, memory)
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

    pub(super) fn named_kernel(&mut self, asked: &NamedKernel) -> Outcome<Vec<u8>> {
        let (is_own, device) = (self.host.dispatcher.is_none(), &self.host.device);
        let is_checked = match (self.host.has_raw_launches, is_own && asked.name == "append") {
            (true, _) => false,
            (false, true) => true,
            (false, false) => {
                let what = "launches with arguments of the client, in a session of this server";
                return Err(Error::Unsupported { backend: NAME, what: what.into() }.into());
            }
        };
        let (kernel, name) = (device.kernel(&asked.name)?, asked.name.clone());
        let object = Object::Kernel { kernel, name, is_checked };
        self.objects.add(asked.id, object, Needs::default())?;
        encode(&())
    }

    /// The device's own graph. On a shared device without graphs it is a list of its commands.
    pub(super) fn make_graph(&mut self, asked: &MakeGraph) -> Outcome<Vec<u8>> {
        let device = &self.host.device;
        let needs = self.objects.needs_of_commands(&asked.commands)?;
        let commands = asked.commands.iter().map(|command| self.objects.command(device, command));
        let commands = commands.collect::<Outcome<Vec<_>>>()?;
        let task = match device.graph(&commands) {
            Ok(graph) => Task::new([Command::Graph(graph)])?,
            Err(Error::Unsupported { .. }) if self.host.dispatcher.is_some() => {
                Task::new(commands)?
            }
            Err(error) => return Err(error.into()),
        };
        let object = Object::Graph { task, commands: asked.commands.clone() };
        self.objects.add(asked.id, object, needs)?;
        encode(&())
    }

    pub(super) fn open_lane(&mut self, number: u32, asked: &OpenLane) -> Outcome<()> {
        if number == 0 || self.lanes.contains_key(&number) || self.lanes.len() >= MAX_LANES {
            let text = format!("lane {number}: cannot be opened, there are {}", self.lanes.len());
            return Err(reef_wire::Error::Protocol(text).into());
        }
        let (device, mut needs) = (&self.host.device, Needs::default());
        let lane = match &self.host.dispatcher {
            Some(dispatcher) => {
                let outlet = &self.outlet;
                let is_real_time = asked.is_real_time && outlet.may_be_real_time();
                Lane::Shared(SharedLane::open(number, is_real_time, device, dispatcher, outlet)?)
            }
            None => {
                let preemptor = asked.preemptor.map(|id| self.objects.preemptor(id)).transpose()?;
                needs.uses.extend(preemptor.cloned());
                Lane::Own(self.open_own(number, asked)?)
            }
        };
        let &OpenLane { is_real_time, preemptor } = asked;
        let object = Object::Lane { is_real_time, preemptor };
        let order = self.objects.next_order();
        let origin = Origin::new(order, u64::from(number), object, needs, None);
        self.lanes.insert(number, OpenedLane { lane, origin });
        Ok(())
    }

    /// Takes a lane out.
    pub(super) fn remove_lane(&mut self, number: u32) -> Outcome<Lane<D>> {
        let opened = self.lanes.remove(&number).ok_or_else(|| no_lane(number))?;
        // A lane's number is below all names.
        opened.origin.free(self.objects.note_release(number.into()));
        Ok(opened.lane)
    }

    /// Writes the host memory that came along with a command.
    fn take_inputs(&self, sections: &[Section], mut bytes: &[u8]) -> Outcome<()> {
        for &(buffer, offset, len) in sections {
            let (piece, rest) = bytes.split_at_checked(len as usize).ok_or_else(|| {
                let got = bytes.len();
                reef_wire::Error::Protocol(format!("input: must have {len} bytes, got {got}"))
            })?;
            let memory = self.objects.memory(buffer)?;
            memory.note_write();
            self.host.device.write(&memory.buffer, offset as usize, piece)?;
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
        if run.seq >= MAX_POSITION {
            let text = format!("position of a lane: must be below {MAX_POSITION}, got {}", run.seq);
            return Err(reef_wire::Error::Protocol(text).into());
        }
        let device = &self.host.device;
        let outputs = self.objects.outputs(&run.outputs)?;
        let opened = self.lanes.get_mut(&number).ok_or_else(|| no_lane(number))?;
        self.objects.note_run(&run.command)?;
        let lane = match &mut opened.lane {
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
        if self.unstaged.is_some() {
            return Ok(());
        }
        if let Err(why) = self.staged_charge.add(bytes.len() as u64) {
            self.staged_charge.clear();
            (self.staged, self.unstaged) = (Vec::new(), Some(why));
            return Ok(());
        }
        self.staged.extend(numbers.iter().map(|&number| f32::from_le_bytes(number)));
        Ok(())
    }

    /// Takes the staged constants, which count as memory of the device from now on.
    fn take_staged(&mut self) -> Outcome<Vec<f32>> {
        if let Some(why) = self.unstaged.take() {
            return Err(invalid(why).into());
        }
        self.staged_charge.clear();
        Ok(std::mem::take(&mut self.staged))
    }

    fn pack(&mut self, asked: &Pack) -> Outcome<Vec<u8>> {
        let staged = self.take_staged()?;
        let (weights, bias) = staged.split_at_checked(asked.weights as usize).ok_or_else(|| {
            let (weights, got) = (asked.weights, staged.len());
            reef_wire::Error::Protocol(format!("pack: must have {weights} weights, got {got}"))
        })?;
        asked.op.check()?;
        let charge = self.objects.charge(Resource::Memory, size_of_val(&*staged) as u64)?;
        let buffer = self.host.device.pack(&asked.op, weights, bias)?;
        self.add_packed([asked.id, asked.address], buffer, charge)
    }

    fn pack_input(&mut self, asked: &PackInput) -> Outcome<Vec<u8>> {
        let staged = self.take_staged()?;
        let charge = self.objects.charge(Resource::Memory, size_of_val(&*staged) as u64)?;
        let buffer = self.host.device.pack_input(&asked.packed.into(), &staged)?;
        self.add_packed([asked.id, asked.address], buffer, charge)
    }

    /// Adds constants in the device's own form, which takes other bytes than what they are made of.
    fn add_packed(
        &mut self,
        [id, address]: [u64; 2],
        buffer: D::Buffer,
        charge: Charge,
    ) -> Outcome<Vec<u8>> {
        let len = buffer_len(&self.host.device, &buffer);
        drop(charge);
        let charge = self.objects.charge(Resource::Memory, len)?;
        let memory = Memory::new(buffer, [address, 0, len], false, charge);
        self.objects.add_buffer(id, memory)?;
        encode(&())
    }

    fn prepare_each(&mut self, each: Vec<(u64, Operation)>) -> Outcome<Vec<u8>> {
        let mut made = Vec::with_capacity(each.len());
        for (at, (id, operation)) in each.into_iter().enumerate() {
            match self.prepare(&operation) {
                Ok((launches, needs)) => made.push((id, operation, launches, needs)),
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
        for (id, operation, launches, needs) in made {
            shapes.push(launches.shapes.clone());
            self.objects.add(id, launches.object(operation), needs)?;
        }
        encode(&Ok::<_, (u64, RemoteError)>(shapes))
    }

    pub(super) fn prepare(&self, operation: &Operation) -> Outcome<(Prepared<D>, Needs<D>)> {
        let needs = self.objects.needs_of(operation)?;
        let list = match operation {
            Operation::Image { op, input, residual, output, constants, scratch, rounded } => {
                op.check()?;
                let &[in_rounded, out_rounded] = rounded;
                let operands = Operands {
                    input: self.objects.storage(*input)?,
                    residual: residual.map(|at| self.objects.storage(at)).transpose()?,
                    output: self.objects.storage(*output)?,
                    constants: constants.map(|id| self.objects.buffer(id)).transpose()?,
                    scratch: scratch.map(|at| self.objects.storage(at)).transpose()?,
                    rounded: Rounded { input: in_rounded, output: out_rounded },
                };
                self.host.device.operator(op, &operands)?
            }
            Operation::Tensors { ops, is_group } => self.tensor_launches(ops, *is_group)?,
        };
        let shape = |launch: &Launch<D>| {
            let Resources { threads, registers, shared } = self.host.device.resources(launch);
            let resources = [threads, registers, shared];
            Shape { grid: launch.grid(), block: launch.block(), resources }
        };
        let shapes = list.iter().map(shape).collect();
        Ok((Prepared { list, shapes }, needs))
    }

    fn tensor_launches(&self, calls: &[TensorCall], is_group: bool) -> Outcome<Vec<Launch<D>>> {
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
            ops.push((Arc::new(call.op.clone()), operands));
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

    fn ask_noted(&mut self, question: Question) -> Outcome<Vec<u8>> {
        let noted = codec::write(&question)?;
        let answer = self.ask(question)?;
        self.answers.add(noted, answer.clone());
        Ok(answer)
    }

    pub(super) fn ask(&self, question: Question) -> Outcome<Vec<u8>> {
        let device = &self.host.device;
        let pair =
            |scratch: reef_op::Scratch| encode(&[scratch.zeroed as u64, scratch.bytes as u64]);
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
            Question::Quantization(op, format) => {
                op.check()?;
                let Quantization { input, output, keeps } = device.quantization(&op, format);
                encode(&[input, output, keeps])
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

/// Launches of an operation, and what the client knows of them.
pub(super) struct Prepared<D: Operators> {
    list: Vec<Launch<D>>,
    pub(super) shapes: Vec<Shape>,
}

impl<D: Operators> Prepared<D> {
    pub(super) fn object(self, operation: Operation) -> Object<D> {
        let Self { list, shapes } = self;
        Object::Launches { list, operation, shapes }
    }
}

/// Bytes of a buffer that the device has made: a read within it succeeds.
fn buffer_len<D: Device>(device: &D, buffer: &D::Buffer) -> u64 {
    let is_within = |at: u64| device.read(buffer, at as usize, &mut []).is_ok();
    let mut beyond = 1_u64;
    while beyond < 1 << 62 && is_within(beyond) {
        beyond *= 2;
    }
    let (mut from, mut to) = (beyond / 2, beyond);
    while from + 1 < to {
        let middle = from + (to - from) / 2;
        if is_within(middle) { from = middle } else { to = middle }
    }
    from
}

fn borrow<'a, D: Operators>(operands: &TensorOperands<'a, D>) -> TensorOperands<'a, D> {
    let storage =
        |at: &reef_op::Storage<'a, D>| reef_op::Storage { buffer: at.buffer, offset: at.offset };
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

/// Handler of a session, which other threads stop to move it.
#[derive(Debug)]
pub(super) struct Messages<D: Operators>(pub(super) Arc<Mutex<Session<D>>>);

impl<D: Operators> Handler for Messages<D> {
    fn begun(&mut self, endpoint: &Arc<Endpoint>) {
        self.0.lock().outlet.begin(endpoint);
    }

    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> reef_wire::Result<()> {
        self.0.lock().handle(message, endpoint)
    }
}

impl<D: Operators> Session<D> {
    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> reef_wire::Result<()> {
        if message.op == CloseLane::OP && message.wants_reply {
            let number = CloseLane::from_bytes(message.body)?.lane;
            match self.remove_lane(number) {
                Ok(Lane::Shared(lane)) => lane.close(message.number),
                Ok(Lane::Own(lane)) => lane.close(message.number),
                Err(_) => return Err(no_lane(number)),
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
