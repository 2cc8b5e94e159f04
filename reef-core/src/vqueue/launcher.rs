//! The launching end of a virtual queue: a hardware queue and the ring that feeds it.

use crate::backend::command::{Command, HostFn, Launch};
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::Seq;
use crate::backend::queue::{Queue, issue};
use crate::backend::types::{Checkpoint, Event};
use crate::sync::ring::Consumer;
use crate::vqueue::parked::Parked;

/// State of launching. Held by the worker, and by the dispatcher while the queue is preempted.
#[derive(Debug)]
pub(crate) struct Launcher<D: Device> {
    queue: D::Queue,
    pub(crate) commands: Consumer<Command<D>>,
    /// Record of the next command, if some of it has run.
    partial: Option<D::Checkpoint>,
    /// The newest launched command is a barrier that has not completed.
    barrier: bool,
    /// Cap that the queue was told last: a number of blocks at a time, 0 for all.
    cap: u32,
    /// Part of the units that graphs run on, in percent.
    percent: u32,
    window: u64,
    /// The queue was abandoned with what it has on the device.
    is_abandoned: bool,
}

/// Event that a launcher waits for after a [`Launcher::step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For commands, or for the limit to rise; nothing is with the device.
    Commands,
    /// For the device alone: the window is full, or a barrier is in the way.
    Device,
    /// For the device or for commands.
    Either,
    /// For an event of another queue.
    Event,
    /// For host code, which is next: to be run without the launcher's lock, see [`Launcher::host`].
    Host,
    /// For nothing: there is more to do.
    Nothing,
}

/// Commands that may be launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Commands before this position.
    pub(crate) limit: u64,
    /// Upper bound of blocks at a time, 0 for all.
    pub(crate) cap: u32,
    /// Part of the units that graphs run on, in percent.
    pub(crate) percent: u32,
}

impl Allowance {
    /// Commands before `limit`, at full width.
    pub(crate) const fn until(limit: u64) -> Self {
        Self { limit, cap: 0, percent: 100 }
    }
}

/// Result of a [`Launcher::step`].
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) completed: bool,
    pub(crate) waits: Waits,
}

impl<D: Device> Launcher<D> {
    pub(crate) fn new(queue: D::Queue, commands: Consumer<Command<D>>, window: u64) -> Self {
        let (partial, barrier, is_abandoned) = (None, false, false);
        let (cap, percent) = (0, 100);
        Self { queue, commands, partial, barrier, cap, percent, window, is_abandoned }
    }

    /// The next command continues where this record says.
    pub(crate) fn continue_at(&mut self, record: D::Checkpoint) {
        self.partial = Some(record);
    }

    /// Notes what finished, then launches what `allowed()` gives while the window lasts.
    pub(crate) fn step(&mut self, allowed: impl Fn() -> Allowance) -> Result<Step> {
        let mut completed = self.note_completed()?;
        for _ in 0..self.room() {
            let allowed = allowed();
            match self.blocked(allowed.limit) {
                None => completed |= self.launch_next(allowed)?,
                Some(waits) => return self.step_ends(completed, waits),
            }
        }
        // With room left, what was launched is complete already: waits for events, say.
        let full = if self.room() > 0 { Waits::Nothing } else { Waits::Device };
        let waits = self.blocked(allowed().limit).unwrap_or(full);
        self.step_ends(completed, waits)
    }

    /// Asks to be woken for what the step waits for, and notes what came in between.
    fn step_ends(&mut self, completed: bool, waits: Waits) -> Result<Step> {
        let in_flight = self.commands.in_flight();
        let enough = match waits {
            Waits::Commands | Waits::Event | Waits::Host | Waits::Nothing => {
                return Ok(Step { completed, waits });
            }
            Waits::Device if self.room() > 0 => in_flight, // a barrier waits for all
            Waits::Device | Waits::Either => 1,
        };
        let target = Seq(self.commands.launched() - in_flight + enough);
        self.queue.wake_at(target);
        let reached = self.queue.completed()? >= target;
        Ok(Step { completed, waits: if reached { Waits::Nothing } else { waits } })
    }

    /// Returns the event that the next command waits for, if it can't be launched now. Ignores
    /// the window.
    fn blocked(&mut self, limit: u64) -> Option<Waits> {
        let (in_flight, barrier) = (self.commands.in_flight(), self.barrier);
        match self.commands.next() {
            Some((at, command)) if at < limit => blocked(command, in_flight, barrier),
            _ if in_flight > 0 => Some(Waits::Either),
            _ => Some(Waits::Commands),
        }
    }

    /// Returns the number of commands that fit into the window now.
    fn room(&self) -> u64 {
        self.window - self.commands.in_flight()
    }

    fn note_completed(&mut self) -> Result<bool> {
        let Seq(done) = self.queue.completed()?;
        let completed = self.commands.complete_to(done.min(self.commands.launched()));
        self.barrier &= self.commands.in_flight() > 0;
        Ok(completed)
    }

    /// Launches the next command; returns whether it is already complete.
    fn launch_next(&mut self, Allowance { cap, percent, .. }: Allowance) -> Result<bool> {
        if self.cap != cap {
            self.queue.cap_blocks((cap > 0).then_some(cap));
            self.cap = cap;
        }
        if self.percent != percent {
            self.queue.run_on(percent);
            self.percent = percent;
        }
        let (at, command) = self.commands.next().expect("the caller saw it");
        self.barrier = command.is_barrier();
        let complete = issue(command, Seq(at), self.partial.as_ref(), &mut self.queue)?;
        self.partial = None;
        self.commands.launch();
        if complete {
            self.commands.complete_to(at + 1);
            self.barrier = false;
        }
        Ok(complete)
    }

    /// The host code that is next and may run now, with its position. Run it without the lock, so
    /// that it may preempt, restore or end the queue, then [note](Self::host_done) that it has.
    pub(crate) fn host(&mut self, limit: u64) -> Option<(u64, HostFn)> {
        if self.blocked(limit) != Some(Waits::Host) {
            return None;
        }
        match self.commands.next() {
            Some((at, Command::Host(code))) => Some((at, code.clone())),
            _ => None,
        }
    }

    /// The host code at `at` has run.
    pub(crate) fn host_done(&mut self, at: u64) {
        debug_assert_eq!(self.commands.launched(), at, "only the worker launches");
        self.commands.launch();
        self.commands.complete_to(at + 1);
    }

    /// Lets what a held queue keeps on the device run to its end; returns whether it has.
    pub(crate) fn release_held(&mut self) -> Result<bool> {
        if self.commands.in_flight() > 0 {
            self.queue.release_held();
            self.queue.wake_at(Seq(self.commands.launched()));
        }
        self.is_quiet()
    }

    /// Waits for nothing that the device has any more. Nothing is launched afterwards.
    pub(crate) fn abandon(&mut self) {
        self.queue.abandon();
        self.is_abandoned = true;
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned || self.queue.is_abandoned()
    }

    /// Notes what finished; returns whether nothing is with the device.
    pub(crate) fn is_quiet(&mut self) -> Result<bool> {
        self.note_completed()?;
        Ok(self.commands.in_flight() == 0)
    }

    /// Takes back what the device has, if it has stopped: launches that didn't finish run again
    /// later, unless the device keeps them.
    ///
    /// `None` means not yet; otherwise returns the number of commands that will be launched again.
    pub(crate) fn try_reclaim(&mut self) -> Result<Option<u64>> {
        let Some(stopped) = self.queue.try_drain()? else {
            return Ok(None);
        };
        self.commands.complete_to(stopped.resume_at.0.min(self.commands.launched()));
        if stopped.held {
            return Ok(Some(0));
        }
        let undone = self.commands.rewind();
        if undone > 0 {
            self.partial = stopped.partial;
        }
        self.barrier = false;
        Ok(Some(undone))
    }

    /// Returns the kernel that is next, with the record of its blocks: padding draws from it.
    ///
    /// Only while nothing is in flight.
    pub(crate) fn head(&mut self, device: &D) -> Result<Option<(&Launch<D>, D::Checkpoint)>> {
        let Some((_, Command::Launch(launch))) = self.commands.next() else {
            return Ok(None);
        };
        let record = match &self.partial {
            Some(record) => record.clone(),
            None => device.checkpoint(launch)?,
        };
        self.partial = Some(record.clone());
        // Asked again because the borrow checker doesn't see that `partial` is another field.
        let Some((_, Command::Launch(launch))) = self.commands.next() else { return Ok(None) };
        Ok(Some((launch, record)))
    }

    /// Completes the next kernel if padding has run all of its blocks. Returns whether it did.
    pub(crate) fn finish_padded(&mut self) -> bool {
        if self.partial.as_ref().is_none_or(|record| record.remaining() > 0) {
            return false;
        }
        self.partial = None;
        self.commands.launch();
        self.commands.complete_to(self.commands.launched())
    }
}

impl<D: Device> Launcher<D> {
    /// Takes all commands out of the queue, of which the device has nothing, with the blocks that
    /// are left of the first.
    ///
    /// # Errors
    ///
    /// `State` if the device has something of the queue; the errors of [`Device::blocks`] and
    /// [`Parked::new`]. Nothing is taken out then.
    pub(crate) fn park(&mut self, device: &D) -> Result<Parked<D>> {
        if self.commands.in_flight() > 0 {
            return Err(Error::state("parking a queue", "the device keeps its launches"));
        }
        self.finish_padded();
        let completed = Seq(self.commands.launched());
        let partial = self.partial.as_ref().map(|record| device.blocks(record)).transpose()?;
        let partial = partial.filter(|blocks| blocks.node() > 0 || blocks.count() < blocks.total());
        let mut commands = Vec::new();
        while let Some((_, command)) = self.commands.next() {
            commands.push(command.clone());
            self.commands.launch();
        }
        match Parked::new(completed, commands, partial) {
            Ok(parked) => {
                self.commands.complete_to(self.commands.launched());
                self.partial = None;
                Ok(parked)
            }
            Err(error) => {
                self.commands.rewind();
                Err(error)
            }
        }
    }
}

/// Returns the event that keeps `command` from being launched: a barrier runs alone, and a wait
/// needs its event.
fn blocked<D: Device>(command: &Command<D>, in_flight: u64, after_barrier: bool) -> Option<Waits> {
    if after_barrier || (command.is_barrier() && in_flight > 0) {
        return Some(Waits::Device);
    }
    match command {
        Command::Wait(event) if event.reached().is_none() => Some(Waits::Event),
        Command::Host(_) => Some(Waits::Host),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
