//! A hardware queue of the server's, by its lane.

use super::event::Event;
use super::graph::Graph;
use super::lane::{Lane, Mark};
use super::objects::{Handle, KernelSource};
use super::preemptor::Checkpoint;
use super::remote::Remote;
use super::transfers::{CopyKind, Inputs, Transfers};
use crate::messages::{
    AbandonLane, CHECKPOINT, CapBlocks, CloseLane, Drain, ReleaseHeld, RemoteCommand, Run,
    RunPadded, WakeAt,
};
use reef_core::dkp::Padding;
use reef_core::{Command, Copy, Drained, Error, Fill, Launch, Result, Seq};
use reef_wire::little_endian::U64;
use reef_wire::{Cold, Id};
use std::sync::Arc;
use std::thread::Thread;

/// A lane of the session.
#[derive(Debug)]
pub struct Queue {
    device: Remote,
    number: u32,
    lane: Arc<Lane>,
    /// Position after the last command.
    next: u64,
    /// Commands wait for a later message, or for the thread that sends.
    has_unsent: bool,
    /// Position up to which the server was told to say nothing.
    wanted: u64,
    /// Number of drains that were asked for, and the name for the record of the one that has no
    /// answer yet.
    drains: u64,
    draining: Option<Id>,
    is_abandoned: bool,
}

/// Returns a command as the server knows it.
///
/// # Errors
///
/// `Invalid` for a range outside of its buffer; `Unsupported` for what never reaches a queue.
pub(super) fn to_remote(command: &Command<Remote>) -> Result<RemoteCommand> {
    match command {
        Command::Launch(launch) => Ok(launch_of(launch)),
        Command::Graph(graph) => Ok(graph_of(graph)),
        Command::Copy(copy) => copy_of(copy),
        Command::Fill(fill) => fill_of(fill),
        Command::Record(_) | Command::Wait(_) | Command::Host(_) => {
            Err(Error::invalid("command", format!("cannot be in a graph, got {command:?}")))
        }
    }
}

pub(super) fn launch_of(launch: &Launch<Remote>) -> RemoteCommand {
    match &launch.kernel().0 {
        KernelSource::Prepared(handle, index, _) => {
            RemoteCommand::Prepared { launches: handle.id.bits(), index: *index }
        }
        KernelSource::Named(handle) => RemoteCommand::Raw {
            kernel: handle.id.bits(),
            grid: launch.grid(),
            block: launch.block(),
            args: launch.args().words().to_vec(),
        },
    }
}

fn graph_of(graph: &Graph) -> RemoteCommand {
    RemoteCommand::Graph { graph: graph.0.handle.id.bits() }
}

fn copy_of(copy: &Copy<Remote>) -> Result<RemoteCommand> {
    copy.from.check(copy.from_offset, copy.bytes)?;
    copy.to.check(copy.to_offset, copy.bytes)?;
    Ok(RemoteCommand::Copy {
        from: copy.from.id(),
        from_offset: copy.from_offset as u64,
        to: copy.to.id(),
        to_offset: copy.to_offset as u64,
        bytes: copy.bytes as u64,
        to_host: copy.to_host,
    })
}

fn fill_of(fill: &Fill<Remote>) -> Result<RemoteCommand> {
    fill.buffer.check(fill.offset, fill.bytes)?;
    Ok(RemoteCommand::Fill {
        buffer: fill.buffer.id(),
        offset: fill.offset as u64,
        bytes: fill.bytes as u64,
        word: fill.word,
    })
}

/// Finds the host memory that copies among these commands touch.
pub(super) fn transfers<'a>(commands: impl IntoIterator<Item = &'a Command<Remote>>) -> Transfers {
    let mut found = Transfers::default();
    for command in commands {
        match command {
            Command::Copy(copy) => {
                let kind = CopyKind { bytes: copy.bytes, to_host: copy.to_host };
                found.add((&copy.from, copy.from_offset), (&copy.to, copy.to_offset), kind);
            }
            Command::Fill(fill) => fill.buffer.expose(),
            _ => {}
        }
    }
    found.bounded()
}

impl Queue {
    pub(super) fn new(device: Remote, number: u32, lane: Arc<Lane>) -> Self {
        let (next, has_unsent, wanted) = (0, false, 0);
        let (drains, draining, is_abandoned) = (0, None, false);
        Self { device, number, lane, next, has_unsent, wanted, drains, draining, is_abandoned }
    }

    fn run(
        &mut self,
        seq: Seq,
        command: RemoteCommand,
        resume: Option<&Checkpoint>,
        events: [Option<&Event>; 2],
        transfers: &Transfers,
    ) -> Result<()> {
        self.begin(seq)?;
        if let Some(record) = resume {
            self.lane.mark(seq.0, Mark::Left(record.left.clone()));
        }
        let resume = resume.map(Checkpoint::id).transpose()?;
        let marks = events.map(|event| event.is_some());
        for (event, mark) in events.into_iter().zip([Mark::Begin, Mark::End]) {
            if let Some(event) = event {
                self.lane.mark(seq.0, mark(event.clone()));
            }
        }
        let (outputs, returned) = transfers.outputs();
        for output in returned {
            self.lane.mark(seq.0, Mark::Output(output));
        }
        let Inputs { sections: inputs, bytes, held } = transfers.inputs()?;
        let run = Run { seq: seq.0, command, resume, marks, inputs, outputs };
        let sent = self.send(&run, &bytes);
        drop(held);
        sent
    }

    /// The device waits for the first command of an idle lane. The others may go together: the
    /// caller looks, or asks to be woken, when it has launched them.
    fn send<M: Cold>(&mut self, message: &M, bytes: &[u8]) -> Result<()> {
        let is_first = self.lane.completed()? + 1 >= self.next;
        self.has_unsent = !is_first;
        let connection = &self.device.0;
        if is_first {
            connection.post_with(self.number, message, bytes)
        } else {
            connection.post_soon(self.number, message, bytes)
        }
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.has_unsent) {
            self.device.0.flush();
        }
    }

    /// A command follows, so a drain that has no answer yet gets none.
    fn begin(&mut self, seq: Seq) -> Result<()> {
        self.lane.completed()?;
        if let Some(id) = self.draining.take() {
            self.device.0.release(id);
        }
        self.next = seq.0 + 1;
        Ok(())
    }

    /// Nothing that was sent to a shared device is ever taken back, so this waits for all of it.
    fn try_drain_shared(&mut self) -> Result<Option<Drained<Remote>>> {
        let resume_at = Seq(self.next);
        Ok(self.lane.has_drained(self.next)?.then_some(Drained {
            resume_at,
            partial: None,
            held: false,
        }))
    }
}

impl reef_core::Queue for Queue {
    type Backend = Remote;

    fn launch(
        &mut self,
        seq: Seq,
        launch: &Launch<Remote>,
        resume: Option<&Checkpoint>,
    ) -> Result<()> {
        self.run(seq, launch_of(launch), resume, [None; 2], &Transfers::default())
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        rt: &Launch<Remote>,
        padding: &Padding,
        be: &Launch<Remote>,
        record: &Checkpoint,
    ) -> Result<()> {
        let checkpoint = record.id()?;
        self.begin(seq)?;
        self.lane.mark(seq.0, Mark::Left(record.left.clone()));
        self.lane.pad(seq.0);
        let padding = [padding.rt_units, padding.be_per_unit, padding.be_blocks];
        let (command, other, seq) = (launch_of(rt), launch_of(be), seq.0);
        self.send(&RunPadded { seq, command, padding, other, checkpoint }, &[])
    }

    fn launch_graph(&mut self, seq: Seq, graph: &Graph, resume: Option<&Checkpoint>) -> Result<()> {
        self.run(seq, graph_of(graph), resume, [None; 2], &graph.0.transfers)
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Remote>) -> Result<()> {
        self.run(seq, copy_of(copy)?, None, [None; 2], &transfers([&Command::Copy(copy.clone())]))
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Remote>) -> Result<()> {
        fill.buffer.expose();
        self.run(seq, fill_of(fill)?, None, [None; 2], &Transfers::default())
    }

    fn record(&mut self, seq: Seq, event: &Event) -> Result<()> {
        self.run(seq, RemoteCommand::Record, None, [None, Some(event)], &Transfers::default())
    }

    /// The server records both times, so this is one message.
    fn launch_between(
        &mut self,
        seq: Seq,
        command: &Command<Remote>,
        events: [Option<&Event>; 2],
    ) -> Result<bool> {
        if matches!(command, Command::Record(_) | Command::Wait(_) | Command::Host(_)) {
            return Ok(false);
        }
        let remote = to_remote(command)?;
        match command {
            Command::Graph(graph) => self.run(seq, remote, None, events, &graph.0.transfers)?,
            _ => self.run(seq, remote, None, events, &transfers([command]))?,
        }
        Ok(true)
    }

    fn completed(&mut self) -> Result<Seq> {
        self.flush();
        self.lane.completed().map(Seq)
    }

    fn padding_ended(&mut self) -> Result<Seq> {
        self.flush();
        self.lane.padding_ended().map(Seq)
    }

    /// The first call asks the server. Its answer unparks the thread.
    fn try_drain(&mut self) -> Result<Option<Drained<Remote>>> {
        if !self.device.0.facts.is_own {
            return self.try_drain_shared();
        }
        self.lane.completed()?;
        let Some(id) = self.draining else {
            let id = self.device.0.mint(CHECKPOINT);
            (self.drains, self.draining) = (self.drains + 1, Some(id));
            (self.has_unsent, self.wanted) = (false, 0);
            let (ticket, checkpoint) = (U64::new(self.drains), U64::new(id.bits()));
            self.device.0.post_hot_on(self.number, &Drain { ticket, checkpoint })?;
            return Ok(None);
        };
        let Some(returned) = self.lane.take_returned(self.drains) else { return Ok(None) };
        self.draining = None;
        let (resume_at, held) = (Seq(returned.resume_at.get()), returned.is_held.get() != 0);
        if !held {
            self.lane.unmark(resume_at.0);
        }
        let partial = match returned.left.get().checked_sub(1) {
            Some(left) => {
                let handle = Handle { connection: self.device.0.clone(), id };
                Some(Checkpoint::new(Some(handle), left as u32))
            }
            None => {
                self.device.0.release(id);
                None
            }
        };
        Ok(Some(Drained { resume_at, partial, held }))
    }

    fn release_held(&mut self) {
        // An error is the session's, and the lane's next answer.
        let _ = self.device.0.post_on(self.number, &ReleaseHeld {});
    }

    fn abandon(&mut self) {
        let _ = self.device.0.post_on(self.number, &AbandonLane {});
        self.is_abandoned = true;
    }

    fn cap_blocks(&mut self, blocks: Option<u32>) {
        let blocks = U64::new(blocks.unwrap_or(0).into());
        let _ = self.device.0.post_hot_on(self.number, &CapBlocks { blocks });
    }

    fn wake(&mut self, thread: Thread) -> bool {
        self.lane.cursor.set_thread(thread);
        true
    }

    /// The server tells of the next command that ends, or of a later one that it was told.
    fn wake_at(&mut self, seq: Seq) {
        self.lane.cursor.wake_at(seq.0);
        let done = self.lane.cursor.done();
        let told = if self.wanted > done { self.wanted } else { done + 1 };
        if self.device.0.facts.is_own && seq.0 > done && seq.0 != told {
            self.wanted = seq.0;
            self.has_unsent = false;
            // An error is the session's, and the lane's next answer.
            let _ = self.device.0.post_hot_on(self.number, &WakeAt { seq: U64::new(seq.0) });
        }
        self.flush();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.is_abandoned {
            // Without a session nothing of it runs any more.
            let close = CloseLane { lane: self.number };
            let _ = self.device.0.call_aside::<_, ()>(self.number, &close);
        }
        self.device.0.lanes.close(self.number);
    }
}
