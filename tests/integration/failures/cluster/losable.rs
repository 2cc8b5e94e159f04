//! A software device that can be lost: from then on every call fails, and nothing that it has is
//! ever done.

use reef::cpu::Cpu;
use reef::dkp::Padding;
use reef::{
    Backend, Colocation, Device, DeviceInfo, Error, Launch, NoGraph, PreemptLevel, Priority, Queue,
    Result, Seq,
    command::{Copy, Fill},
    queue::Drained,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::Duration;

type Inner<T> = <T as Device>::Queue;

/// The device. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Losable {
    inner: Cpu,
    /// Wakes no thread, as GPUs do.
    polled: bool,
    lost: Arc<AtomicBool>,
    /// It has no memory for another queue.
    full: Arc<AtomicBool>,
    hangs: Arc<Hang>,
}

/// Call of a device that hangs. Written by the test, read by each call.
#[derive(Debug, Default)]
pub(crate) struct Hang {
    pub(crate) opening: AtomicBool,
    pub(crate) asking: AtomicBool,
    pub(crate) closing: AtomicBool,
    /// Number of queues that were opened, or were to be.
    pub(crate) opened: AtomicU32,
}

impl Hang {
    fn wait(place: &AtomicBool) {
        while place.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
        }
    }
}

impl Losable {
    pub(crate) fn open(options: &str, polled: bool) -> Self {
        let inner = Cpu::open(0, options).unwrap();
        Self { polled, ..Self::of(inner) }
    }

    fn of(inner: Cpu) -> Self {
        let (lost, full, hangs) = Default::default();
        Self { inner, polled: false, lost, full, hangs }
    }

    pub(crate) fn hangs(&self) -> &Hang {
        &self.hangs
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    pub(crate) fn fill(&self) {
        self.full.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> Result<()> {
        let why = "it fell off the bus".into();
        let is_lost = self.lost.load(Ordering::SeqCst);
        if is_lost { Err(Error::DeviceLost { backend: Self::NAME, why }) } else { Ok(()) }
    }
}

impl Backend for Losable {
    const NAME: &'static str = "losable";
    type Buffer = <Cpu as Backend>::Buffer;
    type Kernel = <Cpu as Backend>::Kernel;
    type Event = <Cpu as Backend>::Event;
    type Checkpoint = <Cpu as Backend>::Checkpoint;
    type Graph = NoGraph;
}

/// Converts a launch for the device below. Its kernels own what they touch.
fn below(launch: &Launch<Losable>) -> Launch<Cpu> {
    let (kernel, args) = (launch.kernel().clone(), *launch.args());
    // SAFETY: kernels of these tests take no arguments and hold their memory.
    unsafe { Launch::new(kernel, launch.grid(), launch.block(), args) }
}

#[derive(Debug)]
pub(crate) struct LosablePreemptor(Losable, <Cpu as Device>::Preemptor);

impl reef::Preemptor for LosablePreemptor {
    fn needs_room(&self) -> bool {
        self.1.needs_room()
    }

    fn level(&self) -> PreemptLevel {
        self.1.level()
    }

    fn evict(&self) -> Result<()> {
        self.0.check()?;
        self.1.evict()
    }

    fn reset(&self) -> Result<()> {
        self.0.check()?;
        self.1.reset()
    }

    fn reactivate(&self) -> Result<()> {
        self.0.check()?;
        self.1.reactivate()
    }
}

#[derive(Debug)]
pub(crate) struct LosableQueue(Losable, Inner<Cpu>);

impl Queue for LosableQueue {
    type Backend = Losable;

    fn launch(
        &mut self,
        seq: Seq,
        launch: &Launch<Losable>,
        resume: Option<&<Cpu as Backend>::Checkpoint>,
    ) -> Result<()> {
        self.0.check()?;
        self.1.launch(seq, &below(launch), resume)
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        rt: &Launch<Losable>,
        padding: &Padding,
        be: &Launch<Losable>,
        record: &<Cpu as Backend>::Checkpoint,
    ) -> Result<()> {
        self.0.check()?;
        self.1.launch_padded(seq, &below(rt), padding, &below(be), record)
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Losable>) -> Result<()> {
        self.0.check()?;
        let Copy { from, from_offset, to, to_offset, bytes, to_host } = copy.clone();
        self.1.copy(seq, &Copy { from, from_offset, to, to_offset, bytes, to_host })
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Losable>) -> Result<()> {
        self.0.check()?;
        let Fill { buffer, offset, bytes, word } = fill.clone();
        self.1.fill(seq, &Fill { buffer, offset, bytes, word })
    }

    fn record(&mut self, seq: Seq, event: &<Cpu as Backend>::Event) -> Result<()> {
        self.0.check()?;
        self.1.record(seq, event)
    }

    fn completed(&mut self) -> Result<Seq> {
        Hang::wait(&self.0.hangs.asking);
        self.0.check()?;
        self.1.completed()
    }

    fn padding_ended(&mut self) -> Result<Seq> {
        self.0.check()?;
        self.1.padding_ended()
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Losable>>> {
        self.0.check()?;
        let Some(drained) = self.1.try_drain()? else { return Ok(None) };
        let Drained { resume_at, partial, held } = drained;
        Ok(Some(Drained { resume_at, partial, held })) // of another backend
    }

    fn wake(&mut self, thread: Thread) -> bool {
        !self.0.polled && self.1.wake(thread)
    }

    fn wake_at(&mut self, seq: Seq) {
        self.1.wake_at(seq);
    }
}

impl Drop for LosableQueue {
    fn drop(&mut self) {
        Hang::wait(&self.0.hangs.closing);
    }
}

impl Device for Losable {
    type Options = <Cpu as Device>::Options;
    type Queue = LosableQueue;
    type Preemptor = LosablePreemptor;

    fn parse_options(text: &str) -> Result<Self::Options> {
        Cpu::parse_options(text)
    }

    fn open_with(ordinal: usize, options: Self::Options) -> Result<Self> {
        Ok(Self::of(Cpu::open_with(ordinal, options)?))
    }

    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn clock(&self) -> Duration {
        self.inner.clock()
    }

    fn alloc(&self, bytes: usize) -> Result<Self::Buffer> {
        self.check()?;
        self.inner.alloc(bytes)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Self::Buffer> {
        self.alloc(bytes)
    }

    fn write(&self, buffer: &Self::Buffer, offset: usize, data: &[u8]) -> Result<()> {
        self.check()?;
        self.inner.write(buffer, offset, data)
    }

    fn read(&self, buffer: &Self::Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        self.check()?;
        self.inner.read(buffer, offset, data)
    }

    fn kernel(&self, name: &str) -> Result<Self::Kernel> {
        self.inner.kernel(name)
    }

    fn address(&self, buffer: &Self::Buffer) -> u64 {
        self.inner.address(buffer)
    }

    fn event(&self) -> Result<Self::Event> {
        self.check()?;
        self.inner.event()
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Self::Checkpoint> {
        self.check()?;
        self.inner.checkpoint(&below(launch))
    }

    fn colocation(&self) -> Colocation {
        self.inner.colocation()
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<LosablePreemptor> {
        self.check()?;
        Ok(LosablePreemptor(self.clone(), self.inner.preemptor(level)?))
    }

    fn queue(
        &self,
        priority: Priority,
        preemptor: Option<&LosablePreemptor>,
    ) -> Result<LosableQueue> {
        self.hangs.opened.fetch_add(1, Ordering::SeqCst);
        Hang::wait(&self.hangs.opening);
        self.check()?;
        if self.full.load(Ordering::SeqCst) {
            return Err(Error::OutOfMemory { backend: Self::NAME, asked: 1 });
        }
        let inner = self.inner.queue(priority, preemptor.map(|preemptor| &preemptor.1))?;
        Ok(LosableQueue(self.clone(), inner))
    }
}
