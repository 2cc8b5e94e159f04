//! All that the driver knows, behind one lock.

use super::device_memory::{Piece, Pool};
use super::graph::{Capture, Graphs, Run, flatten};
use super::op::Op;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard};

/// An operation in a stream.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its place among all operations.
    pub(crate) number: u64,
    pub(crate) op: Op,
    /// If it is a graph.
    pub(crate) run: Option<Run>,
}

#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) context: usize,
    /// Takes part in the legacy default stream's order.
    pub(crate) is_blocking: bool,
    pub(crate) queue: VecDeque<Entry>,
    /// Which capture it is part of, and the nodes that the next one comes after.
    pub(crate) capture: Option<(u64, Vec<usize>)>,
}

#[derive(Debug, Default)]
pub(crate) struct Event {
    /// How often it was recorded, and how far that has come.
    pub(crate) recorded: u64,
    pub(crate) reached: u64,
    /// The capture that recorded it last, and where.
    pub(crate) captured: Option<(u64, Vec<usize>)>,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) captures: HashMap<u64, Capture>,
    /// Those of the program, those inside of nodes, and those that were instantiated.
    pub(crate) graphs: Graphs,
    pub(crate) execs: HashSet<usize>,
    /// Handles of conditional nodes, and what they say.
    pub(crate) conditions: HashMap<u64, bool>,
    /// Allocations and their bytes.
    pub(crate) memory: HashMap<usize, Box<[u64]>>,
    /// The device's bytes in `memory`, and in arrays; and in pools, with the pool.
    pub(crate) taken: HashMap<usize, u64>,
    pub(crate) pooled: HashMap<usize, (usize, u64)>,
    pub(crate) pools: HashMap<usize, Pool>,
    /// Memory by handles, and where it is mapped: lengths, and handles.
    pub(crate) pieces: HashMap<usize, Piece>,
    pub(crate) mapped: BTreeMap<usize, (usize, usize)>,
    pub(crate) registered: HashMap<usize, usize>,
    pub(crate) names: HashMap<usize, String>,
    last: u64,
    pub(crate) seed: u64,
    /// Look-ups that were answered, and that weren't.
    pub(crate) found: u64,
    pub(crate) not_found: u64,
    /// Waits and writes that streams were given.
    pub(crate) waits: u64,
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);
/// Something ran, or there is something to run.
pub(crate) static CHANGED: Condvar = Condvar::new();

pub(crate) fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A number of the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

impl World {
    /// A number that nothing else has.
    pub(crate) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A handle that looks like a pointer.
    pub(crate) fn handle(&mut self) -> usize {
        0x10_0000 + 64 * self.number() as usize
    }

    pub(crate) fn push(&mut self, stream: u64, op: Op) {
        let number = self.number();
        let graph = match op {
            Op::Graph(graph) => Some(flatten(&self.graphs, graph)),
            _ => None,
        };
        let entry = Entry { number, op, run: graph.map(Run::new) };
        self.streams.entry(stream).or_default().queue.push_back(entry);
    }

    /// Whether nothing of this stream is left to run.
    pub(crate) fn is_idle(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.queue.is_empty())
    }

    /// Whether nothing of this context, or of any, is left to run.
    pub(crate) fn is_all_idle(&self, context: Option<usize>) -> bool {
        let of = |stream: &&Stream| context.is_none_or(|context| stream.context == context);
        self.streams.values().filter(of).all(|stream| stream.queue.is_empty())
    }
}
