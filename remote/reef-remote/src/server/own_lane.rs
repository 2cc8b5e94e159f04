//! A lane of a session's own device: a hardware queue, and a thread that tells how far it is.
//!
//! The thread that reads frames launches, the lane's thread waits for the device. Both look at the
//! queue under one lock, and push what has ended in order.
//!
//! A command of the client at `seq` has the last of four positions of the hardware queue, so that
//! the records of its times have some as well.

use super::objects::{Checkpoints, Outputs, read_outputs};
use super::origin::{Origin, Record, Source};
use super::shared::{LaneThread, Outlet};
use crate::error::{NAME, RemoteError, invalid};
use crate::messages::{Advance, Drain, Failed, PaddingEnded, Returned};
use parking_lot::Mutex;
use reef_core::dkp::Padding;
use reef_core::{
    Checkpoint as _, Command, Drained, Error, Event as _, Launch, Queue as _, Result, Seq, Span,
    issue,
};
use reef_op::Operators;
use reef_wire::little_endian::U64;
use reef_wire::{Cold, Hot, Id, hot_bytes};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

/// Positions of the hardware queue for each command of the client.
const POSITIONS: u64 = 4;
/// Time from one poll of a device that wakes no thread to the next.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// Maximum number of commands of a lane that have not ended.
const MAX_OUTSTANDING: u64 = 1 << 16;

/// Work of a lane.
#[derive(Debug)]
pub(super) enum Issue<D: Operators> {
    Record,
    Command {
        command: Command<D>,
        resume: Option<D::Checkpoint>,
        marks: [bool; 2],
        outputs: Outputs<D>,
    },
    Padded {
        launch: Launch<D>,
        padding: Padding,
        other: Launch<D>,
        checkpoint: D::Checkpoint,
    },
}

/// A lane, as the thread that reads frames sees it. Dropping it gives it up.
#[derive(Debug)]
pub(super) struct OwnLane<D: Operators> {
    inner: Arc<Inner<D>>,
    thread: Thread,
}

#[derive(Debug)]
struct Inner<D: Operators> {
    number: u32,
    device: D,
    outlet: Arc<Outlet>,
    checkpoints: Checkpoints<D>,
    state: Mutex<State<D>>,
}

/// Work that the server has taken back by itself, and that the client has not asked for yet.
#[derive(Debug)]
pub(super) struct Takeback<D: Operators> {
    pub(super) resume_at: u64,
    /// Blocks that are left of the command there.
    pub(super) partial: Option<Record<D>>,
}

/// Progress of a lane that the device has nothing of.
#[derive(Debug)]
pub(super) struct Quiet<D: Operators> {
    /// Position before which all commands have ended.
    pub(super) told: u64,
    pub(super) wanted: u64,
    pub(super) blocks: Option<u32>,
    pub(super) has_failed: bool,
    pub(super) taken: Option<Takeback<D>>,
}

#[derive(Debug)]
struct State<D: Operators> {
    /// Takeback out by the lane's thread when the lane ends.
    queue: Option<D::Queue>,
    /// Keeps what stops the queue.
    _preemptor: Option<Arc<D::Preemptor>>,
    /// Commands that have not ended, in order.
    commands: VecDeque<(u64, Source<D>)>,
    /// Commands of which more than their end is told, in order.
    notes: VecDeque<Note<D>>,
    /// Events that no command has.
    events: Vec<D::Event>,
    /// Position before which the client knows that all has ended, and after the last command.
    told: u64,
    next: u64,
    /// Position up to which the client wants no word.
    wanted: u64,
    draining: Option<Drain>,
    /// Work that was taken back before the client has asked.
    taken: Option<Takeback<D>>,
    /// Upper bound of the lane's blocks.
    blocks: Option<u32>,
    has_failed: bool,
    /// Commands whose padding may not have ended, in order.
    padded: VecDeque<u64>,
    /// The device wakes no thread.
    has_to_poll: bool,
    closing: Option<Closing>,
}

#[derive(Debug)]
struct Note<D: Operators> {
    seq: u64,
    events: [Option<D::Event>; 2],
    checkpoint: Option<D::Checkpoint>,
    outputs: Outputs<D>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// The client waits for a reply with this number.
    Reply(u64),
    /// Nothing that runs is waited for.
    Abandon,
}

/// Last position of a command of the client.
fn last(seq: u64) -> Seq {
    Seq(seq * POSITIONS + (POSITIONS - 1))
}

impl<D: Operators> OwnLane<D> {
    pub(super) fn open(
        number: u32,
        device: D,
        mut queue: D::Queue,
        preemptor: Option<Arc<D::Preemptor>>,
        outlet: Arc<Outlet>,
        checkpoints: Checkpoints<D>,
    ) -> Result<Self> {
        let state = Mutex::new(State {
            queue: None,
            _preemptor: preemptor,
            commands: VecDeque::new(),
            notes: VecDeque::new(),
            events: Vec::new(),
            told: 0,
            next: 0,
            wanted: 0,
            draining: None,
            taken: None,
            blocks: None,
            has_failed: false,
            padded: VecDeque::new(),
            has_to_poll: false,
            closing: None,
        });
        let entered = outlet.enter()?;
        let inner = Arc::new(Inner { number, device, outlet, checkpoints, state });
        // Until it has its queue the thread waits for this lock.
        let mut locked = inner.state.lock();
        let spawned = thread::Builder::new().name(format!("reef-lane-{number}")).spawn({
            let inner = inner.clone();
            move || inner.run(entered)
        });
        let spawned = spawned.map_err(|e| Error::host("a thread for a lane", &e))?;
        let thread = spawned.thread().clone();
        locked.has_to_poll = !queue.wake(thread.clone());
        locked.queue = Some(queue);
        drop(locked);
        Ok(Self { inner, thread })
    }

    /// Hands a command to the queue. An error of the device is the lane's.
    ///
    /// # Errors
    ///
    /// `Protocol` if the client has sent more than it may.
    pub(super) fn issue(
        &self,
        seq: u64,
        issue: Issue<D>,
        source: Option<Source<D>>,
    ) -> reef_wire::Result<()> {
        let mut state = self.inner.state.lock();
        // A queue keeps what a command needs by its position, and there is one for each.
        if seq < state.next || seq - state.told >= MAX_OUTSTANDING {
            let (next, told, most) = (state.next, state.told, MAX_OUTSTANDING);
            return Err(reef_wire::Error::Protocol(format!(
                "position {seq} of a lane: must be from {next} on, and in the {most} from {told} on"
            )));
        }
        state.draining = None;
        // Commands behind others that were taken back are taken back with them.
        if state.has_failed || state.taken.is_some() {
            return Ok(());
        }
        if matches!(issue, Issue::Padded { .. }) {
            state.padded.push_back(seq);
        }
        state.commands.extend(source.map(|source| (seq, source)));
        let was_idle = state.told == state.next;
        let issued = state.issue(&self.inner.device, seq, issue);
        let issued =
            issued.and_then(|()| if was_idle { self.inner.poll(&mut state) } else { Ok(()) });
        if let Err(error) = issued {
            self.inner.fail(&mut state, &error);
        }
        if was_idle && state.wants_polls() {
            self.thread.unpark();
        }
        Ok(())
    }

    pub(super) fn drain(&self, drain: &Drain) {
        let mut state = self.inner.state.lock();
        (state.draining, state.wanted) = (Some(*drain), 0);
        drop(state);
        self.retry_drain();
    }

    /// Looks again whether what was asked back has stopped.
    pub(super) fn retry_drain(&self) {
        let mut state = self.inner.state.lock();
        if state.draining.is_some() {
            self.poll(&mut state);
        }
    }

    /// Tells the client nothing more of commands that end before all before `seq` have.
    pub(super) fn wake_at(&self, seq: u64) {
        let mut state = self.inner.state.lock();
        state.wanted = seq;
        self.poll(&mut state);
    }

    fn poll(&self, state: &mut State<D>) {
        if state.has_failed {
            return;
        }
        if let Err(error) = self.inner.poll(state) {
            self.inner.fail(state, &error);
        }
        if state.wants_polls() {
            self.thread.unpark();
        }
    }

    pub(super) fn release_held(&self) {
        if let Some(queue) = &mut self.inner.state.lock().queue {
            queue.release_held();
        }
    }

    pub(super) fn cap_blocks(&self, blocks: Option<u32>) {
        let mut state = self.inner.state.lock();
        state.blocks = blocks;
        if let Some(queue) = &mut state.queue {
            queue.cap_blocks(blocks);
        }
    }

    /// Ends the lane with an error, of which the client is told.
    pub(super) fn fail(&self, error: &Error) {
        self.inner.fail(&mut self.inner.state.lock(), error);
    }

    /// Ends the lane. The reply follows when all that runs has ended.
    pub(super) fn close(self, request: u64) {
        self.end(Closing::Reply(request));
    }

    fn end(&self, closing: Closing) {
        self.inner.state.lock().closing.get_or_insert(closing);
        self.thread.unpark();
    }

    /// Takes back what a stopped queue still has. Returns whether the device has nothing of the
    /// lane any more: what it ran has ended, and the client will be told.
    ///
    /// # Errors
    ///
    /// `Unsupported` for work that the device keeps.
    pub(super) fn try_quiesce(&self) -> Result<bool> {
        let mut state = self.inner.state.lock();
        self.poll(&mut state);
        if state.has_failed || state.queue.is_none() {
            return Ok(true);
        }
        let is_quiet = self.quiesce(&mut state);
        if state.wants_polls() {
            self.thread.unpark(); // commands have ended since, but not their padding
        }
        is_quiet
    }

    fn quiesce(&self, state: &mut State<D>) -> Result<bool> {
        self.inner.tell_completed(state)?;
        if state.draining.is_some() {
            return Ok(false);
        }
        if state.told == state.next {
            self.inner.tell_padding(state)?;
            return Ok(state.padded.is_empty());
        }
        let Some(drained) = state.queue()?.try_drain()? else { return Ok(false) };
        if drained.held {
            let what = "moving work that waits on the device behind a gate".into();
            return Err(Error::Unsupported { backend: NAME, what });
        }
        self.inner.tell_completed(state)?;
        if state.told < state.next {
            state.taken = Some(state.take_back(drained)?);
        }
        self.inner.tell_padding(state)?;
        Ok(state.padded.is_empty())
    }

    /// Returns the objects of its commands.
    pub(super) fn needed(&self) -> Vec<Arc<Origin<D>>> {
        let state = self.inner.state.lock();
        let commands = state.commands.iter().map(|(_, source)| source);
        let taken = state.taken.iter().filter_map(|taken| taken.partial.as_ref());
        let sources = commands.chain(taken.map(|record| &record.source));
        sources.flat_map(|source| source.origins.iter().cloned()).collect()
    }

    /// Returns the progress of a lane that the device has nothing of.
    pub(super) fn quiet(&self) -> Quiet<D> {
        let state = self.inner.state.lock();
        let taken = state.taken.as_ref().map(|Takeback { resume_at, partial }| {
            let record = |of: &Record<D>| Record {
                checkpoint: of.checkpoint.clone(),
                source: of.source.clone(),
                _held: None,
            };
            Takeback { resume_at: *resume_at, partial: partial.as_ref().map(record) }
        });
        let State { told, wanted, blocks, has_failed, .. } = *state;
        Quiet { told, wanted, blocks, has_failed, taken }
    }

    /// Continues a lane of another server, before its first command.
    pub(super) fn restore(&self, quiet: Quiet<D>) {
        let Quiet { told, wanted, blocks, has_failed, taken } = quiet;
        let mut state = self.inner.state.lock();
        (state.told, state.next, state.wanted) = (told, told, wanted);
        (state.has_failed, state.taken, state.blocks) = (has_failed, taken, blocks);
        if let (Some(queue), Some(_)) = (&mut state.queue, blocks) {
            queue.cap_blocks(blocks);
        }
    }

    /// A block that ran, with the client's position of its command.
    pub(super) fn client_span(mut span: Span) -> Span {
        span.seq = Seq(span.seq.0 / POSITIONS);
        span
    }
}

impl<D: Operators> Drop for OwnLane<D> {
    fn drop(&mut self) {
        self.end(Closing::Abandon);
    }
}

impl<D: Operators> State<D> {
    /// Returns whether something of the device is to be told.
    fn is_waiting(&self) -> bool {
        !self.has_failed && (self.told != self.next || self.draining.is_some())
    }

    /// Returns whether blocks run, or may, next to a command that has ended: no device wakes a
    /// thread for their end.
    fn has_late_padding(&self) -> bool {
        !self.has_failed && self.padded.front().is_some_and(|seq| *seq < self.told)
    }

    /// Returns whether the lane's thread has to poll the device.
    fn wants_polls(&self) -> bool {
        (self.has_to_poll && self.is_waiting()) || self.has_late_padding()
    }

    /// Position of the hardware queue of which the client is told.
    fn target(&self) -> Seq {
        let next = if self.wanted > self.told { self.wanted.min(self.next) } else { self.told + 1 };
        Seq(next.max(self.told + 1) * POSITIONS)
    }

    fn queue(&mut self) -> Result<&mut D::Queue> {
        self.queue.as_mut().ok_or(Error::state("a request of a lane", "the lane has ended"))
    }

    fn event(&mut self, device: &D) -> Result<D::Event> {
        self.events.pop().map_or_else(|| device.event(), Ok)
    }

    /// Forgets the commands that were taken back, but for the blocks that are left of the first.
    fn take_back(&mut self, drained: Drained<D>) -> Result<Takeback<D>> {
        let Drained { resume_at: Seq(resume_at), partial, .. } = drained;
        // A queue that has had nothing yet resumes at its beginning.
        let resume_at = (resume_at / POSITIONS).max(self.told);
        let mut source = None;
        self.commands.retain(|(seq, of)| {
            if *seq == resume_at {
                source = Some(of.clone());
            }
            *seq < resume_at
        });
        self.notes.retain(|note| note.seq < resume_at);
        self.padded.retain(|seq| *seq < resume_at);
        self.next = self.told;
        let record = |checkpoint| {
            let source =
                source.ok_or(Error::state("reading the blocks of a command", "it is not there"))?;
            Ok::<_, Error>(Record { checkpoint, source, _held: None })
        };
        Ok(Takeback { resume_at, partial: partial.map(record).transpose()? })
    }

    fn issue(&mut self, device: &D, seq: u64, what: Issue<D>) -> Result<()> {
        self.next = seq + 1;
        let mut note = Note { seq, events: [None, None], checkpoint: None, outputs: Vec::new() };
        match what {
            Issue::Record => {
                let event = self.event(device)?;
                self.queue()?.record(last(seq), &event)?;
                note.events[1] = Some(event);
            }
            Issue::Command { command, resume, marks: [false, false], outputs } => {
                issue(&command, last(seq), resume.as_ref(), self.queue()?)?;
                if resume.is_none() && outputs.is_empty() {
                    return Ok(());
                }
                (note.checkpoint, note.outputs) = (resume, outputs);
            }
            Issue::Command { command, marks, outputs, .. } => {
                note.outputs = outputs;
                for (event, is_wanted) in note.events.iter_mut().zip(marks) {
                    *event = is_wanted.then(|| self.event(device)).transpose()?;
                }
                self.issue_between(seq, &command, note.events.each_ref().map(Option::as_ref))?;
            }
            Issue::Padded { launch, padding, other, checkpoint } => {
                self.queue()?.launch_padded(last(seq), &launch, &padding, &other, &checkpoint)?;
                note.checkpoint = Some(checkpoint);
            }
        }
        self.notes.push_back(note);
        Ok(())
    }

    fn issue_between(
        &mut self,
        seq: u64,
        command: &Command<D>,
        events: [Option<&D::Event>; 2],
    ) -> Result<()> {
        let queue = self.queue()?;
        if queue.launch_between(last(seq), command, events)? {
            return Ok(());
        }
        let Seq(end) = last(seq);
        let [begins, ends] = events;
        begins.map_or(Ok(()), |event| queue.record(Seq(end - 2), event))?;
        let at = Seq(end - u64::from(ends.is_some()));
        issue(command, at, None, queue)?;
        ends.map_or(Ok(()), |event| queue.record(Seq(end), event))
    }
}

impl<D: Operators> Inner<D> {
    /// Body of the lane's thread.
    fn run(&self, _entered: LaneThread) {
        loop {
            let mut state = self.state.lock();
            if let Some(closing) = state.closing {
                let queue = state.queue.take();
                drop(state);
                return self.close(queue, closing);
            }
            let polled = if state.has_failed { Ok(()) } else { self.poll(&mut state) };
            if let Err(error) = polled {
                self.fail(&mut state, &error);
            }
            let polls = state.wants_polls();
            drop(state);
            self.outlet.flush();
            if polls { thread::sleep(POLL_INTERVAL) } else { thread::park() }
        }
    }

    fn close(&self, queue: Option<D::Queue>, closing: Closing) {
        let Some(mut queue) = queue else { return };
        match closing {
            Closing::Abandon => {
                queue.abandon();
                drop(queue);
            }
            Closing::Reply(request) => {
                drop(queue); // waits
                self.outlet.reply(request);
            }
        }
    }

    /// Tells what has ended and was taken back, and asks to be woken for more.
    fn poll(&self, state: &mut State<D>) -> Result<()> {
        self.poll_commands(state)?;
        self.tell_padding(state)
    }

    fn poll_commands(&self, state: &mut State<D>) -> Result<()> {
        loop {
            if state.draining.is_some() || state.queue()?.completed()? >= state.target() {
                self.tell_completed(state)?;
                self.tell_drained(state)?;
            }
            if state.told == state.next {
                return Ok(());
            }
            let target = state.target();
            let queue = state.queue()?;
            queue.wake_at(target);
            if queue.completed()? < target {
                return Ok(());
            }
        }
    }

    fn tell_completed(&self, state: &mut State<D>) -> Result<()> {
        let Seq(done) = state.queue()?.completed()?;
        let done = (done / POSITIONS).min(state.next);
        while state.commands.front().is_some_and(|(seq, _)| *seq < done) {
            state.commands.pop_front();
        }
        while state.notes.front().is_some_and(|note| note.seq < done) {
            let Some(Note { seq, events, checkpoint, outputs }) = state.notes.pop_front() else {
                break;
            };
            let outputs = read_outputs(&self.device, &outputs)?;
            let at = |event: &Option<D::Event>| {
                let at = event.as_ref().and_then(D::Event::reached).unwrap_or_default();
                U64::new(self.outlet.time(at).as_nanos() as u64)
            };
            let [began, ended] = events.each_ref().map(at);
            let left = U64::new(checkpoint.map_or(0, |record| record.remaining()).into());
            self.push(&Advance { done: U64::new(seq + 1), began, ended, left }, &outputs);
            state.told = seq + 1;
            state.events.extend(events.into_iter().flatten());
        }
        if done > state.told {
            let none = U64::new(0);
            let advance = Advance { done: U64::new(done), began: none, ended: none, left: none };
            self.push(&advance, &[]);
            state.told = done;
        }
        Ok(())
    }

    /// Tells which padding has ended, of commands that have.
    fn tell_padding(&self, state: &mut State<D>) -> Result<()> {
        if !state.has_late_padding() {
            return Ok(());
        }
        let Seq(ended) = state.queue()?.padding_ended()?;
        let mut last = None;
        while let Some(seq) = state.padded.pop_front_if(|seq| *seq < ended / POSITIONS) {
            last = Some(seq);
        }
        if let Some(seq) = last {
            self.push(&PaddingEnded { seq: U64::new(seq + 1) }, &[]);
        }
        Ok(())
    }

    fn tell_drained(&self, state: &mut State<D>) -> Result<()> {
        let Some(drain) = state.draining else { return Ok(()) };
        let (taken, held) = match state.taken.take() {
            Some(taken) => (taken, false),
            None => {
                let Some(drained) = state.queue()?.try_drain()? else { return Ok(()) };
                self.tell_completed(state)?;
                if drained.held {
                    let resume_at = (drained.resume_at.0 / POSITIONS).max(state.told);
                    (Takeback { resume_at, partial: None }, true)
                } else {
                    (state.take_back(drained)?, false)
                }
            }
        };
        state.draining = None;
        let left = match taken.partial {
            Some(record) => {
                let left = u64::from(record.checkpoint.remaining()) + 1;
                let id = Id::from_bits(drain.checkpoint.get());
                self.checkpoints.lock().insert(id, record).map_err(|e| invalid(e.to_string()))?;
                left
            }
            None => 0,
        };
        let (resume_at, left) = (U64::new(taken.resume_at), U64::new(left));
        let (ticket, is_held) = (drain.ticket, U64::new(held.into()));
        self.push(&Returned { ticket, resume_at, left, is_held }, &[]);
        Ok(())
    }

    fn push<M: Hot>(&self, message: &M, bytes: &[u8]) {
        // Errors end the session, and this lane with it.
        let _ = self.outlet.push(M::OP, self.number, &[hot_bytes(message), bytes]);
    }

    fn fail(&self, state: &mut State<D>, error: &Error) {
        if std::mem::replace(&mut state.has_failed, true) {
            return;
        }
        let failed = Failed { error: RemoteError::from(error) };
        if let Ok(body) = failed.to_bytes() {
            let _ = self.outlet.push(Failed::OP, self.number, &[&body]);
        }
    }
}
