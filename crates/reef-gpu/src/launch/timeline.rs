//! Progress of a queue: a signal that the stream writes and the host reads.
//!
//! A mark costs the device a microsecond or two, so it is put behind what was launched by
//! `completed`, and one mark serves all that was launched until then.

use crate::driver::context::Context;
use crate::driver::event::Event;
use crate::driver::signal::HostSignal;
use crate::driver::stream::{Stream, Writer};
use crate::hal::calls::Vendor;
use reef_core::Result;
use std::collections::VecDeque;
use std::sync::Arc;

/// After this many polls without progress the driver is asked whether the device is still there.
const POLLS_PER_CHECK: u32 = 4096;

/// A command that notes its own end.
#[derive(Debug)]
pub(crate) struct Watch<V: Vendor> {
    /// The position behind it.
    pub(crate) position: u64,
    /// Event that is reached when it has ended.
    pub(crate) end: Event<V>,
    /// Events that are then reached when others were, which the command has set: from, to.
    pub(crate) copies: [Option<[Event<V>; 2]>; 2],
}

#[derive(Debug)]
pub(crate) struct Timeline<V: Vendor> {
    word: HostSignal<V>,
    writer: Writer<V>,
    /// Position behind the newest command.
    launched: u64,
    /// The word will come to this.
    marked: u64,
    /// The word, or what is watched, came to this.
    done: u64,
    /// Commands that write no word but set an event, in order.
    watched: VecDeque<Watch<V>>,
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
            watched: VecDeque::new(),
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

    /// As [`launch`](Self::launch), of a command that sets an event when it has ended.
    pub(crate) fn launch_watched(&mut self, watch: Watch<V>) {
        self.launch_marked(watch.position);
        self.watched.push_back(watch);
    }

    /// Address of the word, for a command that writes it.
    pub(crate) fn address(&self) -> u64 {
        self.word.address()
    }

    pub(crate) fn launched(&self) -> u64 {
        self.launched
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Returns whether all that was launched has ended, as far as the device has told.
    pub(crate) fn is_idle(&self) -> bool {
        self.done == self.launched
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
    pub(crate) fn poll(&self) -> u64 {
        // Behind, if what was watched came last.
        let ahead = self.word.get32().wrapping_sub(self.done as u32).cast_signed().max(0);
        let word = self.done + u64::from(ahead.unsigned_abs());
        let ended = self.watched.iter().take_while(|watch| watch.end.stamp().is_some());
        ended.last().map_or(word, |watch| word.max(watch.position))
    }

    /// Takes the position that [`poll`](Self::poll) returned. Returns whether it has advanced.
    pub(crate) fn note(&mut self, position: u64) -> bool {
        let news = position > self.done;
        self.done = position;
        while let Some(watch) = self.watched.pop_front_if(|watch| watch.position <= position) {
            watch.copies.iter().flatten().for_each(|[from, to]| to.copy(from));
        }
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
        self.watched.clear();
        self.word.set(u64::from(position as u32));
        (self.launched, self.marked, self.done) = (position, position, position);
    }
}
