//! Opens a software device, and what it gives: memory, kernels, queues.

use crate::builtin;
use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::hardware::cpu::{Cpu, Open};
use crate::hardware::units::Shared;
use crate::kernel::Kernel;
use crate::memory::buffer::Buffer;
use crate::options::Options;
use crate::preemptor::{Preemptor, Stop};
use crate::queue::Queue;
use reef_core::{
    Backend, Blocks, Colocation, Command, Device, DeviceInfo, Error, HostMemory, Launch,
    PreemptLevel, Priority, Result, Span,
};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Software devices in one process; they share the cores.
const DEVICES: usize = 8;

impl Backend for Cpu {
    const NAME: &'static str = "cpu";
    type Buffer = Buffer;
    type Kernel = Kernel;
    type Event = Event;
    type Checkpoint = Checkpoint;
    type Graph = reef_core::NoGraph;
}

impl Device for Cpu {
    type Options = Options;
    type Queue = Queue;
    type Preemptor = Preemptor;

    fn parse_options(text: &str) -> Result<Options> {
        Options::parse(text)
    }

    fn open_with(ordinal: usize, options: Options) -> Result<Self> {
        options.check()?;
        if ordinal >= DEVICES {
            let last = DEVICES - 1;
            return Err(Error::NotFound(format!("no device cpu:{ordinal} (have: 0 to {last})")));
        }
        let shared = Arc::new(Shared::new(options.units, options.spin));
        let Options { uuid, pads, .. } = options;
        let mut open = Open { shared: shared.clone(), units: Vec::new(), uuid, pads };
        for unit in 0..options.units {
            open.units.push(start(ordinal, unit, options, shared.clone())?);
        }
        Ok(Self(Arc::new(open)))
    }

    fn info(&self) -> DeviceInfo {
        let units = self.0.units.len() as u32;
        let name = format!("software device, {units} units");
        let mut info = DeviceInfo::new(name, units, PreemptLevel::All);
        (info.registers_per_unit, info.shared_per_unit) = (u32::MAX, u32::MAX);
        info.uuid = self.0.uuid;
        info
    }

    fn clock(&self) -> Duration {
        self.shared().now()
    }

    fn set_trace(&self, on: bool) -> bool {
        self.shared().trace.set(on);
        true
    }

    fn take_trace(&self) -> Vec<Span> {
        self.shared().trace.take()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Buffer::zeroed(bytes)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer> {
        Buffer::zeroed(bytes)
    }

    fn adopt_host(&self, memory: HostMemory) -> Result<Buffer> {
        Ok(Buffer::adopted(memory))
    }

    fn write(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<()> {
        buffer.write(offset, data)
    }

    fn read(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        buffer.read(offset, data)
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        builtin::kernel(name)
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.as_ptr() as u64
    }

    fn event(&self) -> Result<Event> {
        Ok(Event::default())
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Checkpoint> {
        Ok(Checkpoint::new(launch.blocks()))
    }

    fn blocks(&self, checkpoint: &Checkpoint) -> Result<Blocks> {
        checkpoint.blocks()
    }

    fn checkpoint_of(&self, command: &Command<Self>, blocks: &Blocks) -> Result<Checkpoint> {
        let Command::Launch(launch) = command else {
            return Err(Error::invalid("command", "must be a launch to have blocks left"));
        };
        let (have, want) = (blocks.total(), launch.blocks());
        if have != want || blocks.node() != 0 {
            let node = blocks.node();
            return Err(Error::invalid(
                "blocks",
                format!("must be of launch 0 of {want}, got those of {node} of {have}"),
            ));
        }
        Ok(Checkpoint::of_left(blocks))
    }

    fn colocation(&self) -> Colocation {
        if self.0.pads { Colocation::Padded } else { Colocation::Never }
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<Preemptor> {
        Ok(Preemptor::new(level))
    }

    fn queue(&self, priority: Priority, preemptor: Option<&Preemptor>) -> Result<Queue> {
        let stop = preemptor.map_or_else(Stop::new, |preemptor| preemptor.stop.clone());
        let handle = self.shared().change(|hardware| hardware.open(priority, stop));
        Ok(Queue { device: self.clone(), handle, is_abandoned: false })
    }
}

fn start(
    ordinal: usize,
    unit: u32,
    options: Options,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>> {
    let work = move || {
        // Devices with few units start at different cores.
        settle_down(ordinal * options.units as usize + unit as usize, options);
        shared.work(unit);
    };
    thread::Builder::new()
        .name(format!("reef-unit-{unit}"))
        .spawn(work)
        .map_err(|e| Error::host(format!("no thread for unit {unit}"), &e))
}

/// Gives the unit's thread its core and niceness, as far as the system allows.
fn settle_down(place: usize, options: Options) {
    if cfg!(miri) {
        return; // it knows no such calls
    }
    let _ = rustix::process::nice(options.nice);
    let allowed = rustix::thread::sched_getaffinity(None);
    if let (true, Ok(allowed)) = (options.pin, allowed) {
        let cores: Vec<usize> =
            (0..rustix::thread::CpuSet::MAX_CPU).filter(|&c| allowed.is_set(c)).collect();
        let mut one = rustix::thread::CpuSet::new();
        one.set(cores[place % cores.len()]);
        let _ = rustix::thread::sched_setaffinity(None, &one);
    }
}
