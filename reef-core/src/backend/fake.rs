//! A device for tests of this crate: it finishes what the test says, when the test says so.
//!
//! Others have `reef_conformance::Null`, which stands above this crate: its device is one of the finished crate,
//! and unit tests need one of the crate under test.

use crate::backend::command::{Copy, Fill, Launch};
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::{DeviceInfo, PreemptLevel, Priority, Seq};
use crate::backend::preemptor::Preemptor;
use crate::backend::queue::{Drained, Queue};
use crate::backend::resources::Padding;
use crate::backend::types::{Backend, Checkpoint, Event, NoGraph};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// The device.
#[derive(Debug, Clone)]
pub(crate) struct Fake;

/// A queue that notes what it was given.
#[derive(Debug, Default)]
pub(crate) struct FakeQueue {
    /// What was launched, with the blocks that remained if it resumed.
    pub(crate) launched: Vec<(u64, Option<u32>)>,
    /// All commands before this have finished. Set by the test.
    pub(crate) done: u64,
    /// What the next `try_drain` gives. Set by the test.
    pub(crate) drain: Option<(u64, Option<u32>)>,
    pub(crate) wake_at: Option<u64>,
}

/// Blocks that remain.
#[derive(Debug, Clone)]
pub(crate) struct Left(pub(crate) u32);

/// Reached when the test says so.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeEvent(pub(crate) Arc<AtomicBool>);

impl Checkpoint for Left {
    fn remaining(&self) -> u32 {
        self.0
    }
}

impl Event for FakeEvent {
    fn reached(&self) -> Option<Duration> {
        self.0.load(Ordering::Relaxed).then_some(Duration::ZERO)
    }
}

impl Preemptor for PreemptLevel {
    fn level(&self) -> PreemptLevel {
        *self
    }

    fn evict(&self) -> Result<()> {
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        Ok(())
    }

    fn reactivate(&self) -> Result<()> {
        Ok(())
    }
}

impl FakeQueue {
    fn note(&mut self, Seq(at): Seq, left: Option<u32>) -> Result<()> {
        self.launched.push((at, left));
        Ok(())
    }
}

impl Queue for FakeQueue {
    type Backend = Fake;

    fn launch(&mut self, seq: Seq, _: &Launch<Fake>, resume: Option<&Left>) -> Result<()> {
        self.note(seq, resume.map(|left| left.0))
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        _: &Launch<Fake>,
        _: &Padding,
        _: &Launch<Fake>,
        _: &Left,
    ) -> Result<()> {
        self.note(seq, None)
    }

    fn copy(&mut self, seq: Seq, _: &Copy<Fake>) -> Result<()> {
        self.note(seq, None)
    }

    fn fill(&mut self, seq: Seq, _: &Fill<Fake>) -> Result<()> {
        self.note(seq, None)
    }

    fn record(&mut self, seq: Seq, _: &FakeEvent) -> Result<()> {
        self.note(seq, None)
    }

    fn completed(&mut self) -> Result<Seq> {
        Ok(Seq(self.done))
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Fake>>> {
        let stopped = |(next, left): (u64, Option<u32>)| Drained {
            resume_at: Seq(next),
            partial: left.map(Left),
            held: false,
        };
        Ok(self.drain.take().map(stopped))
    }

    fn wake(&mut self, _: Thread) -> bool {
        true
    }

    fn wake_at(&mut self, Seq(at): Seq) {
        self.wake_at = Some(at);
    }
}

impl Backend for Fake {
    const NAME: &'static str = "fake";
    type Buffer = ();
    type Kernel = ();
    type Event = FakeEvent;
    type Checkpoint = Left;
    type Graph = NoGraph;
}

impl Device for Fake {
    type Queue = FakeQueue;
    type Preemptor = PreemptLevel;

    fn open(_: usize, _: &str) -> Result<Self> {
        Ok(Self)
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "a fake".into(),
            units: 1,
            blocks_per_unit: 1,
            threads_per_unit: 1,
            registers_per_unit: 1,
            shared_per_unit: 1,
            level: PreemptLevel::All,
            features: Vec::new(),
        }
    }

    fn clock(&self) -> Duration {
        Duration::ZERO
    }

    fn alloc(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn alloc_host(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn write(&self, (): &(), _: usize, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(&self, (): &(), _: usize, _: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn kernel(&self, name: &str) -> Result<()> {
        Err(Error::NotFound(name.into()))
    }

    fn address(&self, (): &()) -> u64 {
        0
    }

    fn event(&self) -> Result<FakeEvent> {
        Ok(FakeEvent::default())
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Left> {
        Ok(Left(launch.blocks()))
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<PreemptLevel> {
        Ok(level)
    }

    fn queue(&self, _: Priority, _: Option<&PreemptLevel>) -> Result<FakeQueue> {
        Ok(FakeQueue::default())
    }
}
