//! Launches what may start on the real-time queue, padded where it fits.

use crate::backend::command::{Command, Launch};
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::Seq;
use crate::backend::queue::{Queue, issue};
use crate::dispatch::padding::{Padded, PaddingSource};
use crate::dispatch::rt_queue::RtQueue;
use crate::dispatch::task::Request;
use crate::dkp;
use std::slice::Iter;

/// Kernels that could be padded and are launched ahead of being finished.
///
/// One more than runs, so that the device never waits for us; not more, because each is padded with
/// what is known when it is launched.
const PADDABLE_AHEAD: usize = 2;

/// What a [`RtQueue::feed`] did.
#[derive(Debug, Default)]
pub(crate) struct FeedReport {
    /// Kernels that were launched with best-effort blocks beside them.
    pub(crate) padded: u64,
    /// Those blocks.
    pub(crate) padded_blocks: u64,
    /// A kernel waits until it can be padded.
    pub(crate) held_back: bool,
    /// Something has finished meanwhile.
    pub(crate) again: bool,
}

impl<D: Device> RtQueue<D> {
    /// Launches the tasks that wait at these positions, in this order, with blocks of `source` beside them
    /// where they fit.
    ///
    /// A task that can't be launched fails alone.
    pub(crate) fn feed(
        &mut self,
        start: &[usize],
        mut source: Option<&mut impl PaddingSource<D>>,
    ) -> FeedReport {
        let mut fed = FeedReport::default();
        let mut start = start.iter();
        while let Some((request, at)) = self.next_to_feed(&mut start) {
            match self.feed_one(&request, at, &mut source, &mut fed) {
                Ok(at) if at < request.commands.len() => {
                    self.feeding = Some((request, at));
                    fed.held_back = true;
                    break;
                }
                Ok(_) => self.note_launched(request, None),
                Err(error) => self.refuse(request, error),
            }
        }
        self.waiting.retain(Option::is_some);
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

    /// The task that is launched in part, or else the next one to start, and how far it is.
    fn next_to_feed(&mut self, start: &mut Iter<'_, usize>) -> Option<(Request<D>, usize)> {
        let feeding = self.feeding.take();
        let mut next = || start.find_map(|&at| self.waiting.get_mut(at)?.take());
        feeding.or_else(|| next().map(|request| (request, 0)))
    }

    /// Launches commands of a task from `at` on; returns how far it came.
    fn feed_one(
        &mut self,
        request: &Request<D>,
        mut at: usize,
        source: &mut Option<&mut impl PaddingSource<D>>,
        fed: &mut FeedReport,
    ) -> Result<usize> {
        if at == 0 {
            let seq = self.take_seq();
            self.queue.record(seq, &request.events[0])?;
        }
        while let Some(command) = request.commands.get(at) {
            let Some(padded) = self.launch(command, source)? else {
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

    /// Launches one command; says with how many blocks it was padded, or `None` if it should wait until few kernels are ahead.
    ///
    /// Which blocks fit is known when a kernel is about to run, not before: kernels that leave units
    /// free wait until few of them are ahead.
    fn launch(
        &mut self,
        command: &Command<D>,
        source: &mut Option<&mut impl PaddingSource<D>>,
    ) -> Result<Option<u32>> {
        if let (Command::Launch(rt), Some(source)) = (command, source)
            && !source.is_empty()
            && self.leaves_units_free(rt)
        {
            if self.paddable.len() >= PADDABLE_AHEAD {
                return Ok(None);
            }
            self.paddable.push_back(self.next + 1);
            if let Some(padded) = source.pad(rt, &self.info)? {
                let seq = self.take_seq();
                let Padded { padding, be, record } = &padded;
                self.queue.launch_padded(seq, rt, padding, be, record)?;
                return Ok(Some(padding.be_blocks));
            }
        }
        let seq = self.take_seq();
        issue(command, seq, None, &mut self.queue)?;
        Ok(Some(0))
    }

    fn leaves_units_free(&self, rt: &Launch<D>) -> bool {
        rt.profile().is_some() && dkp::rt_units(rt.blocks(), &self.info) < self.info.units
    }
}
