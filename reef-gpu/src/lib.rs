//! What the GPU backends do alike: devices, queues that can be stopped, graphs and networks, on top of
//! what each vendor's driver does ([`Vendor`]).
//!
//! A backend implements [`Vendor`] for its open device; [`Gpu`] of that is its `Device`.

mod builtin;
pub mod cache;
mod calls;
mod clock;
mod context;
mod event;
#[cfg(test)]
mod fake;
mod flag;
mod freelist;
mod gate;
mod gated;
mod gates;
mod graph;
mod guard;
mod guarded;
mod handles;
mod image;
mod in_flight;
mod kernel;
mod memory;
mod module;
mod operators;
mod options;
mod own;
mod patience;
mod progress;
mod queue;
mod record;
mod slots;
mod stream;
mod tuning;
mod vendor;
mod word;

pub use event::Event;
pub use flag::Flag;
pub use freelist::{FreeList, place};
pub use graph::Graph;
pub use image::{Build, unpack};
pub use kernel::Kernel;
pub use memory::Buffer;
pub use module::Module;
pub use options::{Options, Precision};
pub use queue::Queue;
pub use record::Checkpoint;
pub use tuning::{Tuning, observe_tuning};
pub use vendor::{Facts, FunctionFacts, GateWord, Graphs, Memory, Modules, Streams, Vendor};

use builtin::Builtin;
use clock::Clock;
use context::Context;
use gate::Gate;
use gated::Gated;
use guarded::Guarded;
use handles::cloned;
use module::Builds;
use patience::Patience;
use progress::Progress;
use reef_core::dkp::Resources;
use reef_core::{
    Backend, Colocation, Command, Device, DeviceInfo, Error, HostMemory, Launch, PreemptLevel,
    Priority, Result,
};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stream::{Stream, Writer};

/// An open device.
#[derive(Debug)]
pub struct Gpu<V: Vendor>(Arc<Open<V>>);

cloned!(Gpu);

#[derive(Debug)]
struct Open<V: Vendor> {
    builtin: Builtin<V>,
    /// kernels/network.cu, loaded when a network first wants it.
    network: OnceLock<Builds<V>>,
    writer: Writer<V>,
    clock: Arc<Clock>,
    options: Options,
    /// Plans of convolutions that were measured.
    chosen: operators::Chosen,
    /// Of queues that nobody stops.
    never: Flag<V>,
    context: Arc<Context<V>>,
}

impl<V: Vendor> Gpu<V> {
    /// The device that `vendor` has opened.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn new(vendor: V, options: Options) -> Result<Self> {
        if options.gates.is_some() && !vendor.facts().waits_words {
            let what = "gates: this driver's streams can't wait for words".into();
            return Err(Error::Unsupported { backend: V::NAME, what });
        }
        let context = Arc::new(Context::new(vendor));
        let builtin = Builtin::load(&Builds::shipped(&context, "builtin")?)?;
        let writer =
            Writer { by_stream: context.vendor.facts().writes_words, store: builtin.store };
        let never = Flag::new(&context, PreemptLevel::HostQueue, writer, false)?;
        let clock = Arc::new(Clock::new());
        let gpu = Self(Arc::new(Open {
            builtin,
            network: OnceLock::new(),
            writer,
            clock,
            options,
            chosen: operators::Chosen::default(),
            never,
            context,
        }));
        gpu.set_clock()?;
        Ok(gpu)
    }

    /// What is the vendor's of it.
    pub fn vendor(&self) -> &V {
        &self.0.context.vendor
    }

    pub(crate) fn context(&self) -> &Arc<Context<V>> {
        &self.0.context
    }

    pub(crate) fn facts(&self) -> &Facts {
        self.0.context.vendor.facts()
    }

    pub(crate) fn builtin(&self) -> &Builtin<V> {
        &self.0.builtin
    }

    /// Kernels of networks.
    pub(crate) fn network(&self) -> Result<&Builds<V>> {
        let network = &self.0.network;
        if let Some(loaded) = network.get() {
            return Ok(loaded);
        }
        let loaded = Builds::shipped(self.context(), "network")?;
        Ok(network.get_or_init(|| loaded)) // of two that load at once one is kept
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// How networks are computed on this device.
    pub fn precision(&self) -> Precision {
        let own = if self.facts().tensor_cores { Precision::Tf32 } else { Precision::Fp32 };
        self.0.options.precision.unwrap_or(own)
    }

    /// Plans of convolutions, if they are to be measured.
    pub(crate) fn tuned(&self) -> Option<&operators::Chosen> {
        self.0.options.tune.then_some(&self.0.chosen)
    }

    /// The deepest level: gates hold back what has not started, and nothing more.
    fn level(&self) -> PreemptLevel {
        match self.0.options.gates {
            Some(_) => PreemptLevel::DeviceQueue,
            None => PreemptLevel::All,
        }
    }

    /// How long queues of this class may be silent.
    fn patience(&self, class: Priority) -> Patience {
        Patience::new(self.0.options.patience.filter(|_| class == Priority::BestEffort))
    }

    fn patience_feature(&self) -> Option<String> {
        let time = self.0.options.patience?;
        Some(format!("gives up on best-effort queues that are silent for {time:?}"))
    }

    /// The gate of a queue that this flag stops, if it does so by gates.
    fn gated(&self, flag: &Flag<V>) -> Result<Option<Gated<V>>> {
        let Some(size) = self.0.options.gates.filter(|_| flag.is_gated()) else { return Ok(None) };
        let gate = Arc::new(Gate::new(self.context())?);
        flag.join(&gate);
        Gated::new(self.context(), gate, self.writer(), size).map(Some)
    }

    pub(crate) fn writer(&self) -> Writer<V> {
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

impl<V: Vendor> Backend for Gpu<V> {
    const NAME: &'static str = V::NAME;
    type Buffer = Buffer<V>;
    type Kernel = Kernel<V>;
    type Event = Event<V>;
    type Checkpoint = Checkpoint<V>;
    type Graph = Graph<V>;
}

impl<V: Vendor> Device for Gpu<V> {
    type Queue = Queue<V>;
    type Preemptor = Flag<V>;

    fn open(ordinal: usize, options: &str) -> Result<Self> {
        let options = Options::parse(V::NAME, options)?;
        Self::new(V::open(ordinal, &options)?, options)
    }

    fn info(&self) -> DeviceInfo {
        let facts = self.facts().clone();
        DeviceInfo {
            name: facts.name,
            units: facts.units,
            blocks_per_unit: facts.blocks_per_unit,
            threads_per_unit: facts.threads_per_unit,
            registers_per_unit: facts.registers_per_unit,
            shared_per_unit: facts.shared_per_unit,
            level: self.level(),
            features: facts.features.into_iter().chain(self.patience_feature()).collect(),
        }
    }

    fn clock(&self) -> Duration {
        self.0.clock.now()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer<V>> {
        Buffer::device(self.context(), bytes)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer<V>> {
        Buffer::host(self.context(), bytes)
    }

    fn adopt_host(&self, memory: HostMemory) -> Result<Buffer<V>> {
        Buffer::adopted(self.context(), memory)
    }

    fn write(&self, buffer: &Buffer<V>, offset: usize, data: &[u8]) -> Result<()> {
        buffer.write(offset, data)
    }

    fn read(&self, buffer: &Buffer<V>, offset: usize, data: &mut [u8]) -> Result<()> {
        buffer.read(offset, data)
    }

    fn kernel(&self, name: &str) -> Result<Kernel<V>> {
        self.builtin().kernel(name)
    }

    fn address(&self, buffer: &Buffer<V>) -> u64 {
        buffer.address()
    }

    fn resources(&self, launch: &Launch<Self>) -> Resources {
        let threads = launch.block().iter().product();
        let kernel = launch.kernel();
        Resources { threads, registers: threads * kernel.registers(), shared: kernel.shared() }
    }

    fn colocation(&self) -> Colocation {
        match self.0.options.gates {
            Some(_) => Colocation::Never, // grids that nobody can cut
            None => Colocation::Capped(self.0.options.beside.unwrap_or(self.facts().units / 2)),
        }
    }

    fn event(&self) -> Result<Event<V>> {
        Event::new(self.context(), &self.0.clock)
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Checkpoint<V>> {
        Ok(Checkpoint::new(launch.blocks()))
    }

    fn graph(&self, commands: &[Command<Self>]) -> Result<Graph<V>> {
        if !self.facts().graphs {
            return Err(Error::Unsupported { backend: V::NAME, what: "graphs".into() });
        }
        Graph::new(self, commands)
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<Flag<V>> {
        let (asked, have) = (level, self.level());
        if asked > have {
            return Err(Error::Level { backend: V::NAME, asked, have });
        }
        let gated = self.0.options.gates.is_some() && level == PreemptLevel::DeviceQueue;
        Flag::new(self.context(), level, self.writer(), gated)
    }

    fn queue(&self, priority: Priority, preemptor: Option<&Flag<V>>) -> Result<Queue<V>> {
        let builtin = self.builtin();
        let flag = preemptor.unwrap_or(&self.0.never).clone();
        Ok(Queue {
            stream: Stream::open(self.context(), priority)?,
            gated: self.gated(&flag)?,
            flag,
            progress: Progress::new(self.context(), self.writer())?,
            guarded: Guarded::new(self.context(), builtin.report)?,
            in_flight: VecDeque::new(),
            draining: None,
            patience: self.patience(priority),
            priority,
            width: None,
            epoch_word: None,
            epoch_written: None,
            token: Arc::new(()),
            newest_event: None,
            gpu: self.clone(),
        })
    }
}
