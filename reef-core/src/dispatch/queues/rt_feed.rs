//! Launches what may start on the real-time queue, padded where it fits.

use crate::backend::command::{Command, Launch};
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::Seq;
use crate::backend::queue::{Queue, issue};
use crate::dispatch::padding_plan;
use crate::dispatch::queues::padding::{Padded, PaddingSource};
use crate::dispatch::queues::rt_queue::{Donation, Feeding, RtQueue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::Iter;

/// Kernels that could be padded and are launched ahead of being finished.
///
/// One more than runs, so that the device never waits for us; not more, because each is padded with
/// what is known when it is launched.
const PADDABLE_AHEAD: usize = 2;

/// Report of a [`RtQueue::feed`].
#[derive(Debug, Default)]
pub(crate) struct FeedReport {
    /// Kernels that were launched with best-effort blocks next to them.
    pub(crate) padded: u64,
    /// Number of these blocks.
    pub(crate) padded_blocks: u64,
    /// A kernel waits until it can be padded.
    pub(crate) held_back: bool,
    /// Something has finished meanwhile.
    pub(crate) again: bool,
}

impl<D: Device> RtQueue<D> {
    /// Launches the tasks that wait at these positions, in this order, with blocks of `source` next
    /// to them where they fit.
    ///
    /// A task that can't be launched fails alone.
    pub(crate) fn feed(
        &mut self,
        start: &[usize],
        mut source: Option<&mut impl PaddingSource<D>>,
    ) -> FeedReport {
        let mut fed = FeedReport::default();
        let mut start = start.iter();
        while self.begin_next(&mut start) {
            let feed = AssertUnwindSafe(|| self.feed_one(&mut source, &mut fed));
            match catch_unwind(feed) {
                Ok(Ok(true)) => self.end_feeding(None),
                Ok(Ok(false)) => {
                    fed.held_back = true;
                    break;
                }
                Ok(Err(error)) => self.refuse(error),
                Err(_) => {
                    self.replace(&Error::state("a real-time queue of the device", "it panicked"))
                }
            }
        }
        self.waiting.retain(Option::is_some);
        fed.again = self.wake_at_next();
        fed
    }

    /// Makes the next task to start the one that is fed, unless another is launched in part.
    /// Returns whether there is one.
    fn begin_next(&mut self, start: &mut Iter<'_, usize>) -> bool {
        if self.feeding.is_none() {
            let next = start.find_map(|&at| self.waiting.get_mut(at)?.take());
            self.feeding = next.map(|request| Feeding { request, begun: false, at: 0 });
        }
        self.feeding.is_some()
    }

    /// The task is on the device, as far as it will be.
    fn end_feeding(&mut self, refused: Option<Error>) {
        if let Some(Feeding { request, .. }) = self.feeding.take() {
            self.note_launched(request, refused);
        }
    }

    /// Fails a task of which something may be on the device, when that has ended.
    #[cold]
    pub(super) fn refuse(&mut self, error: Error) {
        let seq = self.take_seq(); // the refused command's own is never reached
        let Some(feeding) = &self.feeding else { return };
        let begun = feeding.begun; // or nothing of it is on the device
        if begun && self.queue.record(seq, &feeding.request.events[1]).is_ok() {
            self.end_feeding(Some(error));
        } else if let Some(feeding) = self.feeding.take() {
            feeding.request.fail(error); // nothing runs on a queue that fails
        }
    }

    /// Launches commands of the task that is fed; returns whether that was the rest of it.
    fn feed_one(
        &mut self,
        source: &mut Option<&mut impl PaddingSource<D>>,
        fed: &mut FeedReport,
    ) -> Result<bool> {
        let Some(Feeding { request, begun, at }) = &self.feeding else { return Ok(true) };
        let (commands, [start, end]) = (request.commands.clone(), request.events.clone());
        let (mut begun, at) = (*begun, *at);
        if !begun && (source.is_some() || commands.is_empty()) {
            self.begin(&start)?; // its first kernel may wait for what it is to be padded with
            begun = true;
        }
        if commands.is_empty() {
            self.record(&end)?;
        }
        for (at, command) in commands.iter().enumerate().skip(at) {
            let last = at + 1 == commands.len();
            let events = [(!begun).then_some(&start), last.then_some(&end)];
            let Some(blocks) = self.launch(command, events, source)? else { return Ok(false) };
            fed.padded += u64::from(blocks > 0);
            fed.padded_blocks += u64::from(blocks);
            begun = true;
            self.feeding.as_mut().expect("it was there").at = at + 1;
        }
        Ok(true)
    }

    fn record(&mut self, event: &D::Event) -> Result<()> {
        let seq = self.take_seq();
        self.queue.record(seq, event)
    }

    fn begin(&mut self, start: &D::Event) -> Result<()> {
        self.record(start)?;
        self.note_begun();
        Ok(())
    }

    /// From now on something of the task that is fed may be on the device.
    fn note_begun(&mut self) {
        if let Some(feeding) = &mut self.feeding {
            feeding.begun = true;
        }
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

    /// Launches one command between these events; says with how many blocks it was padded, or
    /// `None` if it should wait.
    ///
    /// The blocks that fit are known when a kernel is about to run, not before: kernels that are
    /// worth padding wait until few of them are ahead.
    fn launch(
        &mut self,
        command: &Command<D>,
        events: [Option<&D::Event>; 2],
        source: &mut Option<&mut impl PaddingSource<D>>,
    ) -> Result<Option<u32>> {
        if let (Command::Launch(rt), Some(source)) = (command, source)
            && !source.is_empty()
            && self.is_worth_padding(rt)
        {
            if self.paddable.len() >= PADDABLE_AHEAD {
                return Ok(None);
            }
            self.paddable.push_back(self.next + 1);
            if let Some(padded) = source.pad(rt, &self.info) {
                let seq = self.take_seq();
                let Padded { owner, padding, be, record } = padded;
                self.queue.launch_padded(seq, rt, &padding, &be, &record)?;
                self.donated.push_back(Donation { owner, end: seq.0 + 1, _be: be });
                events[1].map_or(Ok(()), |end| self.record(end))?;
                return Ok(Some(padding.be_blocks));
            }
        }
        self.launch_alone(command, events)?;
        Ok(Some(0))
    }

    fn launch_alone(&mut self, command: &Command<D>, events: [Option<&D::Event>; 2]) -> Result<()> {
        self.note_begun();
        if events.iter().any(Option::is_some) {
            let seq = self.take_seq();
            if self.queue.launch_between(seq, command, events)? {
                return Ok(());
            }
        }
        let [start, end] = events;
        start.map_or(Ok(()), |start| self.record(start))?;
        let seq = self.take_seq();
        issue(command, seq, None, &mut self.queue)?;
        end.map_or(Ok(()), |end| self.record(end))
    }

    /// It leaves units free, and for long enough.
    fn is_worth_padding(&self, rt: &Launch<D>) -> bool {
        rt.profile().is_some_and(|profile| profile.micros >= self.info.padded_micros)
            && padding_plan::rt_units(rt.blocks(), &self.info) < self.info.units
    }
}
