//! The NVIDIA backend, on the driver API alone.
//!
//! The driver library is opened at run time, so this builds and starts on machines without it; opening a
//! device there is an error that says what was tried. Device code ships with the crate.

mod builtin;
mod cache;
mod clock;
mod context;
mod driver;
mod event;
mod facts;
#[cfg(test)]
mod fake;
mod flag;
mod graph;
mod guard;
mod guarded;
mod image;
mod kernel;
mod memory;
mod module;
mod nvrtc;
mod operators;
mod options;
mod own;
mod progress;
mod queue;
mod record;
mod slots;
mod source;
mod split;
mod stream;
mod word;

pub use event::Event;
pub use flag::Flag;
pub use graph::Graph;
pub use kernel::Kernel;
pub use memory::Buffer;
pub use module::Module;
pub use options::Precision;
pub use queue::Queue;
pub use record::Record;

use builtin::Builtin;
use clock::Clock;
use context::Context;
use driver::Driver;
use facts::Facts;
use guarded::Guarded;
use image::Build;
use module::{Builds, Code};
use options::Options;
use progress::Progress;
use reef_core::dkp::Resources;
use reef_core::{Command, Device, DeviceInfo, Launch, PreemptLevel, Priority, Result};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stream::{Stream, Writer};

/// An open device.
#[derive(Debug, Clone)]
pub struct Cuda(Arc<Open>);

#[derive(Debug)]
struct Open {
    builtin: Builtin,
    /// kernels/network.cu, loaded when a network first wants it.
    network: OnceLock<Builds>,
    writer: Writer,
    clock: Arc<Clock>,
    options: Options,
    /// Of queues that nobody stops.
    never: Flag,
    context: Arc<Context>,
}

/// One line for each device: its name, compute capability and multiprocessors.
///
/// # Errors
///
/// `NotFound` if there is no driver library, saying where it was looked for; the driver's.
pub fn devices() -> Result<Vec<String>> {
    let driver = Driver::get()?;
    (0..facts::count(driver)?).map(|ordinal| facts::describe(driver, ordinal)).collect()
}

impl Cuda {
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.0.context.facts
    }

    pub(crate) fn builtin(&self) -> &Builtin {
        &self.0.builtin
    }

    /// Kernels of networks.
    pub(crate) fn network(&self) -> Result<&Builds> {
        let network = &self.0.network;
        if let Some(loaded) = network.get() {
            return Ok(loaded);
        }
        let loaded = builds(self.context(), "network")?;
        Ok(network.get_or_init(|| loaded)) // of two that load at once one is kept
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn open_with(driver: &'static Driver, ordinal: usize, options: Options) -> Result<Self> {
        let context = Arc::new(Context::open(driver, ordinal, options.split)?);
        let builtin = Builtin::load(&builds(&context, "builtin")?)?;
        let writer = Writer { by_stream: context.facts.stream_memory_ops, store: builtin.store };
        let never = Flag::new(&context, PreemptLevel::HostQueue, writer)?;
        let clock = Arc::new(Clock::new());
        let cuda = Self(Arc::new(Open {
            builtin,
            network: OnceLock::new(),
            writer,
            clock,
            options,
            never,
            context,
        }));
        cuda.set_clock()?;
        Ok(cuda)
    }

    /// How networks are computed on this device.
    pub fn precision(&self) -> Precision {
        let own = if self.facts().capability >= (8, 0) { Precision::Tf32 } else { Precision::Fp32 };
        self.0.options.precision.unwrap_or(own)
    }

    pub(crate) fn writer(&self) -> Writer {
        self.0.writer
    }

    /// Lets the clock meet the device's once, so that the first event has its place.
    fn set_clock(&self) -> Result<()> {
        let mut queue = self.queue(Priority::RealTime, None)?;
        for seq in 0..8 {
            let event = self.event()?;
            reef_core::Queue::record(&mut queue, reef_core::Seq(seq), &event)?;
            while reef_core::Queue::completed(&mut queue)? <= reef_core::Seq(seq) {
                std::hint::spin_loop();
            }
        }
        self.clock().open();
        Ok(())
    }
}

/// Both builds of a source that ships with the crate.
fn builds(context: &Arc<Context>, name: &str) -> Result<Builds> {
    let load = |build| Code::load(context, &image::find(name, build, context.facts.capability)?);
    Ok(Builds { plain: load(Build::Plain)?, guarded: load(Build::Guarded)? })
}

impl Device for Cuda {
    const NAME: &'static str = driver::BACKEND;
    type Buffer = Buffer;
    type Kernel = Kernel;
    type Event = Event;
    type Record = Record;
    type Graph = Graph;
    type Queue = Queue;
    type Preemptor = Flag;

    fn open(ordinal: usize, options: &str) -> Result<Self> {
        let options = Options::parse(options)?;
        Self::open_with(Driver::get()?, ordinal, options)
    }

    fn info(&self) -> DeviceInfo {
        let facts = self.facts();
        DeviceInfo {
            name: facts.name.clone(),
            units: facts.units,
            blocks_per_unit: facts.blocks_per_unit,
            threads_per_unit: facts.threads_per_unit,
            registers_per_unit: facts.registers_per_unit,
            shared_per_unit: facts.shared_per_unit,
            level: PreemptLevel::All,
            features: facts.features(),
        }
    }

    fn clock(&self) -> Duration {
        self.0.clock.now()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Buffer::device(self.context(), bytes)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer> {
        Buffer::host(self.context(), bytes)
    }

    fn write(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<()> {
        buffer.write(offset, data)
    }

    fn read(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        buffer.read(offset, data)
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.builtin().kernel(name)
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.address()
    }

    fn resources(&self, launch: &Launch<Self>) -> Resources {
        let threads = launch.block().iter().product();
        let kernel = launch.kernel();
        Resources { threads, registers: threads * kernel.registers(), shared: kernel.shared() }
    }

    fn beside(&self) -> Option<u32> {
        Some(self.0.options.beside.unwrap_or(self.facts().units / 2))
    }

    fn event(&self) -> Result<Event> {
        Event::new(self.context(), &self.0.clock)
    }

    fn record(&self, launch: &Launch<Self>) -> Result<Record> {
        Ok(Record::new(launch.blocks()))
    }

    fn graph(&self, commands: &[Command<Self>]) -> Result<Graph> {
        Graph::new(self, commands)
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<Flag> {
        Flag::new(self.context(), level, self.writer())
    }

    fn queue(&self, priority: Priority, preemptor: Option<&Flag>) -> Result<Queue> {
        let builtin = self.builtin();
        Ok(Queue {
            stream: Stream::open(self.context(), priority)?,
            flag: preemptor.unwrap_or(&self.0.never).clone(),
            progress: Progress::new(self.context(), self.writer())?,
            guarded: Guarded::new(self.context(), builtin.report)?,
            in_flight: VecDeque::new(),
            draining: None,
            priority,
            width: None,
            epoch_word: None,
            token: Arc::new(()),
            newest_event: None,
            cuda: self.clone(),
        })
    }
}
