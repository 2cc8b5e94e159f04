//! A client's view of its lanes, which the thread that reads frames keeps up to date.

use super::event::Event;
use super::mirror::Mirror;
use crate::error::of_ended;
use crate::messages::{Advance, Failed, PaddingEnded, Returned};
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_wire::{Cold, Cursor, Endpoint, Handler, Hot, Message};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Largest position or time in nanoseconds that a server tells: one more can be added.
const MAX_TOLD: u64 = 1 << 62;

/// Progress of one lane.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) cursor: Cursor,
    failed: OnceLock<Error>,
    /// Position at which a thread that drains the queue is unparked; 0 for none. Written by the
    /// queue's owner, which then reads the cursor again.
    drain_at: AtomicU64,
    /// Facts to be told about commands, by position.
    marks: Mutex<VecDeque<(u64, Mark)>>,
    /// Answer to the newest drain.
    returned: Mutex<Option<Returned>>,
    /// Positions of the commands whose padding may not have ended, in order.
    padded: Mutex<VecDeque<u64>>,
}

/// Something to be told when a command has ended.
#[derive(Debug)]
pub(crate) enum Mark {
    /// Reached at its beginning.
    Begin(Event),
    /// Reached at its end.
    End(Event),
    /// Blocks that the launch which padded it has left.
    Left(Arc<AtomicU32>),
    /// Takes bytes of its end.
    Output(Output),
}

/// Part of host memory that a command writes.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) mirror: Arc<Mirror>,
    pub(crate) range: Range<usize>,
}

impl Lane {
    /// Returns the position before which all commands have ended.
    ///
    /// # Errors
    ///
    /// Why the lane has failed.
    pub(crate) fn completed(&self) -> Result<u64> {
        match self.failed.get() {
            None => Ok(self.cursor.done()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Returns whether all commands before `end` have ended. If not, the thread is unparked when
    /// they have.
    ///
    /// # Errors
    ///
    /// Why the lane has failed.
    pub(crate) fn has_drained(&self, end: u64) -> Result<bool> {
        self.drain_at.store(end, Ordering::SeqCst);
        Ok(self.completed()? >= end)
    }

    /// Has this told when the command at `seq` has ended.
    pub(crate) fn mark(&self, seq: u64, mark: Mark) {
        self.marks.lock().push_back((seq, mark));
    }

    /// Forgets what was to be told of commands from `seq` on: they are taken back.
    pub(crate) fn unmark(&self, seq: u64) {
        self.marks.lock().retain(|(at, _)| *at < seq);
        self.padded.lock().retain(|at| *at < seq);
    }

    /// The command at `seq` has padding.
    pub(crate) fn pad(&self, seq: u64) {
        self.padded.lock().push_back(seq);
    }

    /// Returns the position before which all padding has ended.
    ///
    /// # Errors
    ///
    /// Why the lane has failed.
    pub(crate) fn padding_ended(&self) -> Result<u64> {
        let done = self.completed()?;
        Ok(self.padded.lock().front().map_or(done, |oldest| done.min(*oldest)))
    }

    fn end_padding(&self, seq: u64) {
        self.padded.lock().retain(|at| *at >= seq);
    }

    /// Takes the answer to a drain, if it is there.
    pub(crate) fn take_returned(&self, ticket: u64) -> Option<Returned> {
        let mut returned = self.returned.lock();
        if returned.as_ref().is_some_and(|returned| returned.ticket.get() == ticket) {
            return returned.take();
        }
        None
    }

    fn advance(&self, advance: &Advance, mut outputs: &[u8]) -> reef_wire::Result<()> {
        let [done, began, ended] = [advance.done, advance.began, advance.ended].map(|n| n.get());
        if let Some(n) = [done, began, ended].into_iter().find(|n| *n > MAX_TOLD) {
            let text = format!("position or time of a lane: must be at most {MAX_TOLD}, got {n}");
            return Err(reef_wire::Error::Protocol(text));
        }
        let [began, ended] = [began, ended].map(Duration::from_nanos);
        let mut marks = self.marks.lock();
        while marks.front().is_some_and(|(seq, _)| *seq < done) {
            match marks.pop_front() {
                Some((_, Mark::Begin(event))) => event.set(began),
                Some((_, Mark::End(event))) => event.set(ended),
                Some((_, Mark::Left(left))) => {
                    left.store(advance.left.get() as u32, Ordering::Release);
                }
                Some((_, Mark::Output(Output { mirror, range }))) => {
                    let (bytes, rest) = outputs.split_at_checked(range.len()).ok_or_else(|| {
                        let (want, got) = (range.len(), outputs.len());
                        reef_wire::Error::Protocol(format!(
                            "output: must have {want} bytes, got {got}"
                        ))
                    })?;
                    mirror.receive(range.start, bytes);
                    outputs = rest;
                }
                None => {}
            }
        }
        drop(marks);
        self.cursor.advance(done);
        let drain_at = self.drain_at.load(Ordering::SeqCst);
        if drain_at != 0 && drain_at <= done {
            self.drain_at.store(0, Ordering::SeqCst);
            self.cursor.wake();
        }
        Ok(())
    }

    fn fail(&self, error: Error) {
        let _ = self.failed.set(error); // the first one counts
        self.cursor.wake();
    }
}

/// All lanes of a session, and its first error.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: Mutex<HashMap<u32, Arc<Lane>>>,
    failed: Mutex<Option<Error>>,
}

impl Lanes {
    pub(crate) fn open(&self, number: u32) -> Arc<Lane> {
        self.lanes.lock().entry(number).or_default().clone()
    }

    pub(crate) fn close(&self, number: u32) {
        self.lanes.lock().remove(&number);
    }

    /// Takes the error of a message that had no reply.
    ///
    /// # Errors
    ///
    /// That error.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.lock().take().map_or(Ok(()), Err)
    }
}

/// Takes what the server pushes.
pub(crate) struct Pushed(pub(crate) Arc<Lanes>);

impl Handler for Pushed {
    fn handle(&mut self, message: &Message<'_>, _: &Endpoint) -> reef_wire::Result<()> {
        let lane = self.0.lanes.lock().get(&message.lane).cloned();
        match message.op {
            Advance::OP => {
                let (advance, outputs) = Advance::split(message.body)?;
                if let Some(lane) = lane {
                    lane.advance(advance, outputs)?;
                }
            }
            Returned::OP => {
                let (returned, _) = Returned::split(message.body)?;
                if let Some(lane) = lane {
                    *lane.returned.lock() = Some(*returned);
                    lane.cursor.wake();
                }
            }
            PaddingEnded::OP => {
                let (ended, _) = PaddingEnded::split(message.body)?;
                if let Some(lane) = lane {
                    lane.end_padding(ended.seq.get());
                }
            }
            Failed::OP => {
                let error = Failed::from_bytes(message.body)?.error.into();
                match lane {
                    Some(lane) => lane.fail(error),
                    None => *self.0.failed.lock() = Some(error),
                }
            }
            op => {
                let text = format!("operation {op}: cannot come from a server");
                return Err(reef_wire::Error::Protocol(text));
            }
        }
        Ok(())
    }

    fn ended(&mut self, why: &reef_wire::Error) {
        let error = of_ended(why);
        self.0.lanes.lock().values().for_each(|lane| lane.fail(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_wire::little_endian::U64;

    #[test]
    fn positions_and_times_that_no_lane_reaches_are_refused() {
        let lane = Lane::default();
        let none = U64::new(0);
        for told in [MAX_TOLD + 1, u64::MAX].map(U64::new) {
            for [done, began, ended] in [[told, none, none], [none, told, none], [none, none, told]]
            {
                lane.advance(&Advance { done, began, ended, left: none }, &[]).unwrap_err();
            }
        }
        assert_eq!(lane.completed(), Ok(0));
    }

    #[test]
    fn padding_ends_when_the_server_says_so() {
        let lane = Lane::default();
        [1, 4].into_iter().for_each(|seq| lane.pad(seq));
        assert_eq!(lane.padding_ended(), Ok(0));
        let [done, none] = [6, 0].map(U64::new);
        lane.advance(&Advance { done, began: none, ended: none, left: none }, &[]).unwrap();
        assert_eq!((lane.completed(), lane.padding_ended()), (Ok(6), Ok(1)));
        lane.end_padding(2);
        assert_eq!(lane.padding_ended(), Ok(4));
        lane.end_padding(5);
        assert_eq!(lane.padding_ended(), Ok(6));
    }
}
