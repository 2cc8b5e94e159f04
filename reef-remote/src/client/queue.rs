//! A hardware queue of the server's, by its lane.

use super::connection::Connection;
use super::event::Event;
use super::lane::Lane;
use super::objects::{Graph, KernelSource};
use super::preemptor::Complete;
use super::remote::Remote;
use crate::error::NAME;
use crate::messages::{CloseLane, RemoteCommand, Run};
use reef_core::{Command, Copy, Drained, Error, Fill, Launch, Result, Seq};
use std::sync::Arc;
use std::thread::Thread;

/// A lane of the session.
#[derive(Debug)]
pub struct Queue {
    pub(super) connection: Arc<Connection>,
    pub(super) number: u32,
    pub(super) lane: Arc<Lane>,
    /// Position after the last command that was sent.
    pub(super) next: u64,
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
            Err(Error::Invalid(format!("{command:?} cannot be in a graph")))
        }
    }
}

fn launch_of(launch: &Launch<Remote>) -> RemoteCommand {
    match &launch.kernel().0 {
        KernelSource::Prepared(handle, index) => {
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

impl Queue {
    fn run(&mut self, seq: Seq, command: RemoteCommand) -> Result<()> {
        self.lane.completed()?;
        self.connection.post_on(self.number, &Run { seq: seq.0, command })?;
        self.next = seq.0 + 1;
        Ok(())
    }

    fn no_resume(resume: Option<&Complete>) -> Result<()> {
        match resume {
            None => Ok(()),
            Some(_) => {
                let what = "a part of a launch".into();
                Err(Error::Unsupported { backend: NAME, what })
            }
        }
    }
}

impl reef_core::Queue for Queue {
    type Backend = Remote;

    fn launch(
        &mut self,
        seq: Seq,
        launch: &Launch<Remote>,
        resume: Option<&Complete>,
    ) -> Result<()> {
        Self::no_resume(resume)?;
        self.run(seq, launch_of(launch))
    }

    fn launch_graph(&mut self, seq: Seq, graph: &Graph, resume: Option<&Complete>) -> Result<()> {
        Self::no_resume(resume)?;
        self.run(seq, graph_of(graph))
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Remote>) -> Result<()> {
        self.run(seq, copy_of(copy)?)
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Remote>) -> Result<()> {
        self.run(seq, fill_of(fill)?)
    }

    fn record(&mut self, seq: Seq, event: &Event) -> Result<()> {
        self.lane.record(seq.0, event.clone());
        self.run(seq, RemoteCommand::Record)
    }

    fn completed(&mut self) -> Result<Seq> {
        self.lane.completed().map(Seq)
    }

    /// Nothing that was sent is ever taken back, so this waits for all of it.
    fn try_drain(&mut self) -> Result<Option<Drained<Remote>>> {
        let resume_at = Seq(self.next);
        Ok(self.lane.has_drained(self.next)?.then_some(Drained {
            resume_at,
            partial: None,
            held: false,
        }))
    }

    fn wake(&mut self, thread: Thread) -> bool {
        self.lane.cursor.set_thread(thread);
        true
    }

    fn wake_at(&mut self, seq: Seq) {
        self.lane.cursor.wake_at(seq.0);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Without a session nothing of it runs any more.
        let _ = self.connection.call_on::<_, ()>(self.number, &CloseLane { lane: self.number });
        self.connection.lanes.close(self.number);
    }
}
