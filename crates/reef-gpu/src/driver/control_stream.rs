//! The stream in which words are set past all other work: those that stop blocks, and new ones.
//!
//! One for all preemptors of a device. A driver that maps streams to few hardware queues (four of
//! each priority, AMD's) would else put one of them, and with it a stop, behind a real-time kernel
//! that shares its queue.
//!
//! Values that are set here take effect in their order, so a word that is taken again and set to
//! zero is never changed by a value that its last owner had set.

use crate::driver::context::Context;
use crate::driver::handles::cloned;
use crate::driver::stream::{Stream, Writer};
use crate::hal::calls::Vendor;
use reef_core::{Priority, Result};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct ControlStream<V: Vendor>(Arc<Inner<V>>);

cloned!(ControlStream);

#[derive(Debug)]
struct Inner<V: Vendor> {
    stream: Stream<V>,
    writer: Writer<V>,
}

impl<V: Vendor> ControlStream<V> {
    /// A stream of the highest priority.
    pub(crate) fn open(context: &Arc<Context<V>>, writer: Writer<V>) -> Result<Self> {
        let stream = Stream::open(context, Priority::RealTime)?;
        Ok(Self(Arc::new(Inner { stream, writer })))
    }

    pub(crate) fn context(&self) -> &Arc<Context<V>> {
        self.0.stream.context()
    }

    /// Sets a word. Doesn't wait.
    pub(crate) fn write(&self, address: u64, value: u32) -> Result<()> {
        self.0.writer.write(&self.0.stream, address, value)
    }

    /// Blocks until all words are set.
    pub(crate) fn wait(&self) -> Result<()> {
        self.0.stream.wait()
    }
}
