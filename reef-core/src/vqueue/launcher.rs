//! The launching end of a virtual queue: a hardware queue and the ring that feeds it.

use crate::backend::command::{Command, HostFn, Launch};
use crate::backend::device::Device;
use crate::backend::error::Result;
use crate::backend::info::Seq;
use crate::backend::queue::{Queue, issue};
use crate::backend::types::{Checkpoint, Event};
use crate::sync::ring::Consumer;

/// What launching needs. Held by the worker, and by the dispatcher while the queue is preempted.
#[derive(Debug)]
pub(crate) struct Launcher<D: Device> {
    queue: D::Queue,
    pub(crate) commands: Consumer<Command<D>>,
    /// What is left of the next command, if some of it has run.
    partial: Option<D::Checkpoint>,
    /// The newest launched command is a barrier that has not completed.
    barrier: bool,
    /// What the queue was told last: so many blocks at a time, 0 for all.
    cap: u32,
    window: u64,
    batch: u64,
}

/// What a launcher waits for after a [`Launcher::step`].
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

/// What may be launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Commands before this position.
    pub(crate) limit: u64,
    /// So many blocks at a time, 0 for all.
    pub(crate) cap: u32,
}

/// What a [`Launcher::step`] did.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) completed: bool,
    pub(crate) waits: Waits,
}

impl<D: Device> Launcher<D> {
    pub(crate) fn new(
        queue: D::Queue,
        commands: Consumer<Command<D>>,
        window: u64,
        batch: u64,
    ) -> Self {
        Self { queue, commands, partial: None, barrier: false, cap: 0, window, batch }
    }

    /// Notes what finished, then launches what `allowed()` says while the window lasts.
    pub(crate) fn step(&mut self, allowed: impl Fn() -> Allowance) -> Result<Step> {
        let mut completed = self.note_completed()?;
        for _ in 0..self.room() {
            let Allowance { limit, cap } = allowed();
            match self.blocked(limit) {
                None => completed |= self.launch_next(cap)?,
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
            Waits::Either => 1,
            Waits::Device if self.room() > 0 => in_flight, // a barrier waits for all
            Waits::Device => (in_flight + self.batch).saturating_sub(self.window).max(1),
        };
        let target = Seq(self.commands.launched() - in_flight + enough);
        self.queue.wake_at(target);
        let reached = self.queue.completed()? >= target;
        Ok(Step { completed, waits: if reached { Waits::Nothing } else { waits } })
    }

    /// What the next command waits for, if it can't be launched now. Doesn't look at the window.
    fn blocked(&mut self, limit: u64) -> Option<Waits> {
        let (in_flight, barrier) = (self.commands.in_flight(), self.barrier);
        match self.commands.next() {
            Some((at, command)) if at < limit => blocked(command, in_flight, barrier),
            _ if in_flight > 0 => Some(Waits::Either),
            _ => Some(Waits::Commands),
        }
    }

    /// Commands to launch now: none until a whole batch fits beside those in flight.
    fn room(&self) -> u64 {
        let room = self.window - self.commands.in_flight();
        if room >= self.batch { room } else { 0 }
    }

    fn note_completed(&mut self) -> Result<bool> {
        let Seq(done) = self.queue.completed()?;
        let completed = self.commands.complete_to(done.min(self.commands.launched()));
        self.barrier &= self.commands.in_flight() > 0;
        Ok(completed)
    }

    /// Launches the next command; returns whether it is already complete.
    fn launch_next(&mut self, cap: u32) -> Result<bool> {
        if self.cap != cap {
            self.queue.cap_blocks((cap > 0).then_some(cap));
            self.cap = cap;
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

    /// The host code that is next and may run now, with its position. Run it without the lock, so that it may
    /// preempt, restore or end the queue, then [note](Self::host_done) that it has.
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

    /// Notes what finished; returns whether nothing is with the device.
    pub(crate) fn is_quiet(&mut self) -> Result<bool> {
        self.note_completed()?;
        Ok(self.commands.in_flight() == 0)
    }

    /// Takes back what the device has, if it has stopped: launches that didn't finish run again later,
    /// unless the device keeps them.
    ///
    /// `None` means not yet; otherwise how many commands will be launched again.
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

    /// The kernel that is next, with the record of its blocks: what padding draws from.
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

/// What keeps `command` from being launched: a barrier runs alone, and a wait needs its event.
fn blocked<D: Device>(command: &Command<D>, in_flight: u64, behind_barrier: bool) -> Option<Waits> {
    if behind_barrier || (command.is_barrier() && in_flight > 0) {
        return Some(Waits::Device);
    }
    match command {
        Command::Wait(event) if event.reached().is_none() => Some(Waits::Event),
        Command::Host(_) => Some(Waits::Host),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake::{Fake, FakeEvent, FakeQueue, kernel};
    use crate::sync::ring::{Producer, ring};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    const OPEN: fn() -> Allowance = || Allowance { limit: u64::MAX, cap: 0 };

    fn launcher(window: u64, batch: u64) -> (Producer<Command<Fake>>, Launcher<Fake>) {
        let (producer, consumer) = ring(64);
        (producer, Launcher::new(FakeQueue::default(), consumer, window, batch))
    }

    fn push(
        producer: &mut Producer<Command<Fake>>,
        commands: impl IntoIterator<Item = Command<Fake>>,
    ) {
        for command in commands {
            producer.push(command).expect("room");
        }
    }

    /// A wait for an event that is reached already.
    fn reached() -> Command<Fake> {
        let event = FakeEvent::default();
        event.0.store(true, Ordering::Relaxed);
        Command::Wait(event)
    }

    /// Positions that were launched since the last look.
    fn launched(launcher: &mut Launcher<Fake>) -> Vec<u64> {
        std::mem::take(&mut launcher.queue.launched).into_iter().map(|(at, _)| at).collect()
    }

    fn step(launcher: &mut Launcher<Fake>) -> (Vec<u64>, Waits) {
        let step = launcher.step(OPEN).expect("the fake has no errors");
        (launched(launcher), step.waits)
    }

    #[test]
    fn the_window_is_filled_a_batch_at_a_time() {
        let (mut producer, mut launcher) = launcher(4, 2);
        push(&mut producer, (0..9).map(|_| kernel()));
        assert_eq!(step(&mut launcher), (vec![0, 1, 2, 3], Waits::Device));
        assert_eq!(launcher.queue.wake_at, Some(2), "when a batch has room");
        launcher.queue.done = 1;
        assert_eq!(step(&mut launcher), (vec![], Waits::Device));
        launcher.queue.done = 2;
        assert_eq!(step(&mut launcher), (vec![4, 5], Waits::Device));
    }

    #[test]
    fn the_limit_bounds_what_is_launched() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, (0..4).map(|_| kernel()));
        launcher.step(|| Allowance { limit: 2, cap: 0 }).unwrap();
        assert_eq!(launched(&mut launcher), [0, 1]);
    }

    #[test]
    fn a_barrier_runs_alone() {
        let (mut producer, mut launcher) = launcher(8, 1);
        let event = FakeEvent::default();
        push(&mut producer, [kernel(), Command::Record(event), kernel(), kernel()]);
        assert_eq!(step(&mut launcher), (vec![0], Waits::Device));
        launcher.queue.done = 1;
        assert_eq!(step(&mut launcher), (vec![1], Waits::Device));
        assert_eq!(step(&mut launcher), (vec![], Waits::Device), "nothing beside it");
        launcher.queue.done = 2;
        assert_eq!(step(&mut launcher).0, [2, 3]);
    }

    #[test]
    fn a_wait_needs_its_event() {
        let (mut producer, mut launcher) = launcher(8, 1);
        let event = FakeEvent::default();
        push(&mut producer, [Command::Wait(event.clone()), kernel()]);
        assert_eq!(step(&mut launcher), (vec![], Waits::Event));
        event.0.store(true, Ordering::Relaxed);
        assert_eq!(step(&mut launcher).0, [1]);
    }

    #[test]
    fn what_a_barrier_waits_for_is_the_last_of_those_before_it() {
        let (mut producer, mut launcher) = launcher(8, 1);
        let barrier = Command::Record(FakeEvent::default());
        push(&mut producer, [kernel(), kernel(), kernel(), barrier]);
        assert_eq!(step(&mut launcher), (vec![0, 1, 2], Waits::Device));
        assert_eq!(launcher.queue.wake_at, Some(3), "there is room, but not for a barrier");
    }

    #[test]
    fn a_step_says_whether_something_completed() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, [reached(), kernel()]);
        assert!(launcher.step(OPEN).unwrap().completed, "the wait was over at once");
        push(&mut producer, [kernel()]);
        assert!(!launcher.step(OPEN).unwrap().completed, "two are launched, none has ended");
        launcher.queue.done = 2;
        push(&mut producer, [kernel()]);
        assert!(launcher.step(OPEN).unwrap().completed, "one has ended, whatever was launched");
    }

    /// With nothing on the device there is nothing that could wake the worker.
    #[test]
    fn more_waits_that_are_over_than_the_window_has_room_for_leave_something_to_do() {
        let (mut producer, mut launcher) = launcher(2, 1);
        push(&mut producer, [reached(), reached(), reached()]);
        assert_eq!(launcher.step(OPEN).unwrap().waits, Waits::Nothing);
        assert_eq!(launcher.step(OPEN).unwrap().waits, Waits::Commands);
    }

    #[test]
    fn host_code_runs_alone_and_outside() {
        let (mut producer, mut launcher) = launcher(4, 1);
        let host = || Command::Host(Arc::new(|| ()));
        push(&mut producer, [kernel(), host(), host(), kernel()]);
        assert_eq!(step(&mut launcher), (vec![0], Waits::Device));
        assert!(launcher.host(u64::MAX).is_none(), "a kernel runs");
        launcher.queue.done = 1;
        for at in [1, 2] {
            assert_eq!(step(&mut launcher), (vec![], Waits::Host));
            assert!(launcher.host(at).is_none(), "beyond the limit");
            assert_eq!(launcher.host(u64::MAX).expect("it is next").0, at);
            launcher.host_done(at);
        }
        assert_eq!(step(&mut launcher), (vec![3], Waits::Either));
    }

    #[test]
    fn a_cap_is_told_before_the_next_launch() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, [kernel(), kernel()]);
        launcher.step(|| Allowance { limit: 1, cap: 0 }).unwrap();
        assert!(launcher.queue.caps.is_empty(), "nothing new");
        launcher.step(|| Allowance { limit: 1, cap: 7 }).unwrap();
        assert!(launcher.queue.caps.is_empty(), "nothing is launched");
        launcher.step(|| Allowance { limit: 2, cap: 7 }).unwrap();
        assert_eq!(launcher.queue.caps, [Some(7)]);
        push(&mut producer, [kernel()]);
        launcher.step(OPEN).unwrap();
        assert_eq!(launcher.queue.caps, [Some(7), None], "all blocks at once again");
    }

    /// Else blocks that padding has run would run again.
    #[test]
    fn what_padding_has_run_of_the_next_kernel_is_kept_when_nothing_is_taken_back() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, [kernel()]);
        launcher.head(&Fake::default()).unwrap().expect("a kernel is next");
        launcher.queue.drain = Some((0, None));
        assert_eq!(launcher.try_reclaim().unwrap(), Some(0), "nothing was launched");
        launcher.step(OPEN).unwrap();
        assert_eq!(launcher.queue.launched, [(0, Some(8))], "with the record that padding used");
    }

    #[test]
    fn what_was_taken_back_resumes_where_it_stopped() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, [kernel(), kernel(), Command::Record(FakeEvent::default())]);
        step(&mut launcher);
        assert_eq!(launcher.try_reclaim().unwrap(), None, "the device is not done");
        launcher.queue.drain = Some((1, Some(3)));
        assert_eq!(launcher.try_reclaim().unwrap(), Some(1), "one of two finished");
        launcher.step(OPEN).unwrap();
        assert_eq!(launcher.queue.launched, [(1, Some(3))]);
    }

    #[test]
    fn who_waits_for_held_launches_is_woken_by_the_last() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, [kernel(), kernel()]);
        step(&mut launcher);
        assert_eq!(launcher.release_held(), Ok(false));
        assert_eq!(launcher.queue.wake_at, Some(2));
        launcher.queue.done = 2;
        assert_eq!(launcher.release_held(), Ok(true));
    }

    #[test]
    fn a_barrier_that_was_taken_back_blocks_nothing() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, [Command::Record(FakeEvent::default()), kernel()]);
        assert_eq!(step(&mut launcher).0, [0]);
        launcher.queue.drain = Some((0, None));
        launcher.try_reclaim().unwrap();
        assert_eq!(step(&mut launcher).0, [0], "it is launched again");
        launcher.queue.done = 1;
        assert_eq!(step(&mut launcher).0, [1]);
    }

    #[test]
    fn padding_draws_from_the_next_kernel_and_completes_it() {
        let (mut producer, mut launcher) = launcher(4, 1);
        push(&mut producer, [kernel(), kernel()]);
        launcher.queue.drain = Some((0, None));
        step(&mut launcher);
        launcher.queue.drain = Some((0, Some(0)));
        launcher.try_reclaim().unwrap();
        let (_, left) = launcher.head(&Fake::default()).unwrap().expect("a kernel is next");
        assert_eq!(left.remaining(), 0, "the record that was taken back, not a fresh one");
        assert!(launcher.finish_padded());
        let (_, left) = launcher.head(&Fake::default()).unwrap().expect("a kernel is next");
        assert_eq!(left.remaining(), 8, "a fresh one for the second kernel");
        assert!(!launcher.finish_padded());
        launcher.step(OPEN).unwrap();
        assert_eq!(launcher.queue.launched.last(), Some(&(1, Some(8))));
    }
}
