//! A client's view of its lanes, which the thread that reads frames keeps up to date.

use super::event::Event;
use crate::error::{NAME, of_wire};
use crate::messages::{Advance, Failed};
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_wire::{Cold, Cursor, Endpoint, Handler, Hot, Message};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Progress of one lane.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) cursor: Cursor,
    failed: OnceLock<Error>,
    /// Position at which a thread that drains the queue is unparked; 0 for none. Written by the
    /// queue's owner, which then reads the cursor again.
    drain_at: AtomicU64,
    /// Events to be reached, by position.
    records: Mutex<VecDeque<(u64, Event)>>,
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

    /// Has the event reached when the command at `seq` has ended.
    pub(crate) fn record(&self, seq: u64, event: Event) {
        self.records.lock().push_back((seq, event));
    }

    fn advance(&self, done: u64, at: Duration) {
        let mut records = self.records.lock();
        while records.front().is_some_and(|(seq, _)| *seq < done) {
            let (_, event) = records.pop_front().expect("it was just there");
            event.set(at);
        }
        drop(records);
        self.cursor.advance(done);
        let drain_at = self.drain_at.load(Ordering::SeqCst);
        if drain_at != 0 && drain_at <= done {
            self.drain_at.store(0, Ordering::SeqCst);
            self.cursor.wake();
        }
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
                let (advance, _) = Advance::split(message.body)?;
                if let Some(lane) = lane {
                    lane.advance(advance.done.get(), Duration::from_nanos(advance.at.get()));
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
        let error = match of_wire(why.clone()) {
            lost @ Error::DeviceLost { .. } => lost,
            other => Error::DeviceLost { backend: NAME, why: other.to_string() },
        };
        self.0.lanes.lock().values().for_each(|lane| lane.fail(error.clone()));
    }
}
