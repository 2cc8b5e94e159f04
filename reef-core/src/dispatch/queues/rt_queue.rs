//! The hardware queue on which real-time tasks run: they skip the virtual queues.

use crate::backend::command::Launch;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::{DeviceInfo, Priority, Seq};
use crate::backend::queue::Queue;
use crate::dispatch::queues::task::{Request, TaskState};
use crate::scheduler::policy::{RtEnd, RtTaskView};
use crate::sync::drops::drop_caught;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

/// The real-time hardware queue and what is on it or waits for it.
#[derive(Debug)]
pub(crate) struct RtQueue<D: Device> {
    pub(super) device: D,
    /// The thread that the device wakes when no client waits. Set once, before the first pass.
    service: Option<Thread>,
    /// Part of the units that graphs run on, in percent.
    percent: u32,
    pub(super) queue: D::Queue,
    priority: Priority,
    pub(super) info: DeviceInfo,
    /// Position of the next command.
    pub(super) next: u64,
    /// End positions of the kernels that leave units free and have not finished.
    pub(super) paddable: VecDeque<u64>,
    /// Not started, oldest first. No entry is `None` but while [`feed`](Self::feed) starts some of
    /// them.
    pub(super) waiting: VecDeque<Option<Request<D>>>,
    pub(super) feeding: Option<Feeding<D>>,
    /// On the device.
    pub(super) launched: VecDeque<Launched<D>>,
    /// Ended since the last view.
    ended: Vec<RtEnd>,
    /// Best-effort kernels of which blocks may run next to real-time ones, oldest first.
    pub(super) donated: VecDeque<Donation<D>>,
    /// Donations of a queue that failed and could not be replaced: nothing waits for them.
    abandoned: Vec<Donation<D>>,
    wakes: bool,
}

/// A task that is being launched. It stays in its place meanwhile, so that no panic loses it.
#[derive(Debug)]
pub(super) struct Feeding<D: Device> {
    pub(super) request: Request<D>,
    /// Its first event has been recorded.
    pub(super) begun: bool,
    /// The next command to launch.
    pub(super) at: usize,
}

/// A best-effort kernel whose blocks pad a real-time one.
#[derive(Debug)]
pub(super) struct Donation<D: Device> {
    /// The client's name.
    pub(super) owner: u64,
    /// End position of the real-time kernel.
    pub(super) end: u64,
    /// Keeps its memory, whatever becomes of the client.
    pub(super) _be: Launch<D>,
}

/// A task whose commands are on the device, or those before the one that was refused.
#[derive(Debug)]
pub(super) struct Launched<D: Device> {
    request: Request<D>,
    /// End position of its last command.
    pub(super) end: u64,
    /// The error for which not all of it was launched. Its ticket is told when the rest has ended:
    /// until then its memory and its events are in use.
    refused: Option<Error>,
}

impl<D: Device> Launched<D> {
    /// Its commands have ended. Returns the end of the task, if that was all of it.
    fn finish(self, now: Duration) -> Option<RtEnd> {
        match self.refused {
            None => Some(self.request.finish(now)),
            Some(ref error) => {
                self.request.charge_refused();
                self.request.fail(error.clone());
                None
            }
        }
    }
}

impl<D: Device> RtQueue<D> {
    pub(crate) fn open(device: &D, priority: Priority) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            percent: 100,
            service: None,
            queue: device.queue(priority, None)?,
            priority,
            info: device.info(),
            next: 0,
            paddable: VecDeque::new(),
            waiting: VecDeque::new(),
            feeding: None,
            launched: VecDeque::new(),
            ended: Vec::new(),
            donated: VecDeque::new(),
            abandoned: Vec::new(),
            wakes: false,
        })
    }

    /// Has graphs run on this part of the units in percent from now on.
    pub(crate) fn run_on(&mut self, percent: u32) {
        if self.percent != percent {
            self.queue.run_on(percent);
            self.percent = percent;
        }
    }

    /// Lets the device unpark `thread` when something finishes. `false`: it can't.
    pub(crate) fn wake(&mut self, thread: Thread) -> bool {
        self.wakes = self.queue.wake(thread);
        self.wakes
    }

    /// Names the thread that the device wakes while no client waits.
    pub(crate) fn served_by(&mut self, service: Thread) {
        self.service = Some(service);
        self.wake_service();
    }

    /// Lets the device wake the service thread again.
    pub(crate) fn wake_service(&mut self) {
        if let Some(service) = self.service.clone() {
            self.wake(service);
        }
    }

    pub(crate) fn needs_polling(&self) -> bool {
        !self.wakes && self.running() > 0
    }

    pub(crate) fn enqueue(&mut self, request: Request<D>) {
        self.waiting.push_back(Some(request));
    }

    /// Returns whether starting these, of those that wait, is one call of the driver that has been
    /// made before.
    pub(crate) fn starts_shortly(&self, start: &[usize]) -> bool {
        let is_short = |request: &Request<D>| request.has_run && request.commands.len() == 1;
        start.len() == 1 && self.feeding.is_none() && self.starting(start).all(is_short)
    }

    /// Returns whether one of these, or the task that is fed, has not run before.
    pub(crate) fn starts_anew(&self, start: &[usize]) -> bool {
        let fed = self.feeding.as_ref().map(|feeding| &feeding.request);
        self.starting(start).chain(fed).any(|request| !request.has_run)
    }

    fn starting(&self, start: &[usize]) -> impl Iterator<Item = &Request<D>> {
        start.iter().filter_map(|&at| self.waiting.get(at)?.as_ref())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn running(&self) -> usize {
        self.launched.len() + usize::from(self.feeding.is_some())
    }

    /// Returns the schedulers' views of the tasks that wait.
    pub(crate) fn views(&self, now: Duration) -> impl Iterator<Item = RtTaskView> + '_ {
        self.waiting.iter().flatten().map(move |request| request.view(now))
    }

    /// Takes back what has not been launched of the task of this state; returns whether there is
    /// something. The task ends when what the device has of it has ended.
    pub(crate) fn cancel(&mut self, task: &Arc<TaskState>) -> bool {
        let is_it = |request: &Option<Request<D>>| {
            request.as_ref().is_some_and(|request| Arc::ptr_eq(&request.ticket, task))
        };
        if self.feeding.as_ref().is_some_and(|feeding| Arc::ptr_eq(&feeding.request.ticket, task)) {
            self.refuse(Error::Cancelled);
            return true;
        }
        let Some(at) = self.waiting.iter().position(is_it) else { return false };
        self.waiting.remove(at);
        task.fail(Error::Cancelled);
        true
    }

    /// Completes the tickets of tasks that have finished; returns how many.
    pub(crate) fn note_finished(&mut self, now: Duration) -> u64 {
        let done = match self.queue.completed() {
            Ok(Seq(done)) => done,
            Err(error) => {
                self.replace(&error);
                return 0;
            }
        };
        let mut finished = 0;
        while let Some(task) = self.launched.pop_front_if(|task| task.end <= done) {
            let end = task.finish(now);
            finished += u64::from(end.is_some());
            self.ended.extend(end);
        }
        while self.paddable.pop_front_if(|end| *end <= done).is_some() {}
        self.note_donations();
        finished
    }

    /// Forgets padding that has ended.
    fn note_donations(&mut self) {
        if self.donated.is_empty() {
            return;
        }
        match self.queue.padding_ended() {
            Ok(Seq(ended)) => {
                while let Some(over) = self.donated.pop_front_if(|of| of.end <= ended) {
                    drop_caught(over);
                }
            }
            Err(error) => self.replace(&error),
        }
    }

    /// Moves the tasks that have ended since the last call to `ended`, in place of what it has.
    pub(crate) fn take_ended(&mut self, ended: &mut Vec<RtEnd>) {
        ended.clear();
        std::mem::swap(&mut self.ended, ended);
    }

    /// Units of the device.
    pub(crate) fn units(&self) -> u32 {
        self.info.units
    }

    /// Returns whether blocks of this best-effort client may still run here.
    pub(crate) fn runs_blocks_of(&self, client: u64) -> bool {
        self.donated.iter().any(|donation| donation.owner == client)
    }

    /// A queue that failed fails its tasks and is replaced: the device may still be there.
    #[cold]
    pub(super) fn replace(&mut self, error: &Error) {
        let running = self.take_running();
        let error = match self.device.queue(self.priority, None) {
            Ok(fresh) => {
                self.queue = fresh; // drops the old one, so that nothing of it runs any more
                (self.next, self.percent) = (0, 100);
                self.paddable.clear();
                self.donated.drain(..).for_each(drop_caught);
                self.wake_service();
                error.clone()
            }
            Err(why) => {
                self.abandoned.extend(self.donated.drain(..));
                self.fail_waiting(&why);
                // The old queue is still there, and what the device has of it may run.
                let why = format!("{error}; a queue in its place cannot be opened: {why}");
                Error::DeviceLost { backend: D::NAME, why }
            }
        };
        running.iter().for_each(|request| request.fail(error.clone()));
    }

    /// Asks the device for nothing more: what it has ends with `error`, and keeps its memory.
    #[cold]
    pub(crate) fn abandon(&mut self, error: &Error) {
        self.queue.abandon();
        let running = self.take_running();
        running.iter().for_each(|request| request.fail(error.clone()));
        self.abandoned.extend(self.donated.drain(..));
    }

    fn take_running(&mut self) -> Vec<Request<D>> {
        let feeding = self.feeding.take().map(|feeding| feeding.request);
        self.launched.drain(..).map(|task| task.request).chain(feeding).collect()
    }

    fn fail_waiting(&mut self, error: &Error) {
        self.waiting.drain(..).flatten().for_each(|request| request.ticket.fail(error.clone()));
    }

    /// Launches nothing more; what is on the device ends as it would.
    pub(crate) fn close(&mut self, error: &Error) {
        self.fail_waiting(error);
        if let Some(Feeding { request, .. }) = self.feeding.take() {
            self.note_launched(request, Some(error.clone()));
        }
    }

    /// The task is on the device as far as it will be.
    pub(super) fn note_launched(&mut self, request: Request<D>, refused: Option<Error>) {
        self.launched.push_back(Launched { request, end: self.next, refused });
    }

    /// Returns whether the device has ended all that it was given. Doesn't block.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.note_finished(self.device.clock());
        self.launched.is_empty()
    }

    /// The next command's position.
    pub(super) fn take_seq(&mut self) -> Seq {
        self.next += 1;
        Seq(self.next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fake::Fake;
    use std::sync::atomic::Ordering;
    use std::thread;

    fn queue(device: &Fake) -> RtQueue<Fake> {
        RtQueue::open(device, Priority::RealTime).expect("a queue")
    }

    /// Returns the thread that the device wakes.
    fn woken(rt: &RtQueue<Fake>) -> thread::ThreadId {
        rt.queue.wakes.as_ref().expect("it was told").id()
    }

    #[test]
    fn queue_without_work_is_not_polled() {
        let device = Fake::default();
        let mut rt = queue(&device);
        assert!(!rt.wake(thread::current()) && !rt.needs_polling());
        device.0.claims_to_wake.store(true, Ordering::SeqCst);
        assert!(rt.wake(thread::current()) && !rt.needs_polling());
    }

    #[test]
    fn device_wakes_the_service_thread_when_no_client_waits() {
        let mut rt = queue(&Fake::default());
        rt.wake_service();
        assert!(rt.queue.wakes.is_none(), "no thread serves yet");
        let service = thread::spawn(|| ()).thread().clone();
        rt.served_by(service.clone());
        assert_eq!(woken(&rt), service.id());
        rt.wake(thread::current());
        assert_eq!(woken(&rt), thread::current().id(), "a client waits");
        rt.wake_service();
        assert_eq!(woken(&rt), service.id());
        rt.wake(thread::current());
        rt.replace(&Error::Cancelled);
        assert_eq!(woken(&rt), service.id());
    }

    #[test]
    fn positions_follow_each_other_from_zero() {
        let mut rt = queue(&Fake::default());
        assert_eq!([rt.take_seq(), rt.take_seq(), rt.take_seq()], [Seq(0), Seq(1), Seq(2)]);
    }
}
