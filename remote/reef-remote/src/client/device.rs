//! The device's methods.

use super::connection::Connection;
use super::event::Event;
use super::graph::{Graph, KeptGraph};
use super::mirror::Mirror;
use super::objects::{Buffer, Kernel, KernelSource};
use super::options::Options;
use super::preemptor::{Checkpoint, Preemptor};
use super::queue::{Queue, launch_of, to_remote, transfers};
use super::remote::Remote;
use crate::conversions::level;
use crate::error::NAME;
use crate::messages::{
    Alloc, BUFFER, BlocksLeft, CHECKPOINT, GRAPH, LAUNCHES, MAX_PIECE_LEN, MakeCheckpoint,
    MakeGraph, MakePreemptor, NamedKernel, OpenLane, PREEMPTOR, Read, ReadCheckpoint, SetTrace,
    TakeTrace, Traced, Write, WriteCheckpoint,
};
use reef_core::dkp::Resources;
use reef_core::{
    Blocks, Colocation, Command, Device, DeviceInfo, Error, Launch, PreemptLevel, Priority, Result,
    Span,
};
use reef_wire::little_endian::U64;
use std::sync::Arc;
use std::time::Duration;

/// A device that its server preempts, and the remedy.
const SHARED_DEVICE: &str = "device that sessions share, without `reef remote serve --own`,";

impl Remote {
    fn allocate(&self, bytes: usize, is_host: bool) -> Result<Buffer> {
        let address = self.0.address(bytes);
        let alloc = |id| Alloc { id, address, bytes: bytes as u64, is_host };
        let (handle, ()) = self.make(BUFFER, alloc)?;
        let mirror = is_host.then(|| Arc::new(Mirror::new(bytes)));
        Ok(Buffer { handle: Arc::new(handle), address, bytes, mirror })
    }
}

impl Device for Remote {
    type Queue = Queue;
    type Preemptor = Preemptor;
    type Options = Options;

    fn parse_options(text: &str) -> Result<Options> {
        Options::parse(text)
    }

    fn open_with(ordinal: usize, options: Options) -> Result<Self> {
        if ordinal > 0 {
            return Err(Error::NotFound(format!("{NAME}: no device {ordinal} (have: 0)")));
        }
        Ok(Self(Arc::new(Connection::open(&options)?)))
    }

    fn info(&self) -> DeviceInfo {
        let facts = &self.0.facts;
        let level = level(facts.level).unwrap_or(PreemptLevel::HostQueue);
        let mut info = DeviceInfo::new(&facts.name, facts.units, level);
        info.blocks_per_unit = facts.blocks_per_unit;
        info.threads_per_unit = facts.threads_per_unit;
        info.registers_per_unit = facts.registers_per_unit;
        info.shared_per_unit = facts.shared_per_unit;
        info.padded_micros = facts.padded_micros;
        info.memory = facts.memory;
        info.uuid = facts.uuid;
        info.features.clone_from(&facts.features);
        info
    }

    fn clock(&self) -> Duration {
        self.0.clock()
    }

    fn set_trace(&self, on: bool) -> bool {
        // Without a session there is nothing to note.
        self.0.facts.has_trace && self.0.post_on(0, &SetTrace { on }).is_ok()
    }

    fn take_trace(&self) -> Vec<Span> {
        if !self.0.facts.has_trace {
            return Vec::new();
        }
        let traced: Vec<Traced> = self.0.call_aside(0, &TakeTrace {}).unwrap_or_default();
        traced.into_iter().map(Into::into).collect()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        self.allocate(bytes, false)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer> {
        self.allocate(bytes, true)
    }

    fn write(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<()> {
        buffer.check(offset, data.len())?;
        if buffer.mirror.as_ref().is_some_and(|mirror| mirror.write(offset, data)) {
            return self.0.check();
        }
        for (index, piece) in data.chunks(MAX_PIECE_LEN).enumerate() {
            let offset = U64::new((offset + index * MAX_PIECE_LEN) as u64);
            self.0.post_hot(&Write { buffer: U64::new(buffer.id()), offset }, piece)?;
        }
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        buffer.check(offset, data.len())?;
        if buffer.mirror.as_ref().is_some_and(|mirror| mirror.read(offset, data)) {
            return self.0.check();
        }
        for (index, piece) in data.chunks_mut(MAX_PIECE_LEN).enumerate() {
            let offset = U64::new((offset + index * MAX_PIECE_LEN) as u64);
            let (id, bytes) = (U64::new(buffer.id()), U64::new(piece.len() as u64));
            let got = self.0.call_hot(&Read { buffer: id, offset, bytes })?;
            if got.len() != piece.len() {
                let text = format!("a read must give {} bytes, got {}", piece.len(), got.len());
                return Err(Error::DeviceLost { backend: NAME, why: text });
            }
            piece.copy_from_slice(&got);
        }
        Ok(())
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        let (handle, ()) = self.make(LAUNCHES, |id| NamedKernel { id, name: name.into() })?;
        Ok(Kernel(KernelSource::Named(Arc::new(handle))))
    }

    /// Kernels may have it from now on.
    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.expose();
        buffer.address
    }

    fn event(&self) -> Result<Event> {
        Ok(Event::default())
    }

    fn resources(&self, launch: &Launch<Self>) -> Resources {
        match &launch.kernel().0 {
            KernelSource::Prepared(_, _, resources) => *resources,
            KernelSource::Named(_) => {
                Resources { threads: launch.block().iter().product(), ..Resources::default() }
            }
        }
    }

    fn colocation(&self) -> Colocation {
        self.0.facts.colocation.into()
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Checkpoint> {
        if !self.0.facts.is_own {
            return Ok(Checkpoint::new(None, launch.blocks()));
        }
        let handle = self.handle(CHECKPOINT);
        let (id, command) = (handle.id.bits(), launch_of(launch));
        self.0.push_on(0, &MakeCheckpoint { id, command })?;
        Ok(Checkpoint::new(Some(handle), launch.blocks()))
    }

    fn blocks(&self, checkpoint: &Checkpoint) -> Result<Blocks> {
        let id = checkpoint.id()?;
        let connection = checkpoint.connection().unwrap_or(&self.0);
        connection.call::<_, BlocksLeft>(&ReadCheckpoint { id })?.try_into()
    }

    fn checkpoint_of(&self, command: &Command<Self>, blocks: &Blocks) -> Result<Checkpoint> {
        self.0.check_own("continuing a command from stored blocks")?;
        let (command, left) = (to_remote(command)?, BlocksLeft::from(blocks));
        let make = |id| WriteCheckpoint { id, command, blocks: left };
        let (handle, ()) = self.make(CHECKPOINT, make)?;
        Ok(Checkpoint::new(Some(handle), blocks.count()))
    }

    fn graph(&self, commands: &[Command<Self>]) -> Result<Graph> {
        if commands.is_empty() {
            return Err(Error::invalid("graph", "must have commands"));
        }
        let remote = commands.iter().map(to_remote).collect::<Result<Vec<_>>>()?;
        let transfers = transfers(commands);
        let (handle, ()) = self.make(GRAPH, |id| MakeGraph { id, commands: remote })?;
        Ok(Graph(Arc::new(KeptGraph { handle, transfers })))
    }

    fn preemptor(&self, asked: PreemptLevel) -> Result<Preemptor> {
        let have = self.info().level;
        if asked > have {
            let what = if self.0.facts.is_own { "device" } else { SHARED_DEVICE };
            return Err(Error::Level { backend: NAME, what, asked, have });
        }
        let mut preemptor =
            Preemptor { level: asked, needs_room: false, calls_driver: false, handle: None };
        if self.0.facts.is_own {
            let (handle, [needs_room, calls_driver]) =
                self.make(PREEMPTOR, |id| MakePreemptor { id, level: asked as u8 })?;
            (preemptor.needs_room, preemptor.calls_driver) = (needs_room, calls_driver);
            preemptor.handle = Some(handle);
        }
        Ok(preemptor)
    }

    fn queue(&self, priority: Priority, preemptor: Option<&Preemptor>) -> Result<Queue> {
        let number = self.0.next_lane();
        let lane = self.0.lanes.open(number);
        let is_real_time = priority == Priority::RealTime;
        let preemptor = preemptor.and_then(|preemptor| preemptor.handle.as_ref());
        let preemptor = preemptor.map(|handle| handle.id.bits());
        let opened: Result<()> = self.0.call_on(number, &OpenLane { is_real_time, preemptor });
        if let Err(error) = opened {
            self.0.lanes.close(number);
            return Err(error);
        }
        Ok(Queue::new(self.clone(), number, lane))
    }
}
