//! Makes a session of events and a state.

use super::state::{Progress, RecordState, State, check_facts};
use crate::error::invalid;
use crate::messages::{Change, EVICT, Event, Facts, MakeGraph, NamedKernel, OpenLane, RESET};
use crate::server::objects::{Fault, Objects, Outcome};
use crate::server::origin::{Memory, Object, Origin, Record, Source};
use crate::server::own_lane::{Quiet, Takeback};
use crate::server::session::{Lane, Session};
use reef_core::{Blocks, Error, Preemptor};
use reef_op::Operators;
use reef_wire::{Id, codec};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Objects that were made, by their places in the order.
pub(super) type ByOrder<D> = HashMap<u64, Arc<Origin<D>>>;

/// Makes the session's objects, lanes and records.
pub(super) struct Maker<'a, D: Operators> {
    pub(super) session: &'a mut Session<D>,
    pub(super) made: &'a mut ByOrder<D>,
}

fn differs(what: &str) -> Fault {
    Error::invalid("device at the other server", what.to_owned()).into()
}

/// Text of an error, for the other server.
pub(super) fn reason(fault: &Fault) -> String {
    match fault {
        Fault::Protocol(error) => error.to_string(),
        Fault::Device(error) => error.to_string(),
    }
}

impl<D: Operators> Maker<'_, D> {
    /// Repeats an event.
    ///
    /// # Errors
    ///
    /// The part that differs, or what the device refuses.
    pub(super) fn event(&mut self, event: Event) -> Outcome<()> {
        let Event { order, id, what } = event;
        self.session.objects.skip_to(order)?;
        let lane = || u32::try_from(id).map_err(|_| differs(&format!("there is no lane {id}")));
        match what {
            Change::Buffer { address, bytes, len, is_host } => {
                if bytes != 0 && bytes != len || bytes == 0 && is_host && len != 0 {
                    return Err(differs(&format!("a buffer of {bytes} bytes has {len}")));
                }
                self.session.allocate(id, [address, bytes, len], is_host)?;
            }
            Change::Launches { operation, shapes } => {
                let (launches, needs) = self.session.prepare(&operation)?;
                if launches.shapes != shapes {
                    let text = "an operation has other launches there (another plan)";
                    return Err(differs(text));
                }
                self.session.objects.add(id, launches.object(operation), needs)?;
            }
            Change::Kernel { name } => drop(self.session.named_kernel(&NamedKernel { id, name })?),
            Change::Graph { commands } => {
                drop(self.session.make_graph(&MakeGraph { id, commands })?)
            }
            Change::Preemptor { level, facts } => {
                if self.session.make_preemptor(id, level)? != facts {
                    return Err(differs("a preemptor works in another way"));
                }
            }
            Change::Lane { is_real_time, preemptor } => {
                self.session.open_lane(lane()?, &OpenLane { is_real_time, preemptor })?;
            }
            Change::Released if id <= u64::from(u32::MAX) => {
                drop(self.session.remove_lane(lane()?)?);
                return Ok(());
            }
            Change::Released => return self.session.objects.free(id),
        }
        let origin = match self.session.lanes.get(&u32::try_from(id).unwrap_or(0)) {
            Some(opened) => opened.origin.clone(),
            None => self.session.objects.origin(id)?.clone(),
        };
        self.made.insert(order, origin);
        Ok(())
    }

    /// Compares the device with the one that the client knows.
    ///
    /// # Errors
    ///
    /// The part that differs.
    fn check(&self, state: &State, facts: &Facts) -> Outcome<()> {
        check_facts(&state.facts, facts).map_err(invalid)?;
        for (question, answer) in &state.answers {
            let question = codec::read(question)?;
            let text = format!("answers otherwise about {question:?}");
            if self.session.ask(question)? != *answer {
                let text: String = text.chars().take(120).collect();
                return Err(differs(&text));
            }
        }
        Ok(())
    }

    /// Makes all that no event makes.
    ///
    /// # Errors
    ///
    /// The part that differs, or what the device refuses.
    pub(super) fn finish(&mut self, state: &State, facts: &Facts) -> Outcome<()> {
        for event in state.events.clone() {
            self.event(event)?;
        }
        self.check(state, facts)?;
        for (id, record) in &state.records {
            let record = self.record(record)?;
            self.session.objects.checkpoints.lock().insert(Id::from_bits(*id), record)?;
        }
        for &(order, last) in &state.preemptors {
            self.stop(order, last)?;
        }
        if state.lanes.len() != self.session.lanes.len() {
            let (must, got) = (self.session.lanes.len(), state.lanes.len());
            return Err(differs(&format!("lanes: must be {must}, got {got}")));
        }
        for (number, progress) in &state.lanes {
            self.lane(*number, progress)?;
        }
        for (question, answer) in &state.answers {
            self.session.answers.add(question.clone(), answer.clone());
        }
        let staged = 4 * state.staged.len() as u64;
        self.session.staged_charge.add(staged).map_err(invalid)?;
        self.session.staged = state.staged.iter().map(|bits| f32::from_bits(*bits)).collect();
        self.session.has_trace = state.has_trace;
        if state.has_trace {
            self.session.host.device.set_trace(true);
        }
        Ok(())
    }

    fn stop(&self, order: u64, last: u64) -> Outcome<()> {
        let origin = self.made.get(&order);
        let Some(Object::Preemptor { preemptor, step, .. }) = origin.map(|of| &of.object) else {
            return Err(differs("a preemptor that was not made"));
        };
        if [EVICT, RESET].contains(&last) {
            preemptor.evict()?;
        }
        if last == RESET {
            preemptor.reset()?;
        }
        step.store(last, Ordering::Relaxed);
        Ok(())
    }

    /// A record of which these blocks are left.
    fn record(&self, record: &RecordState) -> Outcome<Record<D>> {
        let RecordState { command: migrated, blocks } = record;
        let named = migrated.origins.iter().map(|order| {
            let origin = self.made.get(order);
            Ok(origin.ok_or_else(|| differs("a command that was not made"))?.clone())
        });
        let origins = named.collect::<Outcome<_>>()?;
        let source = Source { command: migrated.command.clone(), origins };
        let device = &self.session.host.device;
        let command = Objects::command_of(device, &source)?;
        let blocks = Blocks::try_from(blocks.clone())?;
        let checkpoint = device.checkpoint_of(&command, &blocks)?;
        Ok(Record { checkpoint, source, _held: None })
    }

    fn lane(&self, number: u32, progress: &Progress) -> Outcome<()> {
        let opened = self.session.lanes.get(&number);
        match (opened.map(|opened| &opened.lane), progress) {
            (Some(Lane::Shared(lane)), Progress::Shared { ended, has_failed }) => {
                Ok(lane.restore(Duration::from_nanos(*ended), *has_failed)?)
            }
            (Some(Lane::Own(lane)), Progress::Own { told, wanted, blocks, has_failed, taken }) => {
                let (told, wanted, blocks) = (*told, *wanted, *blocks);
                let has_failed = *has_failed;
                let taken = taken.as_ref().map(|(resume_at, partial)| {
                    let partial = partial.as_ref().map(|record| self.record(record)).transpose()?;
                    Ok::<_, Fault>(Takeback { resume_at: *resume_at, partial })
                });
                let taken = taken.transpose()?;
                lane.restore(Quiet { told, wanted, blocks, has_failed, taken });
                Ok(())
            }
            _ => Err(differs(&format!("there is no lane {number} of this sort"))),
        }
    }
}

/// Returns the memory that was made at a place of the order.
pub(super) fn memory_of<D: Operators>(made: &ByOrder<D>, order: u64) -> Outcome<&Memory<D>> {
    let memory = made.get(&order).and_then(|origin| origin.memory());
    memory.ok_or_else(|| differs(&format!("memory {order} was not made")))
}
