//! How far a queue has come: a signal that the stream writes and the host reads.
//!
//! A mark costs the device a microsecond or two, so it is put behind what was launched by
//! `completed`, and one mark serves all that was launched until then.

use crate::driver::context::Context;
use crate::driver::signal::HostSignal;
use crate::driver::stream::{Stream, Writer};
use crate::vendor::calls::Vendor;
use reef_core::Result;
use std::sync::Arc;

/// After this many polls without news the driver is asked whether the device is still there.
const POLLS_PER_CHECK: u32 = 4096;

#[derive(Debug)]
pub(crate) struct Timeline<V: Vendor> {
    word: HostSignal<V>,
    writer: Writer<V>,
    /// Position behind the newest command.
    launched: u64,
    /// The word will come to this.
    marked: u64,
    /// The word came to this.
    done: u64,
    polls: u32,
}

impl<V: Vendor> Timeline<V> {
    pub(crate) fn new(context: &Arc<Context<V>>, writer: Writer<V>) -> Result<Self> {
        Ok(Self {
            word: HostSignal::new(context)?,
            writer,
            launched: 0,
            marked: 0,
            done: 0,
            polls: 0,
        })
    }

    /// Commands before `position` have been launched.
    pub(crate) fn launch(&mut self, position: u64) {
        self.launched = position;
    }

    /// As [`launch`](Self::launch), of a command that writes the word itself.
    pub(crate) fn launch_marked(&mut self, position: u64) {
        self.launched = position;
        self.marked = position;
    }

    /// Where such a command writes, and what.
    pub(crate) fn address(&self) -> u64 {
        self.word.address()
    }

    pub(crate) fn launched(&self) -> u64 {
        self.launched
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Puts a mark behind what has none.
    pub(crate) fn mark(&mut self, stream: &Stream<V>) -> Result<()> {
        if self.marked == self.launched {
            return Ok(());
        }
        self.writer.write(stream, self.word.address(), self.launched as u32)?;
        self.marked = self.launched;
        Ok(())
    }

    /// Position that the device has come to, as far as it has told.
    pub(crate) fn look(&self) -> u64 {
        let ahead = self.word.get32().wrapping_sub(self.done as u32);
        self.done + u64::from(ahead)
    }

    /// Takes what [`look`](Self::look) gave; returns whether that is news.
    pub(crate) fn note(&mut self, position: u64) -> bool {
        let news = position > self.done;
        self.done = position;
        news
    }

    /// Now and then asks the driver whether the device is still there.
    pub(crate) fn check(&mut self, stream: &Stream<V>, news: bool) -> Result<()> {
        self.polls = if news { 0 } else { self.polls + 1 };
        if self.polls < POLLS_PER_CHECK {
            return Ok(());
        }
        self.polls = 0;
        stream.is_idle().map(|_| ())
    }

    /// Starts again at `position`. Only while the stream is empty.
    pub(crate) fn rewind(&mut self, position: u64) {
        self.word.set(u64::from(position as u32));
        (self.launched, self.marked, self.done) = (position, position, position);
    }
}
