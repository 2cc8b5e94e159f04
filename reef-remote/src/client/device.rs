//! The device's methods.

use super::connection::Connection;
use super::event::Event;
use super::objects::{Buffer, Graph, KeptGraph, Kernel, KernelSource};
use super::options::Options;
use super::preemptor::{Complete, Preemptor};
use super::queue::{Queue, to_remote};
use super::remote::Remote;
use crate::error::NAME;
use crate::messages::{
    Alloc, BUFFER, GRAPH, LAUNCHES, MAX_PIECE_LEN, MakeGraph, NamedKernel, OpenLane, Read, Write,
};
use reef_core::{Command, Device, DeviceInfo, Error, Launch, PreemptLevel, Priority, Result};
use reef_wire::little_endian::U64;
use std::sync::Arc;
use std::time::Duration;

impl Remote {
    fn allocate(&self, bytes: usize, is_host: bool) -> Result<Buffer> {
        let address = self.0.address(bytes);
        let alloc = |id| Alloc { id, address, bytes: bytes as u64, is_host };
        let (handle, ()) = self.make(BUFFER, alloc)?;
        Ok(Buffer { handle: Arc::new(handle), address, bytes })
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
        let mut info = DeviceInfo::new(&facts.name, facts.units, PreemptLevel::HostQueue);
        info.blocks_per_unit = facts.blocks_per_unit;
        info.threads_per_unit = facts.threads_per_unit;
        info.registers_per_unit = facts.registers_per_unit;
        info.shared_per_unit = facts.shared_per_unit;
        info.memory = facts.memory;
        info.uuid = facts.uuid;
        info.features.clone_from(&facts.features);
        info
    }

    fn clock(&self) -> Duration {
        self.0.clock()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        self.allocate(bytes, false)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer> {
        self.allocate(bytes, true)
    }

    fn write(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<()> {
        buffer.check(offset, data.len())?;
        for (index, piece) in data.chunks(MAX_PIECE_LEN).enumerate() {
            let offset = U64::new((offset + index * MAX_PIECE_LEN) as u64);
            self.0.post_hot(&Write { buffer: U64::new(buffer.id()), offset }, piece)?;
        }
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        buffer.check(offset, data.len())?;
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

    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.address
    }

    fn event(&self) -> Result<Event> {
        Ok(Event::default())
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Complete> {
        Ok(Complete(launch.blocks()))
    }

    fn graph(&self, commands: &[Command<Self>]) -> Result<Graph> {
        if commands.is_empty() {
            return Err(Error::invalid("a graph of no commands"));
        }
        let commands = commands.iter().map(to_remote).collect::<Result<Vec<_>>>()?;
        let (handle, ()) = self.make(GRAPH, |id| MakeGraph { id, commands })?;
        Ok(Graph(Arc::new(KeptGraph { handle })))
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<Preemptor> {
        if level > PreemptLevel::HostQueue {
            let have = PreemptLevel::HostQueue;
            return Err(Error::Level { backend: NAME, what: "device", asked: level, have });
        }
        Ok(Preemptor(()))
    }

    fn queue(&self, priority: Priority, _: Option<&Preemptor>) -> Result<Queue> {
        let number = self.0.next_lane();
        let lane = self.0.lanes.open(number);
        let is_real_time = priority == Priority::RealTime;
        let opened: Result<()> = self.0.call_on(number, &OpenLane { is_real_time });
        if let Err(error) = opened {
            self.0.lanes.close(number);
            return Err(error);
        }
        Ok(Queue { connection: self.0.clone(), number, lane, next: 0 })
    }
}
