//! A third party's backend, as small as one can be: one thread runs blocks, one after the other.
//!
//! It has nothing but the kernel `append`, and no unsafe code. Opened with a [`Fault`] it is broken
//! in one way, which the suite must find.

mod dozes;
mod hardware;

use dozes::Dozes;
use hardware::{Line, Remaining, Shared, Stop, ToyGraph, Work};
use reef_core::dkp::Padding;
use reef_core::{
    Backend, Caps, Colocation, Command, Copy, Device, DeviceInfo, Drained, Error, Fill, Launch,
    PreemptLevel, Preemptor, Priority, Queue, Result, Seq,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Fault of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None: the device works.
    None,
    /// `evict` and `reset` do nothing.
    EvictsNothing,
    /// `reset` leaves running blocks alone.
    ResetsNothing,
    /// Blocks that are stopped are never run again.
    LosesStopped,
    /// Blocks that are stopped have taken effect.
    CommitsStopped,
    /// Blocks are stopped however often.
    StopsForever,
    /// A drained launch is resumed from its first block.
    ForgetsCheckpoint,
    /// A drained launch counts as finished.
    LosesQueued,
    /// A queue counts as drained while its block runs.
    DrainsEarly,
    /// A command counts as completed when its last block begins.
    CompletesEarly,
    /// The second command of a queue runs before the first.
    RunsUnordered,
    /// Copies do nothing.
    SkipsCopies,
    /// Fills do nothing.
    SkipsFills,
    /// All events have been reached.
    ReachesEventsEarly,
    /// Copies beyond the end of a buffer give no error.
    ChecksNoBounds,
    /// Takes blocks as padding and starts none of them. The only one that pads at all.
    PadsNothing,
    /// A graph that has begun runs to its end.
    RunsGraphsThrough,
    /// Of a graph that is drained, one command never runs.
    SkipsNodes,
    /// Of a launch on a capped queue, only as many blocks run. The only one that caps at all.
    CapsBlocksAway,
    /// Events note times of a clock that seldom ticks.
    TicksSeldom,
    /// Notes times around a command when it gets it.
    NotesBetweenAtOnce,
}

pub(crate) type Buffer = Arc<Mutex<Vec<u8>>>;

#[derive(Debug, Clone)]
pub(crate) struct Toy(Arc<Open>);

#[derive(Debug)]
struct Open {
    fault: Fault,
    opened: Instant,
    shared: Arc<Shared>,
    unit: Option<JoinHandle<()>>,
    /// By their addresses, which are made up.
    buffers: Mutex<HashMap<u64, Weak<Mutex<Vec<u8>>>>>,
    next_address: AtomicU64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(unit) = self.unit.take() {
            let _ = unit.join();
        }
    }
}

impl Toy {
    pub(crate) fn broken(fault: Fault) -> Self {
        Self::open(fault, Dozes::Never)
    }

    /// Nothing is wrong with it, but calls take longer now and then.
    pub(crate) fn dozing(seed: u64) -> Self {
        Self::open(Fault::None, Dozes::from_seed(seed))
    }

    fn open(fault: Fault, dozes: Dozes) -> Self {
        let shared = Arc::new(Shared::new(fault, dozes));
        let unit = Some(std::thread::spawn({
            let shared = shared.clone();
            move || shared.work()
        }));
        let buffers = Mutex::default();
        let (opened, next_address) = (Instant::now(), AtomicU64::new(64));
        Self(Arc::new(Open { fault, opened, shared, unit, buffers, next_address }))
    }

    fn buffer_at(&self, address: u64) -> Result<Buffer> {
        let buffers = self.0.buffers.lock().unwrap();
        let found = buffers.get(&address).and_then(Weak::upgrade);
        found.ok_or_else(|| Error::invalid("address", format!("must be a buffer's, got {address}")))
    }

    /// A command of a graph, and its blocks.
    fn node(&self, command: &Command<Self>) -> Result<(Work, u32)> {
        match command {
            Command::Launch(launch) => Ok((self.appends(launch)?, launch.blocks())),
            Command::Copy(copy) => Ok((Work::Copy(copy.clone()), 1)),
            Command::Fill(fill) => Ok((Work::Fill(fill.clone()), 1)),
            other => Err(Error::invalid("command", format!("cannot be in a graph, got {other:?}"))),
        }
    }

    fn appends(&self, launch: &Launch<Self>) -> Result<Work> {
        let &[address, value, rounds] = launch.args().words() else {
            return Err(Error::invalid("arguments", "must be three words"));
        };
        Ok(Work::Append { cells: self.buffer_at(address)?, value, rounds })
    }
}

fn check(buffer: &Buffer, offset: usize, bytes: usize) -> Result<()> {
    let have = buffer.lock().unwrap().len();
    match offset.checked_add(bytes) {
        Some(end) if end <= have => Ok(()),
        _ => Err(Error::invalid(
            "range",
            format!("must be inside of {have} bytes, got {bytes} at {offset}"),
        )),
    }
}

/// Nanoseconds after the device was opened; 0: not reached.
#[derive(Debug, Clone)]
pub(crate) struct Event(Arc<AtomicU64>);

impl Event {
    fn reach(&self, now: Duration) {
        self.0.store(now.as_nanos() as u64, Ordering::Release);
    }
}

impl reef_core::Event for Event {
    fn reached(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Acquire);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}

#[derive(Debug)]
pub(crate) struct ToyPreemptor {
    level: PreemptLevel,
    stop: Arc<AtomicU8>,
    shared: Arc<Shared>,
}

impl ToyPreemptor {
    fn raise(&self, level: PreemptLevel, stop: Stop) -> Result<()> {
        if self.level < level {
            return Err(Error::Level {
                backend: "toy",
                what: "preemptor",
                asked: level,
                have: self.level,
            });
        }
        let stop = match self.shared.fault {
            Fault::EvictsNothing => Stop::Run,
            Fault::ResetsNothing => stop.min(Stop::Evict),
            _ => stop,
        };
        self.stop.store(stop as u8, Ordering::SeqCst);
        self.shared.dozes.doze();
        Ok(())
    }
}

impl Preemptor for ToyPreemptor {
    /// Its stop is a word of the host, which no queue reads.
    fn needs_room(&self) -> bool {
        false
    }

    fn level(&self) -> PreemptLevel {
        self.level
    }

    fn evict(&self) -> Result<()> {
        self.raise(PreemptLevel::DeviceQueue, Stop::Evict)
    }

    fn reset(&self) -> Result<()> {
        self.raise(PreemptLevel::All, Stop::Reset)
    }

    fn reactivate(&self) -> Result<()> {
        self.shared.dozes.doze();
        self.stop.store(Stop::Run as u8, Ordering::SeqCst);
        self.shared.announce();
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct ToyQueue {
    device: Toy,
    id: u64,
    cap: Option<u32>,
}

impl ToyQueue {
    fn push(&mut self, seq: Seq, work: Work, left: Remaining) -> Result<()> {
        self.device.0.shared.dozes.doze();
        self.device.0.shared.change(self.id, |line| line.push(seq, work, left));
        Ok(())
    }

    fn is(&self, fault: Fault) -> bool {
        self.device.0.fault == fault
    }
}

impl Queue for ToyQueue {
    type Backend = Toy;

    fn launch(&mut self, seq: Seq, launch: &Launch<Toy>, resume: Option<&Remaining>) -> Result<()> {
        let blocks = match self.cap {
            Some(cap) if self.is(Fault::CapsBlocksAway) => launch.blocks().min(cap),
            _ => launch.blocks(),
        };
        let left = resume.cloned().unwrap_or_else(|| Remaining::new(blocks));
        let work = self.device.appends(launch)?;
        self.push(seq, work, left)
    }

    fn launch_graph(
        &mut self,
        seq: Seq,
        graph: &ToyGraph,
        resume: Option<&Remaining>,
    ) -> Result<()> {
        let left = resume.cloned().unwrap_or_else(|| Remaining::in_order(graph.0.len() as u32));
        self.push(seq, Work::Graph(graph.clone()), left)
    }

    fn launch_between(
        &mut self,
        seq: Seq,
        command: &Command<Toy>,
        events: [Option<&Event>; 2],
    ) -> Result<bool> {
        let Command::Launch(launch) = command else { return Ok(false) };
        if !self.is(Fault::NotesBetweenAtOnce) {
            return Ok(false);
        }
        let now = self.device.clock();
        events.into_iter().flatten().for_each(|event| event.reach(now));
        self.launch(seq, launch, None).map(|()| true)
    }

    fn cap_blocks(&mut self, blocks: Option<u32>) {
        self.cap = blocks;
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Toy>) -> Result<()> {
        let checked = check(&copy.from, copy.from_offset, copy.bytes)
            .and_then(|()| check(&copy.to, copy.to_offset, copy.bytes));
        match checked {
            Ok(()) => self.push(seq, Work::Copy(copy.clone()), Remaining::new(1)),
            Err(_) if self.is(Fault::ChecksNoBounds) => {
                self.push(seq, Work::Nothing, Remaining::new(1))
            }
            Err(error) => Err(error),
        }
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Toy>) -> Result<()> {
        check(&fill.buffer, fill.offset, fill.bytes)?;
        self.push(seq, Work::Fill(fill.clone()), Remaining::new(1))
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        rt: &Launch<Toy>,
        _: &Padding,
        _: &Launch<Toy>,
        _: &Remaining,
    ) -> Result<()> {
        self.launch(seq, rt, None)
    }

    fn record(&mut self, seq: Seq, event: &Event) -> Result<()> {
        self.push(seq, Work::Record(event.clone(), self.device.0.opened), Remaining::new(1))
    }

    fn completed(&mut self) -> Result<Seq> {
        let completed = self.device.0.shared.change(self.id, |line| line.completed());
        self.device.0.shared.dozes.doze();
        Ok(Seq(completed))
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Toy>>> {
        let drained = self.device.0.shared.change(self.id, Line::try_drain);
        self.device.0.shared.dozes.doze();
        Ok(drained)
    }

    fn wake(&mut self, thread: Thread) -> bool {
        self.device.0.shared.change(self.id, |line| line.waker = Some(thread));
        true
    }

    fn wake_at(&mut self, Seq(at): Seq) {
        self.device.0.shared.change(self.id, |line| line.wake_at = at);
    }
}

impl Drop for ToyQueue {
    fn drop(&mut self) {
        while !self.device.0.shared.change(self.id, Line::abandon) {
            std::thread::yield_now();
        }
        self.device.0.shared.remove(self.id);
    }
}

impl Backend for Toy {
    const NAME: &'static str = "toy";
    type Buffer = Buffer;
    type Kernel = ();
    type Event = Event;
    type Checkpoint = Remaining;
    type Graph = ToyGraph;
}

impl Device for Toy {
    type Options = ();
    type Queue = ToyQueue;
    type Preemptor = ToyPreemptor;

    fn parse_options(_: &str) -> Result<()> {
        Ok(())
    }

    fn open_with(_: usize, (): ()) -> Result<Self> {
        Ok(Self::broken(Fault::None))
    }

    fn info(&self) -> DeviceInfo {
        let units = if self.0.fault == Fault::PadsNothing { 2 } else { 1 };
        let mut info = DeviceInfo::new("a toy", units, PreemptLevel::All);
        info.threads_per_unit = 32;
        info
    }

    fn clock(&self) -> Duration {
        self.0.opened.elapsed()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        let buffer = Arc::new(Mutex::new(vec![0; bytes]));
        let address = self.0.next_address.fetch_add(64, Ordering::Relaxed);
        let mut buffers = self.0.buffers.lock().unwrap();
        buffers.retain(|_, buffer| buffer.strong_count() > 0);
        buffers.insert(address, Arc::downgrade(&buffer));
        Ok(buffer)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer> {
        self.alloc(bytes)
    }

    fn write(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<()> {
        check(buffer, offset, data.len())?;
        buffer.lock().unwrap()[offset..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        check(buffer, offset, data.len())?;
        data.copy_from_slice(&buffer.lock().unwrap()[offset..][..data.len()]);
        Ok(())
    }

    fn kernel(&self, name: &str) -> Result<()> {
        match name {
            "append" => Ok(()),
            _ => Err(Error::NotFound(format!("toy: no kernel {name:?} (have: append)"))),
        }
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        let buffers = self.0.buffers.lock().unwrap();
        let is_it = |have: &Weak<_>| std::ptr::eq(have.as_ptr(), Arc::as_ptr(buffer));
        buffers.iter().find(|(_, have)| is_it(have)).map_or(0, |(&address, _)| address)
    }

    fn colocation(&self) -> Colocation {
        match self.0.fault {
            Fault::PadsNothing => Colocation::Padded,
            Fault::CapsBlocksAway => Colocation::Capped(Caps::all(1)),
            _ => Colocation::Never,
        }
    }

    fn graph(&self, commands: &[Command<Self>]) -> Result<ToyGraph> {
        let nodes = commands.iter().map(|command| self.node(command));
        let nodes: Vec<_> = nodes.collect::<Result<_>>()?;
        if nodes.is_empty() {
            return Err(Error::invalid("graph", "must have commands"));
        }
        Ok(ToyGraph(Arc::new(nodes)))
    }

    fn event(&self) -> Result<Event> {
        let event = Event(Arc::default());
        if self.0.fault == Fault::ReachesEventsEarly {
            event.reach(self.clock());
        }
        Ok(event)
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Remaining> {
        Ok(Remaining::new(launch.blocks()))
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<ToyPreemptor> {
        Ok(ToyPreemptor { level, stop: Arc::default(), shared: self.0.shared.clone() })
    }

    fn queue(&self, priority: Priority, preemptor: Option<&ToyPreemptor>) -> Result<ToyQueue> {
        let stop = preemptor.map_or_else(Arc::default, |preemptor| preemptor.stop.clone());
        Ok(ToyQueue { device: self.clone(), id: self.0.shared.add(priority, stop), cap: None })
    }
}
