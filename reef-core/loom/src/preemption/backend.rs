//! The traits of a backend, around the [device](super::device::Device) of the model.

use super::device::Device;
use crate::backend::blocks::Blocks;
use crate::backend::command::{Copy, Fill, Launch};
use crate::backend::device::Device as DeviceTrait;
use crate::backend::error::Result;
use crate::backend::info::{DeviceInfo, PreemptLevel, Priority, Seq};
use crate::backend::preemptor::Preemptor;
use crate::backend::queue::{Drained, Queue};
use crate::backend::types::{Backend, Checkpoint, Event};
use std::sync::Arc;
use std::time::Duration;

const GRAPHS_ALONE: &str = "commands of the model are graphs";

#[derive(Debug, Clone)]
pub(super) struct Model(pub(super) Arc<Device>);

/// Record of a command of which padding has run all blocks.
#[derive(Debug, Clone)]
pub(super) struct Padded;

/// An event, of which the model has none.
#[derive(Debug, Clone)]
pub(super) enum NoEvent {}

impl Checkpoint for Padded {
    fn remaining(&self) -> u32 {
        0
    }
}

impl Event for NoEvent {
    fn reached(&self) -> Option<Duration> {
        match *self {}
    }
}

impl Backend for Model {
    const NAME: &'static str = "model";
    type Buffer = ();
    type Kernel = ();
    type Event = NoEvent;
    type Checkpoint = Padded;
    type Graph = ();
}

impl DeviceTrait for Model {
    type Queue = HardwareQueue;
    type Preemptor = Flag;
    type Options = ();

    fn parse_options(_: &str) -> Result<()> {
        unreachable!("it is open")
    }

    fn open_with(_: usize, (): ()) -> Result<Self> {
        unreachable!("it is open")
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo::new("model", 1, PreemptLevel::DeviceQueue)
    }

    fn clock(&self) -> Duration {
        Duration::ZERO
    }

    fn alloc(&self, _: usize) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn alloc_host(&self, _: usize) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn write(&self, (): &(), _: usize, _: &[u8]) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn read(&self, (): &(), _: usize, _: &mut [u8]) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn kernel(&self, _: &str) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn address(&self, (): &()) -> u64 {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn event(&self) -> Result<NoEvent> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn checkpoint(&self, _: &Launch<Self>) -> Result<Padded> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn preemptor(&self, _: PreemptLevel) -> Result<Flag> {
        Ok(Flag(self.0.clone()))
    }

    fn queue(&self, _: Priority, _: Option<&Flag>) -> Result<HardwareQueue> {
        Ok(HardwareQueue(self.0.clone()))
    }
}

/// Tells the device to stop.
#[derive(Debug)]
pub(super) struct Flag(Arc<Device>);

impl Preemptor for Flag {
    fn level(&self) -> PreemptLevel {
        PreemptLevel::DeviceQueue
    }

    fn evict(&self) -> Result<()> {
        self.0.evict();
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        unreachable!("it is not that deep")
    }

    fn reactivate(&self) -> Result<()> {
        self.0.reactivate();
        Ok(())
    }
}

/// The device's end of the queue.
#[derive(Debug)]
pub(super) struct HardwareQueue(pub(super) Arc<Device>);

impl Queue for HardwareQueue {
    type Backend = Model;

    fn launch(&mut self, _: Seq, _: &Launch<Model>, _: Option<&Padded>) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn launch_graph(&mut self, Seq(at): Seq, (): &(), _: Option<&Padded>) -> Result<()> {
        self.0.launch(at);
        Ok(())
    }

    fn copy(&mut self, _: Seq, _: &Copy<Model>) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn fill(&mut self, _: Seq, _: &Fill<Model>) -> Result<()> {
        unreachable!("{GRAPHS_ALONE}")
    }

    fn record(&mut self, _: Seq, event: &NoEvent) -> Result<()> {
        match *event {}
    }

    fn completed(&mut self) -> Result<Seq> {
        Ok(Seq(self.0.completed()))
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Model>>> {
        let drained = |done| Drained { resume_at: Seq(done), partial: None, held: false };
        Ok(self.0.try_drain().map(drained))
    }

    fn wake(&mut self, _: std::thread::Thread) -> bool {
        true
    }

    fn wake_at(&mut self, Seq(at): Seq) {
        self.0.wake_at(at);
    }
}
