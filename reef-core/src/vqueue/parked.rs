//! A queue that was taken off its device: what is left of its commands.

use crate::backend::blocks::Blocks;
use crate::backend::command::Command;
use crate::backend::error::{Error, Result};
use crate::backend::info::Seq;
use crate::backend::types::Backend;

/// Positions from here on are refused: a queue could not count its commands.
const MAX_COMPLETED: u64 = 1 << 62;

/// State of a parked queue: positions that have finished, commands that are left, and the blocks
/// that are left of the first of them.
///
/// With the contents of the memory that the commands use it is all that a queue needs to continue,
/// on this device or another of the same kind:
///
/// ```
/// use reef_core::{Config, Device, Group, PreemptLevel, Result, Submitter, VirtualQueue};
///
/// /// Ends a queue, and continues its work in another one.
/// fn replace<D: Device>(
///     device: &D,
///     submitter: Submitter<D>,
///     queue: VirtualQueue<D>,
/// ) -> Result<(Submitter<D>, VirtualQueue<D>)> {
///     queue.preempt(true)?;
///     let parked = queue.park(submitter).map_err(|(error, ..)| error)?;
///     Group::open(device, PreemptLevel::All)?.enable_parked(Config::default(), parked)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Parked<B: Backend> {
    completed: Seq,
    commands: Vec<Command<B>>,
    partial: Option<Blocks>,
}

impl<B: Backend> Parked<B> {
    /// A queue of which all commands before `completed` have finished, and that has `commands`
    /// left; `partial` has the blocks that are left of the first of them, if some of it has run.
    ///
    /// # Errors
    ///
    /// `Invalid` if a command is a host function or an event, with its position; if `partial` is
    /// not of a launch or a graph; if `completed` is 2⁶² or more.
    pub fn new(completed: Seq, commands: Vec<Command<B>>, partial: Option<Blocks>) -> Result<Self> {
        if completed.0 >= MAX_COMPLETED {
            return Err(Error::invalid(
                "position",
                format!("must be below 2^62, got {}", completed.0),
            ));
        }
        for (position, command) in (completed.0..).zip(&commands) {
            check_parks(position, command)?;
        }
        let has_blocks = matches!(commands.first(), Some(Command::Launch(_) | Command::Graph(_)));
        if partial.is_some() && !has_blocks {
            let argument = format!("command {}", completed.0);
            return Err(Error::invalid(argument, "must be a launch or a graph to be partial"));
        }
        Ok(Self { completed, commands, partial })
    }

    /// A queue that nothing was submitted to.
    pub(crate) fn empty() -> Self {
        Self { completed: Seq(0), commands: Vec::new(), partial: None }
    }

    /// All commands before this position have finished.
    pub fn completed(&self) -> Seq {
        self.completed
    }

    /// Commands that are left, the first at [`completed`](Self::completed).
    pub fn commands(&self) -> &[Command<B>] {
        &self.commands
    }

    /// Blocks that are left of the first command; `None` if all of it is left.
    pub fn partial(&self) -> Option<&Blocks> {
        self.partial.as_ref()
    }
}

/// Refuses what is not only numbers and memory.
fn check_parks<B: Backend>(position: u64, command: &Command<B>) -> Result<()> {
    let what = match command {
        Command::Launch(_) | Command::Graph(_) | Command::Copy(_) | Command::Fill(_) => {
            return Ok(());
        }
        Command::Host(_) => "a host function",
        Command::Record(_) | Command::Wait(_) => "an event",
    };
    Err(Error::invalid(
        format!("command {position}"),
        format!("{what} can't be parked; restore the queue until it has run"),
    ))
}
