//! Messages of a session with a device of its own: preemption, and parts of launches.

use super::lanes::no_lane;
use super::objects::{Fault, OBJECT_LEN, Outcome, Outputs};
use super::origin::{Needs, Object, Record};
use super::own_lane::{Issue, OwnLane};
use super::session::{Lane, OpenedLane, Session, encode, unknown};
use super::tenants::resource::Resource;
use crate::conversions::level;
use crate::error::NAME;
use crate::messages::{
    BlocksLeft, CapBlocks, Drain, EVICT, MakeCheckpoint, MakePreemptor, OpenLane, REACTIVATE,
    RESET, ReadCheckpoint, ReleaseHeld, RemoteCommand, Run, RunPadded, SetTrace, Stop, TakeTrace,
    Traced, WakeAt, WriteCheckpoint,
};
use reef_core::dkp::Padding;
use reef_core::{Blocks, Command, Error, Launch, PreemptLevel, Preemptor, Priority, Span};
use reef_op::Operators;
use reef_wire::{Cold, Hot, Id, Message};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the bytes of the server's machine that a record of these blocks takes at most.
fn record_len(blocks: u32) -> u64 {
    OBJECT_LEN + 8 * u64::from(blocks)
}

impl<D: Operators> Session<D> {
    /// Handles a message of a session with a device of its own, and returns the reply's bytes.
    pub(super) fn answer_own(&mut self, message: &Message<'_>) -> Outcome<Vec<u8>> {
        self.check_own(message.op)?;
        let (body, device) = (message.body, &self.host.device);
        match message.op {
            ReadCheckpoint::OP => {
                let id = Id::from_bits(ReadCheckpoint::from_bytes(body)?.id);
                let checkpoint = self.checkpoint(id)?;
                encode(&BlocksLeft::from(&device.blocks(&checkpoint)?))
            }
            WriteCheckpoint::OP => {
                let WriteCheckpoint { id, command, blocks } = WriteCheckpoint::from_bytes(body)?;
                let held = self.objects.charge(Resource::Objects, record_len(blocks.total))?;
                let source = self.objects.source(&command)?;
                let command = self.own_command(&command)?;
                let checkpoint = device.checkpoint_of(&command, &Blocks::try_from(blocks)?)?;
                let record = Record { checkpoint, source, _held: Some(held) };
                self.objects.checkpoints.lock().insert(Id::from_bits(id), record)?;
                encode(&())
            }
            MakePreemptor::OP => {
                let MakePreemptor { id, level } = MakePreemptor::from_bytes(body)?;
                encode(&self.make_preemptor(id, level)?)
            }
            TakeTrace::OP => {
                let spans = device.take_trace().into_iter().map(OwnLane::<D>::client_span);
                let shifted = |mut span: Span| {
                    span.begin = self.outlet.time(span.begin);
                    span.end = self.outlet.time(span.end);
                    span
                };
                encode(&spans.map(shifted).map(Span::into).collect::<Vec<Traced>>())
            }
            op => Err(unknown(op)),
        }
    }

    /// Handles a message without reply of a session with a device of its own.
    pub(super) fn take_own(&mut self, message: &Message<'_>) -> Outcome<()> {
        self.check_own(message.op)?;
        let (body, device) = (message.body, &self.host.device);
        match message.op {
            RunPadded::OP => self.run_padded(message.lane, RunPadded::from_bytes(body)?),
            MakeCheckpoint::OP => {
                let MakeCheckpoint { id, command } = MakeCheckpoint::from_bytes(body)?;
                let launch = self.launch(&command)?;
                let held = self.objects.charge(Resource::Objects, record_len(launch.blocks()))?;
                let checkpoint = device.checkpoint(&launch)?;
                let source = self.objects.source(&command)?;
                let record = Record { checkpoint, source, _held: Some(held) };
                Ok(self.objects.checkpoints.lock().insert(Id::from_bits(id), record)?)
            }
            Stop::OP => self.stop(Stop::split(body)?.0),
            Drain::OP => {
                let (drain, _) = Drain::split(body)?;
                self.own_lane(message.lane)?.drain(drain);
                Ok(())
            }
            ReleaseHeld::OP => {
                self.own_lane(message.lane)?.release_held();
                Ok(())
            }
            CapBlocks::OP => {
                let blocks = CapBlocks::split(body)?.0.blocks.get() as u32;
                self.own_lane(message.lane)?.cap_blocks((blocks > 0).then_some(blocks));
                Ok(())
            }
            WakeAt::OP => {
                let seq = WakeAt::split(body)?.0.seq.get();
                self.own_lane(message.lane)?.wake_at(seq);
                Ok(())
            }
            SetTrace::OP => {
                let SetTrace { on } = SetTrace::from_bytes(body)?;
                device.set_trace(on);
                self.has_trace = on;
                Ok(())
            }
            op => Err(unknown(op)),
        }
    }

    pub(super) fn make_preemptor(&mut self, id: u64, number: u8) -> Outcome<[bool; 2]> {
        let level = level(number)
            .ok_or_else(|| Error::invalid(format!("level {number}"), "there is none"))?;
        let preemptor = Arc::new(self.host.device.preemptor(level)?);
        let facts = [preemptor.needs_room(), preemptor.calls_driver()];
        let step = AtomicU64::new(REACTIVATE);
        let object = Object::Preemptor { preemptor, level: number, facts, step };
        self.objects.add(id, object, Needs::default())?;
        Ok(facts)
    }

    fn checkpoint(&self, id: Id) -> Outcome<D::Checkpoint> {
        Ok(self.objects.checkpoints.lock().get(id)?.checkpoint.clone())
    }

    fn stop(&mut self, stop: &Stop) -> Outcome<()> {
        let origin = self.objects.preemptor(stop.preemptor.get())?.clone();
        let Object::Preemptor { preemptor, step, .. } = &origin.object else { return Ok(()) };
        let asked = stop.step.get();
        match asked {
            EVICT => preemptor.evict()?,
            RESET => preemptor.reset()?,
            REACTIVATE => preemptor.reactivate()?,
            step => {
                let text = format!("step {step} of a preemptor: there is none");
                return Err(reef_wire::Error::Protocol(text).into());
            }
        }
        // Work that is reset was evicted before.
        step.store(asked, Ordering::Relaxed);
        if asked == REACTIVATE {
            return Ok(());
        }
        // A drain that came earlier may have an answer now, and the device wakes no thread for it.
        for opened in self.lanes.values() {
            if let Lane::Own(lane) = &opened.lane {
                lane.retry_drain();
            }
        }
        Ok(())
    }

    fn check_own(&self, op: u16) -> Outcome<()> {
        if self.host.dispatcher.is_none() {
            return Ok(());
        }
        let what = format!(
            "operation {op}, on a device that sessions share: needs `reef remote serve --own`"
        );
        Err(Error::Unsupported { backend: NAME, what }.into())
    }

    pub(super) fn open_own(&self, number: u32, asked: &OpenLane) -> Outcome<OwnLane<D>> {
        let preemptor = match asked.preemptor.map(|id| self.objects.preemptor(id)).transpose()? {
            Some(origin) => match &origin.object {
                Object::Preemptor { preemptor, .. } => Some(preemptor.clone()),
                _ => None,
            },
            None => None,
        };
        let priority = if asked.is_real_time { Priority::RealTime } else { Priority::BestEffort };
        let queue = self.host.device.queue(priority, preemptor.as_deref())?;
        let (checkpoints, outlet) = (self.objects.checkpoints.clone(), self.outlet.clone());
        let device = self.host.device.clone();
        Ok(OwnLane::open(number, device, queue, preemptor, outlet, checkpoints)?)
    }

    pub(super) fn run_own(&mut self, number: u32, run: &Run, outputs: Outputs<D>) -> Outcome<()> {
        let command = match &run.command {
            RemoteCommand::Record => None,
            command => match self.own_command(command) {
                Ok(command) => Some(command),
                Err(Fault::Device(error)) => {
                    self.own_lane(number)?.fail(&error);
                    return Ok(());
                }
                Err(protocol) => return Err(protocol),
            },
        };
        let resume = run.resume.map(|id| self.checkpoint(Id::from_bits(id)));
        let (seq, marks, resume) = (run.seq, run.marks, resume.transpose()?);
        let issue = match command {
            None => Issue::Record,
            Some(command) => Issue::Command { command, resume, marks, outputs },
        };
        let source = self.objects.source(&run.command)?;
        Ok(self.own_lane(number)?.issue(seq, issue, Some(source))?)
    }

    fn run_padded(&mut self, number: u32, run: RunPadded) -> Outcome<()> {
        let [rt_units, be_per_unit, be_blocks] = run.padding;
        let padding = Padding { rt_units, be_per_unit, be_blocks };
        let (launch, other) = (self.launch(&run.command)?, self.launch(&run.other)?);
        let checkpoint = self.checkpoint(Id::from_bits(run.checkpoint))?;
        self.objects.note_run(&run.command)?;
        self.objects.note_run(&run.other)?;
        let issue = Issue::Padded { launch, padding, other, checkpoint };
        let source = self.objects.source(&run.command)?;
        Ok(self.own_lane(number)?.issue(run.seq, issue, Some(source))?)
    }

    fn launch(&self, command: &RemoteCommand) -> Outcome<Launch<D>> {
        match self.own_command(command)? {
            Command::Launch(launch) => Ok(launch),
            _ => Err(Error::invalid("command", "must be a launch to run in part").into()),
        }
    }

    fn own_command(&self, command: &RemoteCommand) -> Outcome<Command<D>> {
        let task = self.objects.task(&self.host.device, command)?;
        match task.commands() {
            [command] => Ok(command.clone()),
            _ => Err(Error::invalid("command", "must be one, got several").into()),
        }
    }

    fn own_lane(&self, number: u32) -> Outcome<&OwnLane<D>> {
        match self.lanes.get(&number) {
            Some(OpenedLane { lane: Lane::Own(lane), .. }) => Ok(lane),
            _ => Err(no_lane(number).into()),
        }
    }
}

impl<D: Operators> Drop for Session<D> {
    /// Stops all that still runs of the session, so that its memory is released soon.
    fn drop(&mut self) {
        for preemptor in self.objects.preemptors() {
            // A lost device runs nothing any more.
            if preemptor.level() >= PreemptLevel::DeviceQueue {
                let _ = preemptor.evict();
            }
            if preemptor.level() >= PreemptLevel::All {
                let _ = preemptor.reset();
            }
        }
    }
}
