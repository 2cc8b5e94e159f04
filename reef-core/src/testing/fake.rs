//! A device for tests of this crate: it finishes what the test says, when the test says so, and
//! fails where it is told to.
//!
//! Others have `reef_conformance::Null`, which stands above this crate: its device is one of the
//! finished crate, and unit tests need one of the crate under test.

use crate::backend::blocks::Blocks;
use crate::backend::command::{Args, Command, Copy, Fill, Launch};
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::{Caps, Colocation, DeviceInfo, PreemptLevel, Priority, Seq};
use crate::backend::preemptor::Preemptor;
use crate::backend::queue::{Drained, Queue};
use crate::backend::resources::Padding;
use crate::backend::types::{Backend, Checkpoint, Event, NoGraph};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The device. Clones share a [`Script`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Fake(pub(crate) Arc<Script>);

/// Script of the device's next actions. Counters count down to 0 as they are used up.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Real-time queues finish nothing from this position on; 0 is without a limit.
    pub(crate) rt_hangs_at: AtomicU64,
    /// Best-effort queues finish nothing by themselves while it is up.
    pub(crate) be_hangs: AtomicBool,
    /// This queue, counted from 1 in the order in which they were opened, has a kernel that never
    /// ends: it finishes nothing and is never drained. 0 is none.
    pub(crate) hung: AtomicU64,
    /// Best-effort queues give themselves up when they are asked for their progress.
    pub(crate) be_times_out: AtomicBool,
    /// Queues that were abandoned with what the device had of them.
    pub(crate) abandoned: AtomicU32,
    /// Queues that were opened.
    pub(crate) queues: AtomicU64,
    /// Launches of best-effort queues do not return while it is up.
    pub(crate) be_launch_blocks: AtomicBool,
    /// Number of launches that did not return at once because of it.
    pub(crate) be_launches_blocked: AtomicU32,
    /// Number of times that queues were asked for their progress.
    pub(crate) polls: AtomicU64,
    /// It claims to unpark threads, and never does: nothing of what it has ends while they are
    /// parked.
    pub(crate) claims_to_wake: AtomicBool,
    /// Number of blocks of a queue that may run next to real-time work; 0: it pads kernel by
    /// kernel.
    pub(crate) capped: AtomicU32,
    /// Shortest real-time kernel that is padded, in microseconds.
    pub(crate) padded_micros: AtomicU32,
    /// The cap of queues whose blocks are long; 0: as for short ones.
    pub(crate) capped_long: AtomicU32,
    /// Graphs of it can run on a part of the units.
    pub(crate) has_parts: AtomicBool,
    /// Parts of the units that queues of each class were told, in percent.
    pub(crate) parts: Mutex<Vec<(Priority, u32)>>,
    /// Number of launches on best-effort queues that are refused.
    pub(crate) be_launch_fails: AtomicU32,
    /// Number of launches on real-time queues that panic.
    pub(crate) rt_launch_panics: AtomicU32,
    /// Number of queues that cannot be opened.
    pub(crate) open_fails: AtomicU32,
    /// Number of checkpoints that are refused.
    pub(crate) checkpoint_fails: AtomicU32,
    pub(crate) evict_fails: AtomicU32,
    pub(crate) reset_fails: AtomicU32,
    pub(crate) reactivate_fails: AtomicU32,
    /// Calls of preemptors, without those that failed.
    pub(crate) told: Mutex<Vec<&'static str>>,
    /// A stop needs a place on the device.
    pub(crate) needs_room: AtomicBool,
    /// A stop calls no driver.
    pub(crate) stops_by_words: AtomicBool,
    /// Commands that it was to prepare.
    pub(crate) prepared: AtomicU32,
    /// For each command of real-time queues, the number of calls of preemptors before its launch.
    pub(crate) rt_launched_after: Mutex<Vec<usize>>,
    /// Padded launches.
    pub(crate) padded: AtomicU32,
    /// Number of drains that queues were asked for.
    pub(crate) drains: AtomicU32,
    pub(crate) hang: Hang,
}

/// A call of the device, of those that can hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Evict,
    Reset,
    Reactivate,
    /// Opening a queue.
    Open,
    /// Closing a queue.
    Close,
    /// On a queue of this class.
    Launch(Priority),
    Completed(Priority),
    /// By a thread that makes a pass, or by a queue's worker.
    Drain(By),
}

/// Thread that makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Pass,
    Worker,
}

impl By {
    fn current() -> Self {
        let is_worker = thread::current().name() == Some("reef-fake-queue");
        if is_worker { Self::Worker } else { Self::Pass }
    }
}

/// A call that does not return until the test lets it.
#[derive(Debug, Default)]
pub(crate) struct Hang {
    call: Mutex<Option<Call>>,
    /// One call at a time does not return; others like it do.
    pub(crate) one: AtomicBool,
    changed: Condvar,
    /// Calls that have not returned.
    inside: AtomicU32,
    /// One has hung, whether or not it has returned.
    has_hung: AtomicBool,
}

impl Hang {
    /// Calls like this one do not return from now on; `None`: all do.
    pub(crate) fn set(&self, call: Option<Call>) {
        *self.call.lock() = call;
        self.changed.notify_all();
    }

    /// Returns whether a call hangs.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::SeqCst) > 0
    }

    /// Returns whether a call has hung.
    pub(crate) fn has_hung(&self) -> bool {
        self.has_hung.load(Ordering::SeqCst)
    }

    fn wait(&self, call: Call) {
        let mut hangs = self.call.lock();
        let returns = self.one.load(Ordering::SeqCst) && self.is_inside();
        if *hangs == Some(call) && !returns {
            self.has_hung.store(true, Ordering::SeqCst);
            self.inside.fetch_add(1, Ordering::SeqCst);
            self.changed.wait_while(&mut hangs, |hangs| *hangs == Some(call));
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Counts down; `true` until it is 0.
fn use_up(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

/// A queue that notes what it was given.
#[derive(Debug, Default)]
pub(crate) struct FakeQueue {
    /// Launches, with the blocks that remained if one resumed.
    pub(crate) launched: Vec<(u64, Option<u32>)>,
    /// All commands before this have finished. Set by the test.
    pub(crate) done: u64,
    /// Result of the next `try_drain`. Set by the test.
    pub(crate) drain: Option<(u64, Option<u32>)>,
    pub(crate) wake_at: Option<u64>,
    /// The thread to wake.
    pub(crate) wakes: Option<Thread>,
    /// Caps that it was told.
    pub(crate) caps: Vec<Option<u32>>,
    /// A queue of a device does what this says.
    of: Option<(Fake, Priority)>,
    /// Its number among the device's queues, from 1.
    number: u64,
    /// It has given itself up.
    has_timed_out: bool,
}

/// Blocks that remain.
#[derive(Debug, Clone)]
pub(crate) struct BlocksLeft(pub(crate) u32);

/// Reached when the test says so.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeEvent(pub(crate) Arc<AtomicBool>);

/// Records its calls, unless it is to fail.
#[derive(Debug)]
pub(crate) struct FakePreemptor(Fake, PreemptLevel);

impl Checkpoint for BlocksLeft {
    fn remaining(&self) -> u32 {
        self.0
    }
}

impl Event for FakeEvent {
    fn reached(&self) -> Option<Duration> {
        self.0.load(Ordering::Relaxed).then_some(Duration::ZERO)
    }
}

impl FakePreemptor {
    fn tell(&self, call: Call, what: &'static str, fails: &AtomicU32) -> Result<()> {
        self.0.0.hang.wait(call);
        if use_up(fails) {
            return Err(Error::DeviceLost { backend: Fake::NAME, why: what.into() });
        }
        self.0.0.told.lock().push(what);
        Ok(())
    }
}

impl Preemptor for FakePreemptor {
    fn level(&self) -> PreemptLevel {
        self.1
    }

    fn calls_driver(&self) -> bool {
        !self.0.0.stops_by_words.load(Ordering::SeqCst)
    }

    fn needs_room(&self) -> bool {
        self.0.0.needs_room.load(Ordering::SeqCst)
    }

    fn evict(&self) -> Result<()> {
        self.tell(Call::Evict, "evict", &self.0.0.evict_fails)
    }

    fn reset(&self) -> Result<()> {
        self.tell(Call::Reset, "reset", &self.0.0.reset_fails)
    }

    fn reactivate(&self) -> Result<()> {
        self.tell(Call::Reactivate, "reactivate", &self.0.0.reactivate_fails)
    }
}

impl FakeQueue {
    fn note(&mut self, Seq(at): Seq, left: Option<u32>) -> Result<()> {
        if let Some((Fake(script), class)) = &self.of {
            script.hang.wait(Call::Launch(*class));
            let rt = *class == Priority::RealTime;
            assert!(!(rt && use_up(&script.rt_launch_panics)), "as the script says");
            if rt {
                script.rt_launched_after.lock().push(script.told.lock().len());
            }
            if !rt && use_up(&script.be_launch_fails) {
                return Err(Error::state("a launch", "as the script says"));
            }
            if !rt && script.be_launch_blocks.load(Ordering::SeqCst) {
                script.be_launches_blocked.fetch_add(1, Ordering::SeqCst);
            }
            while !rt && script.be_launch_blocks.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
        self.launched.push((at, left));
        Ok(())
    }

    fn is_hung(&self) -> bool {
        let hung = |(Fake(script), _): &(Fake, Priority)| script.hung.load(Ordering::SeqCst);
        self.of.as_ref().map(hung).is_some_and(|number| number == self.number)
    }

    /// As a device does that finishes everything at once, but where it hangs.
    fn run(&mut self) {
        let Some((Fake(script), class)) = &self.of else { return };
        if self.is_hung() {
            return;
        }
        let end = self.launched.last().map_or(0, |(at, _)| at + 1);
        let hangs_at = match class {
            Priority::RealTime => script.rt_hangs_at.load(Ordering::SeqCst),
            Priority::BestEffort if script.be_hangs.load(Ordering::SeqCst) => return,
            Priority::BestEffort => 0,
        };
        let limit = if hangs_at > 0 { hangs_at } else { end };
        self.done = end.min(limit).max(self.done);
    }
}

impl Queue for FakeQueue {
    type Backend = Fake;

    fn launch(&mut self, seq: Seq, _: &Launch<Fake>, resume: Option<&BlocksLeft>) -> Result<()> {
        self.note(seq, resume.map(|left| left.0))
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        _: &Launch<Fake>,
        _: &Padding,
        _: &Launch<Fake>,
        _: &BlocksLeft,
    ) -> Result<()> {
        if let Some((Fake(script), _)) = &self.of {
            script.padded.fetch_add(1, Ordering::SeqCst);
        }
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
        if let Some((Fake(script), class)) = &self.of {
            script.hang.wait(Call::Completed(*class));
            let is_be = *class == Priority::BestEffort;
            if is_be && script.be_times_out.load(Ordering::SeqCst) {
                self.has_timed_out = true;
                return Err(Error::DeviceLost { backend: Fake::NAME, why: "it is silent".into() });
            }
        }
        self.run();
        if let Some((Fake(script), _)) = &self.of {
            script.polls.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Seq(self.done))
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Fake>>> {
        if let Some((Fake(script), _)) = &self.of {
            script.hang.wait(Call::Drain(By::current()));
        }
        self.run();
        if let Some((Fake(script), _)) = &self.of {
            script.drains.fetch_add(1, Ordering::SeqCst);
            if self.is_hung() && self.done < self.launched.last().map_or(0, |(at, _)| at + 1) {
                return Ok(None);
            }
            self.drain = Some((self.done, None)); // evicted: what has not finished never will
        }
        let stopped = |(next, left): (u64, Option<u32>)| Drained {
            resume_at: Seq(next),
            partial: left.map(BlocksLeft),
            held: false,
        };
        Ok(self.drain.take().map(stopped))
    }

    fn abandon(&mut self) {
        if let Some((Fake(script), _)) = &self.of {
            script.abandoned.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn is_abandoned(&self) -> bool {
        self.has_timed_out
    }

    fn cap_blocks(&mut self, blocks: Option<u32>) {
        self.caps.push(blocks);
    }

    fn run_on(&mut self, percent: u32) {
        if let Some((Fake(script), class)) = &self.of {
            script.parts.lock().push((*class, percent));
        }
    }

    fn wake(&mut self, thread: Thread) -> bool {
        self.wakes = Some(thread);
        // A device is polled.
        self.of
            .as_ref()
            .is_none_or(|(Fake(script), _)| script.claims_to_wake.load(Ordering::SeqCst))
    }

    fn wake_at(&mut self, Seq(at): Seq) {
        self.wake_at = Some(at);
    }
}

impl Drop for FakeQueue {
    fn drop(&mut self) {
        if let Some((Fake(script), _)) = &self.of {
            script.hang.wait(Call::Close);
        }
    }
}

impl Backend for Fake {
    const NAME: &'static str = "fake";
    type Buffer = ();
    type Kernel = ();
    type Event = FakeEvent;
    type Checkpoint = BlocksLeft;
    type Graph = NoGraph;
}

impl Device for Fake {
    type Options = ();
    type Queue = FakeQueue;
    type Preemptor = FakePreemptor;

    fn parse_options(_: &str) -> Result<()> {
        Ok(())
    }

    fn open_with(_: usize, (): ()) -> Result<Self> {
        Ok(Self::default())
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "a fake".into(),
            units: 4,
            blocks_per_unit: 2,
            threads_per_unit: 1024,
            registers_per_unit: 1024,
            shared_per_unit: 1024,
            level: PreemptLevel::All,
            memory: None,
            uuid: None,
            padded_micros: self.0.padded_micros.load(Ordering::SeqCst),
            features: Vec::new(),
        }
    }

    fn clock(&self) -> Duration {
        static OPENED: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        OPENED.elapsed()
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

    fn colocation(&self) -> Colocation {
        match self.0.capped.load(Ordering::SeqCst) {
            0 => Colocation::Padded,
            short => {
                let long = self.0.capped_long.load(Ordering::SeqCst);
                let long = if long == 0 { short } else { long };
                Colocation::Capped(Caps { short, long, percent: 100 })
            }
        }
    }

    fn has_parts(&self) -> bool {
        self.0.has_parts.load(Ordering::SeqCst)
    }

    fn event(&self) -> Result<FakeEvent> {
        Ok(FakeEvent::default())
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<BlocksLeft> {
        if use_up(&self.0.checkpoint_fails) {
            return Err(Error::state("a checkpoint", "as the script says"));
        }
        Ok(BlocksLeft(launch.blocks()))
    }

    /// It stops launches from their end on.
    fn blocks(&self, &BlocksLeft(left): &BlocksLeft) -> Result<Blocks> {
        let ranges = (left > 0).then_some(8 - left..8).into_iter().collect();
        Blocks::new(8, 0, ranges)
    }

    fn checkpoint_of(&self, _: &Command<Self>, blocks: &Blocks) -> Result<BlocksLeft> {
        Ok(BlocksLeft(blocks.count()))
    }

    fn prepare(&self, _: &Command<Self>, _: Priority) -> Result<()> {
        self.0.prepared.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<FakePreemptor> {
        Ok(FakePreemptor(self.clone(), level))
    }

    fn queue(&self, class: Priority, _: Option<&FakePreemptor>) -> Result<FakeQueue> {
        self.0.hang.wait(Call::Open);
        if use_up(&self.0.open_fails) {
            return Err(Error::state("opening a queue", "as the script says"));
        }
        let number = self.0.queues.fetch_add(1, Ordering::SeqCst) + 1;
        let mut queue = FakeQueue::default();
        (queue.of, queue.number) = (Some((self.clone(), class)), number);
        Ok(queue)
    }
}

/// A launch of some blocks.
#[allow(unsafe_code)]
pub(crate) fn launch(blocks: u32) -> Launch<Fake> {
    // SAFETY: no device looks at it.
    unsafe { Launch::new((), [blocks, 1, 1], [1, 1, 1], Args::default()) }
}

/// A command that launches some blocks.
pub(crate) fn kernel() -> Command<Fake> {
    Command::Launch(launch(8))
}

/// Lets the device finish everything when it is dropped, so that a test that fails ends: declare it
/// last.
pub(crate) struct AtLast(pub(crate) Fake);

impl Drop for AtLast {
    fn drop(&mut self) {
        let Script { be_hangs, be_launch_blocks, rt_hangs_at, hung, hang, .. } = &*self.0.0;
        hang.set(None);
        be_hangs.store(false, Ordering::SeqCst);
        be_launch_blocks.store(false, Ordering::SeqCst);
        rt_hangs_at.store(0, Ordering::SeqCst);
        hung.store(0, Ordering::SeqCst);
    }
}

/// Waits until the device's queues have been asked for their progress this many times more.
pub(crate) fn until_polled(device: &Fake, times: u64) {
    let polls = || device.0.polls.load(Ordering::SeqCst);
    let before = polls();
    eventually("polled", || polls() >= before + times);
}

/// Waits until `holds`, for no longer than a minute.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        thread::yield_now();
    }
}
