//! Opening a device, and what `reef_core` asks of one.

use crate::code::builtin::Builtin;
use crate::code::kernel::Kernel;
use crate::code::loaded::{Builds, Code};
use crate::code::module::{Module, ModuleKind};
use crate::driver::buffer::Buffer;
use crate::driver::clock::Clock;
use crate::driver::context::Context;
use crate::driver::control_stream::ControlStream;
use crate::driver::event::Event;
use crate::driver::stream::{Stream, Writer};
use crate::driver::tick_rate::{Sighting, TickRateProbe};
use crate::gpu::{Gpu, Open};
use crate::hal::calls::Vendor;
use crate::hal::facts::TickRate;
use crate::hal::options::{ColocationMode, Options};
use crate::launch::checkpoint::Checkpoint;
use crate::launch::companions::Companions;
use crate::launch::gated::Gated;
use crate::launch::graph::{Graph, Runner};
use crate::launch::guarded::Guarded;
use crate::launch::queue::hardware_queue::Queue;
use crate::launch::queue::retained::Retained;
use crate::launch::timeline::Timeline;
use crate::preempt::gate::Gate;
use crate::preempt::preemptor::Preemptor;
use crate::tuning::TunedPlans;
use reef_core::dkp::Resources;
use reef_core::{
    Backend, Blocks, Colocation, Command, Device, DeviceInfo, Error, HostMemory, Launch,
    PreemptLevel, Priority, Result,
};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longest pause between two sightings of the device's clock when it is opened.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Shortest real-time kernel that is padded. A padded launch is six calls of the driver, about
/// 15 µs, and the host sees the end of the kernel before it about 10 µs late. The kernel that runs
/// must hide both.
const PADDED_MICROS: u32 = 100;

impl<V: Vendor> Gpu<V> {
    /// The device that `vendor` has opened.
    ///
    /// # Errors
    ///
    /// `Invalid` for options that are 0 or contradict each other; an error of the driver.
    pub fn new(vendor: V, options: Options) -> Result<Self> {
        options.check(V::NAME)?;
        if options.gates.is_some() && !vendor.facts().waits_values {
            let what = "gates: this driver's streams can't wait for values".into();
            return Err(Error::Unsupported { backend: V::NAME, what });
        }
        let context = Arc::new(Context::new(vendor));
        let builtin = Builtin::load(&Builds::shipped(&context, "builtin")?)?;
        let writer =
            Writer { by_stream: context.vendor.facts().writes_values, store: builtin.store };
        let control = ControlStream::open(&context, writer)?;
        let never = Preemptor::new(&control, PreemptLevel::HostQueue, false)?;
        let clock = Arc::new(Clock::new());
        let gpu = Self(Arc::new(Open {
            builtin,
            network: OnceLock::new(),
            groups: OnceLock::new(),
            tensor: OnceLock::new(),
            quantized: OnceLock::new(),
            writer,
            control,
            clock,
            options,
            chosen: TunedPlans::default(),
            never,
            unstopped: [(); 2].map(|()| Arc::new(())),
            context,
        }));
        gpu.set_clock()?;
        Ok(gpu)
    }

    /// Loads kernels as they are: a CUBIN, a fatbin or PTX on NVIDIA devices, a code object or
    /// a bundle of some on AMD's.
    ///
    /// They have no guard, so they can't be stopped once they are launched: queues at a level
    /// deeper than `HostQueue` refuse them, unless the device was opened with `gates=N`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none of these; an error of the driver.
    pub fn load(&self, image: &[u8]) -> Result<Module<V>> {
        let image = self.context().vendor.check_image(image)?;
        // SAFETY: it was checked just now.
        let code = unsafe { Code::load(self.context(), &image) }?;
        Ok(Module(Arc::new(ModuleKind::Opaque(code))))
    }

    /// Compiles a source whose kernels follow the contract of kernels/README.md, so that they can
    /// be stopped. Needs the vendor's run-time compiler the first time; what it made is kept on
    /// disk.
    ///
    /// # Errors
    ///
    /// `NotFound` without the compiler, `Invalid` with its messages.
    pub fn compile(&self, source: &str) -> Result<Module<V>> {
        let builds = Builds::compiled(self.context(), source)?;
        Ok(Module(Arc::new(ModuleKind::Preemptible(builds))))
    }

    /// The deepest level: gates hold back what has not started, and nothing more.
    fn level(&self) -> PreemptLevel {
        match self.options().gates {
            Some(_) => PreemptLevel::DeviceQueue,
            None => PreemptLevel::All,
        }
    }

    fn timeout_feature(&self) -> Option<String> {
        let time = self.options().timeout?;
        Some(format!("abandons best-effort queues that are silent for {time:?}"))
    }

    /// Companions of a queue of this class, where its kernels are padded. They are opened with the
    /// queue, because opening streams takes long.
    fn companions(&self, class: Priority) -> Result<Option<Companions<V>>> {
        let is_padded = self.pads() && class == Priority::RealTime;
        is_padded.then(|| Companions::open(self)).transpose()
    }

    /// The gate of a queue that this preemptor stops, if it does so by gates.
    fn gated(&self, preemptor: &Preemptor<V>) -> Result<Option<Gated<V>>> {
        let Some(size) = self.options().gates.filter(|_| preemptor.is_gated()) else {
            return Ok(None);
        };
        let gate = Arc::new(Gate::new(self.context())?);
        preemptor.join(&gate);
        Ok(Some(Gated::new(gate, self.writer(), size)))
    }

    /// Lets the clock meet the device's, so that the first event has its place.
    fn set_clock(&self) -> Result<()> {
        let mut queue = self.queue(Priority::RealTime, None)?;
        let mut seqs = (0..).map(reef_core::Seq);
        let mut sight = || self.sight(&mut queue, seqs.next().expect("they have no end"));
        let rate = match self.facts().tick_rate {
            TickRate::Known(rate) => rate,
            TickRate::OneOf(rates) => measure(rates, &mut sight)?,
        };
        self.clock().set_rate(rate);
        for _ in 0..8 {
            sight()?;
        }
        self.clock().open();
        Ok(())
    }

    /// Lets the device note its time, and the host see that.
    fn sight(&self, queue: &mut Queue<V>, seq: reef_core::Seq) -> Result<Sighting> {
        let event = self.event()?;
        let asked = self.clock().now();
        reef_core::Queue::record(queue, seq, &event)?;
        while reef_core::Queue::completed(queue)? <= seq {
            std::hint::spin_loop();
        }
        let stamp = event.stamp().unwrap_or_default(); // it has been reached
        Ok(Sighting { asked, stamp, seen: self.clock().now() })
    }
}

/// Finds the device's rate among these, from sightings farther and farther apart: about a
/// millisecond tells them apart where the device answers within 20 µs.
fn measure(rates: &'static [u64], mut sight: impl FnMut() -> Result<Sighting>) -> Result<u64> {
    let probe = TickRateProbe::new(rates, sight()?);
    let mut pause = Duration::from_micros(200);
    loop {
        std::thread::sleep(pause);
        let last = sight()?;
        match probe.decide(last) {
            Some(rate) => return Ok(rate),
            None if pause > MAX_PAUSE => return Ok(probe.nearest(last)),
            None => pause *= 2,
        }
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
    type Options = Options;
    type Queue = Queue<V>;
    type Preemptor = Preemptor<V>;

    fn parse_options(text: &str) -> Result<Options> {
        Options::parse(V::NAME, text)
    }

    fn count() -> Result<usize> {
        V::count()
    }

    fn open_with(ordinal: usize, options: Options) -> Result<Self> {
        Self::new(V::open(ordinal, &options)?, options)
    }

    fn info(&self) -> DeviceInfo {
        let facts = self.facts().clone();
        let mut info = DeviceInfo::new(facts.name, facts.units, self.level());
        info.blocks_per_unit = facts.blocks_per_unit;
        info.threads_per_unit = facts.threads_per_unit;
        info.registers_per_unit = facts.registers_per_unit;
        info.shared_per_unit = facts.shared_per_unit;
        info.padded_micros = PADDED_MICROS;
        info.memory = facts.memory;
        info.uuid = facts.uuid;
        info.features = facts.features.into_iter().chain(self.timeout_feature()).collect();
        info
    }

    fn clock(&self) -> Duration {
        Gpu::clock(self).now()
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

    fn open_shared(&self, handle: &[u8; 64]) -> Result<(Buffer<V>, usize)> {
        let buffer = Buffer::shared(self.context(), handle)?;
        let bytes = buffer.bytes();
        Ok((buffer, bytes))
    }

    fn trim(&self) -> Result<()> {
        self.context().call().trim()
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
        let Options { gates, colocation, .. } = self.options();
        let own = if gates.is_some() { ColocationMode::Never } else { ColocationMode::Capped };
        match colocation.unwrap_or(own) {
            ColocationMode::Padded => Colocation::Padded,
            ColocationMode::Capped => Colocation::Capped(self.caps()),
            ColocationMode::Never => Colocation::Never, // with gates: grids that can't be cut
        }
    }

    fn has_parts(&self) -> bool {
        Gpu::has_parts(self)
    }

    fn event(&self) -> Result<Event<V>> {
        Event::new(self.context(), &self.0.clock)
    }

    fn blocks(&self, checkpoint: &Checkpoint<V>) -> Result<Blocks> {
        checkpoint.blocks()
    }

    fn checkpoint_of(&self, command: &Command<Self>, blocks: &Blocks) -> Result<Checkpoint<V>> {
        let launches = match command {
            Command::Launch(launch) => std::slice::from_ref(launch),
            Command::Graph(graph) => graph.launches(),
            _ => {
                return Err(Error::invalid(
                    "command",
                    "must be a launch or a graph to have blocks left",
                ));
            }
        };
        Checkpoint::of_blocks(self.context(), launches.iter().map(Launch::blocks), blocks)
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

    fn prepare(&self, command: &Command<Self>, priority: Priority) -> Result<()> {
        match command {
            Command::Graph(graph) => {
                let queue = self.unstopped(priority);
                graph.prepare(self, Runner { queue, class: priority, percent: 100 })
            }
            _ => Ok(()),
        }
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<Preemptor<V>> {
        let (asked, have) = (level, self.level());
        if asked > have {
            return Err(Error::Level { backend: V::NAME, what: "device", asked, have });
        }
        let gated = self.options().gates.is_some() && level == PreemptLevel::DeviceQueue;
        Preemptor::new(self.control(), level, gated)
    }

    fn queue(&self, priority: Priority, preemptor: Option<&Preemptor<V>>) -> Result<Queue<V>> {
        let builtin = self.builtin();
        let token = match preemptor {
            Some(_) => Arc::new(()),
            None => self.unstopped(priority).clone(),
        };
        let preemptor = preemptor.unwrap_or(self.never()).clone();
        let gated = self.gated(&preemptor)?;
        Ok(Queue {
            stream: Stream::open(self.context(), priority)?,
            gated,
            preemptor,
            timeline: ManuallyDrop::new(Timeline::new(self.context(), self.writer())?),
            guarded: ManuallyDrop::new(Guarded::new(self.context(), builtin.report)?),
            in_flight: VecDeque::new(),
            companions: self.companions(priority)?.map(Box::new),
            retained: Retained::default(),
            epoch: 0,
            draining: false,
            timeout: self.timeout(priority),
            priority,
            block_cap: None,
            percent: 100,
            epoch_signal: None,
            epoch_written: None,
            token,
            newest_event: None,
            gpu: self.clone(),
        })
    }
}
