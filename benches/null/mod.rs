//! A device that does nothing, at once: what is left is the cost of the queue itself.

use reef::dkp::Padding;
use reef::{
    Backend, Copy, Device, DeviceInfo, Drained, Fill, Launch, PreemptLevel, Priority, Result, Seq,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Notes when its newest launch came.
#[derive(Debug, Clone)]
pub(crate) struct Null {
    opened: Instant,
    launched_at: Arc<AtomicU64>,
}

impl Null {
    /// Nanoseconds since it was opened.
    pub(crate) fn now(&self) -> u64 {
        self.opened.elapsed().as_nanos() as u64
    }

    /// When the newest launch came, in the same clock.
    #[allow(dead_code)] // not every bench asks
    pub(crate) fn launched_at(&self) -> u64 {
        self.launched_at.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
pub(crate) struct NullQueue {
    device: Null,
    done: Seq,
}

#[derive(Debug)]
pub(crate) struct NullPreemptor(PreemptLevel);

#[derive(Debug, Clone)]
pub(crate) struct Nothing;

impl reef::Event for Nothing {
    fn reached(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

impl reef::Checkpoint for Nothing {
    fn remaining(&self) -> u32 {
        0
    }
}

impl reef::Preemptor for NullPreemptor {
    fn level(&self) -> PreemptLevel {
        self.0
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

impl NullQueue {
    fn finish(&mut self, Seq(at): Seq) -> Result<()> {
        self.done = Seq(at + 1);
        self.device.launched_at.store(self.device.now(), Ordering::Release);
        Ok(())
    }
}

impl reef::Queue for NullQueue {
    type Backend = Null;

    fn launch(&mut self, seq: Seq, _: &Launch<Null>, _: Option<&Nothing>) -> Result<()> {
        self.finish(seq)
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        _: &Launch<Null>,
        _: &Padding,
        _: &Launch<Null>,
        _: &Nothing,
    ) -> Result<()> {
        self.finish(seq)
    }

    fn copy(&mut self, seq: Seq, _: &Copy<Null>) -> Result<()> {
        self.finish(seq)
    }

    fn fill(&mut self, seq: Seq, _: &Fill<Null>) -> Result<()> {
        self.finish(seq)
    }

    fn record(&mut self, seq: Seq, _: &Nothing) -> Result<()> {
        self.finish(seq)
    }

    fn completed(&mut self) -> Result<Seq> {
        Ok(self.done)
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Null>>> {
        Ok(Some(Drained { resume_at: self.done, partial: None, held: false }))
    }

    fn wake(&mut self, _: Thread) -> bool {
        false
    }
}

impl Backend for Null {
    const NAME: &'static str = "null";
    type Buffer = ();
    type Kernel = ();
    type Event = Nothing;
    type Checkpoint = Nothing;
    type Graph = reef::NoGraph;
}

impl Device for Null {
    type Queue = NullQueue;
    type Preemptor = NullPreemptor;

    fn open(_: usize, _: &str) -> Result<Self> {
        Ok(Self { opened: Instant::now(), launched_at: Arc::default() })
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "nothing".into(),
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
        self.opened.elapsed()
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

    fn kernel(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn address(&self, (): &()) -> u64 {
        0
    }

    fn event(&self) -> Result<Nothing> {
        Ok(Nothing)
    }

    fn checkpoint(&self, _: &Launch<Self>) -> Result<Nothing> {
        Ok(Nothing)
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<NullPreemptor> {
        Ok(NullPreemptor(level))
    }

    fn queue(&self, _: Priority, _: Option<&NullPreemptor>) -> Result<NullQueue> {
        Ok(NullQueue { device: self.clone(), done: Seq(0) })
    }
}

/// A launch with a full set of arguments that no device will look at.
pub(crate) fn launch<D: Device<Kernel = ()>>() -> Launch<D> {
    // SAFETY: the kernel is nothing.
    unsafe { Launch::new((), [64, 1, 1], [256, 1, 1], reef::Args::new(&[1, 2, 3, 4, 5, 6, 7, 8])) }
}
