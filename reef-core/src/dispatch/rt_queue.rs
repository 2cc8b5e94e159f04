//! The lane on which real-time tasks run: they skip the virtual queues.

use crate::backend::command::issue;
use crate::dispatch::be_client::Member;
use crate::dispatch::dispatcher::Core;
use crate::dispatch::rt_client::Request;
use crate::dkp::{self, Padding};
use crate::scheduler::TaskView;
use crate::{Backend, Command, Device, DeviceInfo, Error, Launch, Priority, Queue, Result, Seq};
use std::collections::VecDeque;
use std::thread::{self, Thread};
use std::time::Duration;

/// Kernels that could be padded and are launched ahead of being finished.
///
/// One more than runs, so that the device never waits for us; not more, because each is padded with
/// what is known when it is launched.
const PADDABLE_AHEAD: usize = 2;

/// The real-time hardware queue and what is on it or waits for it.
#[derive(Debug)]
pub(crate) struct RtLane<D: Device> {
    queue: D::Queue,
    priority: Priority,
    info: DeviceInfo,
    /// Position of the next command.
    next: u64,
    /// Positions behind the kernels that leave units free and have not finished.
    paddable: VecDeque<u64>,
    waiting: VecDeque<Request<D>>,
    /// Launched in part, and how far.
    feeding: Option<(Request<D>, usize)>,
    /// On the device.
    launched: VecDeque<Launched<D>>,
    wakes: bool,
}

/// A task whose commands are on the device, or those before the one that was refused.
#[derive(Debug)]
struct Launched<D: Device> {
    request: Request<D>,
    /// The position behind its last command.
    end: u64,
    /// Why not all of it was launched. Its ticket is told when the rest has ended: until then its memory
    /// and its events are in use.
    refused: Option<Error>,
}

impl<D: Device> Launched<D> {
    /// Its commands have ended. Returns whether that was the whole task.
    fn finish(self, now: Duration) -> bool {
        match self.refused {
            None => self.request.finish(now),
            Some(ref error) => self.request.ticket.fail(error.clone()),
        }
        self.refused.is_none()
    }
}

impl<D: Device> RtLane<D> {
    pub(crate) fn open(device: &D, priority: Priority) -> Result<Self> {
        Ok(Self {
            queue: device.queue(priority, None)?,
            priority,
            info: device.info(),
            next: 0,
            paddable: VecDeque::new(),
            waiting: VecDeque::new(),
            feeding: None,
            launched: VecDeque::new(),
            wakes: false,
        })
    }

    /// Lets the device unpark `thread` when something finishes. `false`: it can't.
    pub(crate) fn wake(&mut self, thread: Thread) -> bool {
        self.wakes = self.queue.wake(thread);
        self.wakes
    }

    pub(crate) fn needs_polling(&self) -> bool {
        !self.wakes && self.running() > 0
    }

    pub(crate) fn enqueue(&mut self, request: Request<D>) {
        self.waiting.push_back(request);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn running(&self) -> usize {
        self.launched.len() + usize::from(self.feeding.is_some())
    }

    pub(crate) fn next_task(&self) -> Option<TaskView> {
        let next = self.waiting.front()?;
        Some(TaskView { since: next.since, deadline: next.deadline, end: Seq(0) })
    }

    /// Completes the tickets of tasks that have finished; returns how many.
    pub(crate) fn note_finished(&mut self, core: &Core<D>, now: Duration) -> u64 {
        let done = match self.queue.completed() {
            Ok(Seq(done)) => done,
            Err(error) => {
                self.replace(core, &error);
                return 0;
            }
        };
        let mut finished = 0;
        while let Some(task) = self.launched.pop_front_if(|task| task.end <= done) {
            finished += u64::from(task.finish(now));
        }
        while self.paddable.pop_front_if(|end| *end <= done).is_some() {}
        finished
    }

    /// A queue that failed fails its tasks and is replaced: the device may still be there.
    #[cold]
    fn replace(&mut self, core: &Core<D>, error: &Error) {
        match Self::open(&core.device, self.priority) {
            Ok(fresh) => {
                self.queue = fresh.queue; // drops the old one, so that nothing of it runs any more
                self.next = 0;
                self.paddable.clear();
                self.wake(core.service().clone());
                self.fail_running(error);
            }
            Err(error) => self.fail_all(&error),
        }
    }

    fn fail_running(&mut self, error: &Error) {
        let feeding = self.feeding.take().map(|(request, _)| request);
        for request in self.launched.drain(..).map(|task| task.request).chain(feeding) {
            request.ticket.fail(error.clone());
        }
    }

    fn fail_all(&mut self, error: &Error) {
        self.fail_running(error);
        self.fail_waiting(error);
    }

    fn fail_waiting(&mut self, error: &Error) {
        self.waiting.drain(..).for_each(|request| request.ticket.fail(error.clone()));
    }

    /// Launches nothing more; what is on the device ends as it would.
    pub(crate) fn close(&mut self, error: &Error) {
        self.fail_waiting(error);
        if let Some((request, _)) = self.feeding.take() {
            self.note_launched(request, Some(error.clone()));
        }
    }

    /// The task is on the device as far as it will be.
    fn note_launched(&mut self, request: Request<D>, refused: Option<Error>) {
        self.launched.push_back(Launched { request, end: self.next, refused });
    }

    /// Waits for what the device has; cancels the rest.
    pub(crate) fn finish(&mut self, device: &D) {
        self.close(&Error::Cancelled);
        while let Some(task) = self.launched.pop_front() {
            loop {
                match self.queue.completed() {
                    Ok(Seq(done)) if done >= task.end => {
                        task.finish(device.clock());
                        break;
                    }
                    Ok(_) => thread::yield_now(),
                    Err(error) => break task.request.ticket.fail(error),
                }
            }
        }
    }

    /// Launches what may be launched, with blocks of `members` beside it where they fit.
    ///
    /// A task that can't be launched fails alone.
    pub(crate) fn feed(
        &mut self,
        core: &Core<D>,
        start: bool,
        mut members: Option<&mut Vec<Member<D>>>,
    ) -> Fed {
        let mut fed = Fed::default();
        while let Some((request, at)) = self.next_to_feed(start) {
            match self.feed_one(core, &request, at, members.as_deref_mut(), &mut fed) {
                Ok(at) if at < request.commands.len() => {
                    self.feeding = Some((request, at));
                    fed.held_back = true;
                    break;
                }
                Ok(_) => self.note_launched(request, None),
                Err(error) => self.refuse(request, error),
            }
        }
        fed.again = self.wake_at_next();
        fed
    }

    /// Fails a task of which something may be on the device, when that has ended.
    #[cold]
    fn refuse(&mut self, request: Request<D>, error: Error) {
        let seq = self.take_seq(); // the refused command's own is never reached
        match self.queue.record(seq, &request.events[1]) {
            Ok(()) => self.note_launched(request, Some(error)),
            Err(_) => request.ticket.fail(error), // nothing runs on a queue that fails
        }
    }

    /// The task that is launched in part, or else the next one, and how far it is.
    fn next_to_feed(&mut self, start: bool) -> Option<(Request<D>, usize)> {
        let feeding = self.feeding.take();
        feeding.or_else(|| start.then(|| self.waiting.pop_front()).flatten().map(|next| (next, 0)))
    }

    /// Launches commands of a task from `at` on; returns how far it came.
    fn feed_one(
        &mut self,
        core: &Core<D>,
        request: &Request<D>,
        mut at: usize,
        mut members: Option<&mut Vec<Member<D>>>,
        fed: &mut Fed,
    ) -> Result<usize> {
        if at == 0 {
            let seq = self.take_seq();
            self.queue.record(seq, &request.events[0])?;
        }
        while let Some(command) = request.commands.get(at) {
            let Some(padded) = self.launch(core, command, members.as_deref_mut())? else {
                return Ok(at);
            };
            fed.padded += u64::from(padded > 0);
            fed.padded_blocks += u64::from(padded);
            at += 1;
        }
        let seq = self.take_seq();
        self.queue.record(seq, &request.events[1])?;
        Ok(at)
    }

    /// Asks to be woken when the next task has finished, or the next kernel can be padded. Returns
    /// whether that is so already.
    fn wake_at_next(&mut self) -> bool {
        let task = self.launched.front().map(|task| task.end);
        let kernel = self.feeding.as_ref().and(self.paddable.front().copied());
        let Some(next) = task.into_iter().chain(kernel).min() else { return false };
        self.queue.wake_at(Seq(next));
        self.queue.completed().is_ok_and(|done| done >= Seq(next))
    }

    fn take_seq(&mut self) -> Seq {
        self.next += 1;
        Seq(self.next - 1)
    }

    /// Launches one command; says with how many blocks it was padded, or `None` if it should wait its turn.
    ///
    /// Which blocks fit is known when a kernel is about to run, not before: kernels that leave units
    /// free wait until few of them are ahead.
    fn launch(
        &mut self,
        core: &Core<D>,
        command: &Command<D>,
        members: Option<&mut Vec<Member<D>>>,
    ) -> Result<Option<u32>> {
        if let (Command::Launch(rt), Some(members)) = (command, members)
            && !members.is_empty()
            && self.leaves_units_free(rt)
        {
            if self.paddable.len() >= PADDABLE_AHEAD {
                return Ok(None);
            }
            self.paddable.push_back(self.next + 1);
            if core.group.is_quiesced() {
                let blocks = self.launch_padded(core, rt, members)?;
                if blocks > 0 {
                    return Ok(Some(blocks));
                }
            }
        }
        let seq = self.take_seq();
        issue(command, seq, None, &mut self.queue)?;
        Ok(Some(0))
    }

    fn leaves_units_free(&self, rt: &Launch<D>) -> bool {
        rt.profile().is_some() && dkp::rt_units(rt.blocks(), &self.info) < self.info.units
    }

    /// Launches `rt` with blocks of the first best-effort queue that has some that fit, and says how many;
    /// without any it isn't launched.
    fn launch_padded(
        &mut self,
        core: &Core<D>,
        rt: &Launch<D>,
        members: &mut [Member<D>],
    ) -> Result<u32> {
        for member in members {
            if let Some((padding, be, record)) = member.padding(&core.device, rt, &self.info)? {
                let seq = self.take_seq();
                self.queue.launch_padded(seq, rt, &padding, &be, &record)?;
                return Ok(padding.be_blocks);
            }
        }
        Ok(0)
    }
}

/// What a [`RtLane::feed`] did.
#[derive(Debug, Default)]
pub(crate) struct Fed {
    /// Kernels that were launched with best-effort blocks beside them.
    pub(crate) padded: u64,
    /// Those blocks.
    pub(crate) padded_blocks: u64,
    /// A kernel waits until it can be padded.
    pub(crate) held_back: bool,
    /// Something has finished meanwhile.
    pub(crate) again: bool,
}

/// A padding with the kernel that it takes blocks from.
pub(crate) type Chosen<D> = (Padding, Launch<D>, <D as Backend>::Checkpoint);
