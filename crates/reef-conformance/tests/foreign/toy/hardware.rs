//! The toy's hardware: queues of work behind one lock, and the thread that runs their blocks.

use super::dozes::Dozes;
use super::{Buffer, Event, Fault, Toy};
use reef_core::{Copy, Drained, Fill, Priority, Seq};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Request of a preemptor to blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    Run = 0,
    /// Start no more.
    Evict = 1,
    /// Stop those that run.
    Reset = 2,
}

/// A block that was stopped this often runs through.
const MAX_STOPS: u32 = 2;

#[derive(Debug)]
pub(crate) enum Work {
    Append {
        cells: Buffer,
        value: u64,
        rounds: u64,
    },
    Copy(Copy<Toy>),
    Fill(Fill<Toy>),
    Record(Event, Instant),
    /// Of which each node is a block.
    Graph(ToyGraph),
    Nothing,
}

/// Commands, each with its blocks, that run one after the other.
#[derive(Debug, Clone)]
pub(crate) struct ToyGraph(pub(crate) Arc<Vec<(Work, u32)>>);

#[derive(Debug, Clone, Copy)]
struct Block {
    index: usize,
    stops: u32,
}

/// The blocks of a launch that have not taken effect.
#[derive(Debug, Clone)]
pub(crate) struct Remaining(Arc<Mutex<Blocks>>);

#[derive(Debug)]
struct Blocks {
    total: u32,
    remaining: u32,
    /// Blocks that do not run.
    waiting: Vec<Block>,
}

impl Remaining {
    pub(crate) fn new(total: u32) -> Self {
        let waiting = (0..total as usize).map(|index| Block { index, stops: 0 }).collect();
        Self(Arc::new(Mutex::new(Blocks { total, remaining: total, waiting })))
    }

    /// The nodes of a graph.
    pub(crate) fn in_order(total: u32) -> Self {
        let left = Self::new(total);
        left.0.lock().unwrap().waiting.reverse();
        left
    }

    /// One that never runs counts as one that did.
    fn lose_one(&self) {
        if self.take().is_some() {
            self.finish();
        }
    }

    fn is_untouched(&self) -> bool {
        let blocks = self.0.lock().unwrap();
        blocks.waiting.len() == blocks.total as usize
    }

    fn take(&self) -> Option<Block> {
        self.0.lock().unwrap().waiting.pop()
    }

    fn finish(&self) {
        self.0.lock().unwrap().remaining -= 1;
    }

    fn give_back(&self, block: Block) {
        self.0.lock().unwrap().waiting.push(Block { stops: block.stops + 1, ..block });
    }

    fn is_all_taken(&self) -> bool {
        self.0.lock().unwrap().waiting.is_empty()
    }

    /// Returns a record of the launch from its first block.
    fn forget(&self) -> Self {
        Self::new(self.0.lock().unwrap().total)
    }
}

impl reef_core::Checkpoint for Remaining {
    fn remaining(&self) -> u32 {
        self.0.lock().unwrap().remaining
    }
}

#[derive(Debug)]
struct Item {
    seq: u64,
    work: Arc<Work>,
    left: Remaining,
}

impl Item {
    fn is_finished(&self) -> bool {
        reef_core::Checkpoint::remaining(&self.left) == 0
    }
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Line {
    id: u64,
    fault: Fault,
    dozes: Arc<Dozes>,
    priority: Priority,
    stop: Arc<AtomicU8>,
    items: VecDeque<Item>,
    /// One of its blocks runs.
    running: bool,
    done: u64,
    /// End position of the newest command.
    pushed: u64,
    pub(crate) waker: Option<Thread>,
    pub(crate) wake_at: u64,
    drain_wanted: bool,
}

struct Task {
    line: u64,
    work: Arc<Work>,
    left: Remaining,
    block: Block,
    stop: Arc<AtomicU8>,
}

impl Line {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst) != Stop::Run as u8
    }

    pub(crate) fn push(&mut self, Seq(seq): Seq, work: Work, left: Remaining) {
        self.items.push_back(Item { seq, work: Arc::new(work), left });
        self.pushed = seq + 1;
        self.advance();
    }

    /// Returns whether its next block may start.
    fn may_go(&self) -> bool {
        let runs_through = |item: &Item| {
            self.fault == Fault::RunsGraphsThrough
                && matches!(&*item.work, Work::Graph(_))
                && !item.left.is_untouched()
        };
        !self.is_stopped() || self.items.front().is_some_and(runs_through)
    }

    fn claim(&mut self) -> Option<Task> {
        if !self.may_go() || self.running {
            return None;
        }
        let unordered = self.fault == Fault::RunsUnordered && self.items.len() > 1;
        let item = self.items.get(usize::from(unordered))?;
        let block = item.left.take()?;
        self.running = true;
        if self.fault == Fault::CompletesEarly && item.left.is_all_taken() {
            self.waker.iter().for_each(|thread| self.dozes.wake(thread));
        }
        let (work, left, stop) = (item.work.clone(), item.left.clone(), self.stop.clone());
        Some(Task { line: self.id, work, left, block, stop })
    }

    /// Removes what has finished, and wakes its waiters.
    fn advance(&mut self) {
        self.items.retain(|item| !item.is_finished());
        self.done = self.items.front().map_or(self.pushed, |item| item.seq);
        if self.done >= self.wake_at || (self.drain_wanted && !self.running) {
            (self.wake_at, self.drain_wanted) = (u64::MAX, false);
            self.waker.iter().for_each(|thread| self.dozes.wake(thread));
        }
    }

    pub(crate) fn completed(&self) -> u64 {
        match self.items.front() {
            Some(item) if self.fault == Fault::CompletesEarly && item.left.is_all_taken() => {
                item.seq + 1
            }
            _ => self.done,
        }
    }

    pub(crate) fn try_drain(&mut self) -> Option<Drained<Toy>> {
        let runs = self.running && self.fault != Fault::DrainsEarly;
        if runs || (!self.items.is_empty() && !self.is_stopped()) {
            self.drain_wanted = true;
            return None;
        }
        let last = self.items.back().map(|item| item.seq + 1);
        let first = self.items.pop_front();
        self.items.clear();
        let partial = first.and_then(|first| match (&*first.work, self.fault) {
            (Work::Append { .. }, Fault::ForgetsCheckpoint) => Some(first.left.forget()),
            (Work::Graph(_), Fault::SkipsNodes) => {
                first.left.lose_one();
                Some(first.left)
            }
            (Work::Append { .. } | Work::Graph(_), _) => Some(first.left),
            _ => None,
        });
        let (resume_at, partial) = match (self.fault, last) {
            (Fault::LosesQueued, Some(last)) => (last, None),
            _ => (self.done, partial),
        };
        self.pushed = resume_at;
        Some(Drained { resume_at: Seq(resume_at), partial, held: false })
    }

    /// Forgets what has not started. Returns whether nothing runs.
    pub(crate) fn abandon(&mut self) -> bool {
        self.items.clear();
        !self.running
    }
}

impl Task {
    /// Returns whether it took effect.
    fn run(&self, fault: Fault) -> bool {
        let index = self.block.index;
        match &*self.work {
            Work::Graph(graph) => {
                let (node, blocks) = &graph.0[index];
                self.run_blocks(node, 0..*blocks as usize, fault)
            }
            work => self.run_blocks(work, index..index + 1, fault),
        }
    }

    fn run_blocks(&self, work: &Work, blocks: Range<usize>, fault: Fault) -> bool {
        match work {
            Work::Append { cells, value, rounds } => {
                return self.append((cells, blocks), *value, *rounds, fault);
            }
            Work::Copy(copy) if fault != Fault::SkipsCopies => {
                let bytes = copy.from.lock().unwrap()[copy.from_offset..][..copy.bytes].to_vec();
                copy.to.lock().unwrap()[copy.to_offset..][..copy.bytes].copy_from_slice(&bytes);
            }
            Work::Fill(fill) if fault != Fault::SkipsFills => {
                let mut bytes = fill.buffer.lock().unwrap();
                let (words, _) = bytes[fill.offset..][..fill.bytes].as_chunks_mut();
                words.fill(fill.word.to_ne_bytes());
            }
            Work::Record(event, opened) if fault == Fault::TicksSeldom => {
                event.reach(Duration::from_secs(opened.elapsed().as_secs() + 1));
            }
            Work::Record(event, opened) => event.reach(opened.elapsed()),
            Work::Copy(_) | Work::Fill(_) | Work::Graph(_) | Work::Nothing => {}
        }
        true
    }

    fn append(
        &self,
        cells: (&Buffer, Range<usize>),
        value: u64,
        rounds: u64,
        fault: Fault,
    ) -> bool {
        let in_graph = matches!(&*self.work, Work::Graph(_));
        let may_stop = (self.block.stops < MAX_STOPS || fault == Fault::StopsForever)
            && !(in_graph && fault == Fault::RunsGraphsThrough);
        for _ in 0..rounds {
            if may_stop && self.stop.load(Ordering::Relaxed) == Stop::Reset as u8 {
                if fault == Fault::CommitsStopped {
                    self.commit(cells.0, cells.1, value);
                }
                return fault == Fault::LosesStopped;
            }
            (0..64).for_each(|_| std::hint::spin_loop());
        }
        self.commit(cells.0, cells.1, value);
        true
    }

    fn commit(&self, cells: &Buffer, blocks: Range<usize>, value: u64) {
        let mut bytes = cells.lock().unwrap();
        for cell in &mut bytes.as_chunks_mut::<8>().0[blocks] {
            *cell = u64::from_ne_bytes(*cell).wrapping_mul(3).wrapping_add(value).to_ne_bytes();
        }
    }
}

/// All queues.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fault: Fault,
    pub(crate) dozes: Arc<Dozes>,
    lines: Mutex<VecDeque<Line>>,
    news: Condvar,
    closing: AtomicBool,
}

impl Shared {
    pub(crate) fn new(fault: Fault, dozes: Dozes) -> Self {
        let (lines, news) = (Mutex::default(), Condvar::new());
        Self { fault, dozes: Arc::new(dozes), lines, news, closing: AtomicBool::new(false) }
    }

    pub(crate) fn add(&self, priority: Priority, stop: Arc<AtomicU8>) -> u64 {
        let mut lines = self.lines.lock().unwrap();
        let id = lines.iter().map(|line| line.id + 1).max().unwrap_or(0);
        lines.push_back(Line {
            id,
            fault: self.fault,
            dozes: self.dozes.clone(),
            priority,
            stop,
            items: VecDeque::new(),
            running: false,
            done: 0,
            pushed: 0,
            waker: None,
            wake_at: u64::MAX,
            drain_wanted: false,
        });
        id
    }

    pub(crate) fn remove(&self, id: u64) {
        self.lines.lock().unwrap().retain(|line| line.id != id);
    }

    pub(crate) fn change<T>(&self, id: u64, f: impl FnOnce(&mut Line) -> T) -> T {
        let mut lines = self.lines.lock().unwrap();
        let line = lines.iter_mut().find(|line| line.id == id);
        let result = f(line.expect("it is removed when its queue is dropped"));
        self.news.notify_all();
        result
    }

    /// Lets the unit look for blocks.
    pub(crate) fn announce(&self) {
        drop(self.lines.lock().unwrap()); // it has looked and sleeps, or will look
        self.news.notify_all();
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.announce();
    }

    /// Runs the unit until the device is closed.
    pub(crate) fn work(&self) {
        let mut lines = self.lines.lock().unwrap();
        while !self.closing.load(Ordering::SeqCst) {
            let Some(task) = next(&mut lines) else {
                lines = self.news.wait(lines).unwrap();
                continue;
            };
            drop(lines);
            let done = task.run(self.fault);
            lines = self.lines.lock().unwrap();
            end(&mut lines, &task, done);
        }
    }
}

/// Real-time queues come first; the others take turns, block by block.
fn next(lines: &mut VecDeque<Line>) -> Option<Task> {
    let real_time = lines.iter_mut().filter(|line| line.priority == Priority::RealTime);
    if let Some(task) = real_time.into_iter().find_map(Line::claim) {
        return Some(task);
    }
    let at = (0..lines.len()).find(|&at| !lines[at].items.is_empty() && lines[at].may_go())?;
    let task = lines[at].claim();
    let line = lines.remove(at)?;
    lines.push_back(line);
    task
}

fn end(lines: &mut VecDeque<Line>, task: &Task, done: bool) {
    if done {
        task.left.finish();
    } else {
        task.left.give_back(task.block);
    }
    if let Some(line) = lines.iter_mut().find(|line| line.id == task.line) {
        line.running = false;
        line.advance();
    }
}
