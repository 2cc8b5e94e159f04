//! All that the driver knows, behind one lock.

use super::blocks::{Launched, PtxKernel};
use super::context::Context;
use super::device_memory::Piece;
use super::exports::Export;
use super::graph::{Capture, Graphs, Run, flatten};
use super::graph_memory::GraphMemory;
use super::op::Op;
use super::pool::Pool;
use super::shared_blocks::SharedBlocks;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};

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
    /// The number of its context.
    pub(crate) context: u64,
    /// Takes part in the legacy default stream's order.
    pub(crate) is_blocking: bool,
    pub(crate) queue: VecDeque<Entry>,
    /// The capture that it is part of, and the nodes that the next one comes after.
    pub(crate) capture: Option<(u64, Vec<usize>)>,
    /// Its handle is gone; it ends when it has run what it has.
    pub(crate) is_destroyed: bool,
    /// Its green context is gone.
    pub(crate) is_detached: bool,
}

/// Memory of the host that a device may use: `bytes` bytes, for the contexts that share this one's
/// memory, or for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) bytes: usize,
    pub(crate) owner: u64,
    pub(crate) is_portable: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Event {
    /// The number of its context, whose streams may record it.
    pub(crate) context: u64,
    /// Number of its records, and those of them that haven't run: streams run in any order.
    pub(crate) recorded: u64,
    pub(crate) open: Vec<u64>,
    /// The capture that recorded it last, and where.
    pub(crate) captured: Option<(u64, Vec<usize>)>,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) contexts: HashMap<usize, Context>,
    pub(crate) last_context: u64,
    /// Streams by their numbers, which are never given twice; and numbers by handles, which are.
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) handles: HashMap<usize, u64>,
    /// Handles of what has ended: the last one comes back first.
    pub(crate) free: Vec<usize>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) captures: HashMap<u64, Capture>,
    /// Graphs of the program, those inside of nodes, and those that were instantiated.
    pub(crate) graphs: Graphs,
    pub(crate) execs: HashSet<usize>,
    /// Handles of conditional nodes, and what they say.
    pub(crate) conditions: HashMap<u64, bool>,
    /// Graphs that are bodies of conditional nodes.
    pub(crate) bodies: HashSet<usize>,
    /// Child graphs that were moved into their nodes: their handles stay.
    pub(crate) moved: HashSet<usize>,
    /// Allocations and their bytes.
    pub(crate) memory: HashMap<usize, Box<[u64]>>,
    /// Files of exported ranges of memory, as long as they are open: the allocations, and a number
    /// once those have ended; and what is kept by such numbers.
    pub(crate) exported: Vec<(Export, usize, Option<u64>)>,
    pub(crate) kept: HashMap<u64, u64>,
    /// Bytes that allocations were asked for, as theirs are whole words; and the context, with
    /// which they end.
    pub(crate) asked: HashMap<usize, (usize, u64)>,
    /// Memory of other processes: those, and bytes.
    pub(crate) foreign: HashMap<usize, (usize, u64)>,
    /// Memory of other processes that is open by handles: those that it has there, and how often.
    pub(crate) opened: HashMap<usize, ([usize; 2], u64)>,
    /// The device's bytes in `memory`, and in arrays; and in pools, with the pool.
    pub(crate) taken: HashMap<usize, u64>,
    /// Blocks of small allocations, of which `taken` has the parts.
    pub(crate) shared_blocks: SharedBlocks,
    /// Addresses of small arrays, which have parts of blocks.
    pub(crate) small_arrays: HashMap<usize, usize>,
    /// The bytes that libraries have in contexts; handle 0: in the next one.
    pub(crate) library_copies: HashMap<(usize, usize), u64>,
    pub(crate) pooled: HashMap<usize, (usize, u64)>,
    pub(crate) pools: HashMap<usize, Pool>,
    /// Memory by handles, and where it is mapped: lengths, and handles.
    pub(crate) pieces: HashMap<usize, Piece>,
    pub(crate) mapped: BTreeMap<usize, (usize, usize)>,
    /// Reserved addresses with their lengths, and the files of pieces that were mapped there.
    pub(crate) reserved: BTreeMap<usize, usize>,
    pub(crate) files: HashMap<usize, std::fs::File>,
    /// Exported pieces.
    pub(crate) exported_pieces: Vec<(Export, usize)>,
    /// Pieces in arrays and multicast objects: those, regions, and pieces.
    pub(crate) inside: Vec<(usize, [u64; 4], usize)>,
    pub(crate) graph_memory: GraphMemory,
    pub(crate) registered: BTreeMap<usize, Registered>,
    pub(crate) names: HashMap<usize, String>,
    /// Functions of libraries' kernels, which graphs name them by.
    pub(crate) functions: HashMap<usize, usize>,
    /// Modules by their functions, as long as they are loaded, and functions of those that aren't.
    pub(crate) owners: HashMap<usize, usize>,
    pub(crate) dead: HashSet<usize>,
    /// Texts of modules, their kernels by functions, and launches by numbers.
    pub(crate) texts: HashMap<usize, Arc<str>>,
    pub(crate) entries: HashMap<usize, Arc<PtxKernel>>,
    pub(crate) launched: HashMap<u64, Arc<Launched>>,
    /// Launches of which some blocks have run, by their streams and numbers, and the next block.
    pub(crate) begun: HashMap<(u64, u64), u64>,
    /// Nanoseconds of the blocks of kernels in PTX so far, and at the records of events. A busy
    /// host does not change them.
    pub(crate) block_nanos: u64,
    pub(crate) times: HashMap<usize, u64>,
    /// Arrays of modules: names, addresses, bytes.
    pub(crate) globals: HashMap<usize, Vec<(String, usize, usize)>>,
    last: u64,
    pub(crate) seed: u64,
    /// Look-ups that were answered, and that weren't.
    pub(crate) found: u64,
    pub(crate) not_found: u64,
    /// Operations, and parts of kernels, that the device has run; and the times that it found
    /// nothing that may run.
    pub(crate) ran: u64,
    pub(crate) rests: u64,
    /// Waits and writes that streams were given.
    pub(crate) waits: u64,
    /// Handle that the next executable graph gets.
    pub(crate) ended_exec: Option<usize>,
    /// Graph that says that it has more nodes than any memory.
    pub(crate) endless: usize,
    /// Calls that set nodes of executable graphs, and the numbers of those that are refused.
    pub(crate) sets: u64,
    pub(crate) refused_sets: std::ops::Range<u64>,
    /// Calls that named what has ended: a real driver may do anything then.
    pub(crate) misuses: u64,
    /// A stream has used memory that isn't there: nothing works any more.
    pub(crate) is_faulty: bool,
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);
/// Something ran, or there is something to run.
pub(crate) static CHANGED: Condvar = Condvar::new();

pub(crate) fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Event {
    /// Returns whether the work before this record has run.
    pub(crate) fn is_reached(&self, record: u64) -> bool {
        !self.open.contains(&record)
    }
}

impl World {
    /// A number that nothing else has.
    pub(crate) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Ends a module's functions.
    pub(crate) fn end_functions(&mut self, module: usize) {
        let (ended, owners) =
            std::mem::take(&mut self.owners).into_iter().partition(|(_, of)| *of == module);
        self.owners = owners;
        let ended: HashMap<_, _> = ended;
        self.dead.extend(ended.into_keys());
    }

    /// Counts a call that names a function, if that has ended.
    pub(crate) fn check_function(&mut self, function: usize) {
        self.misuses += u64::from(self.dead.contains(&function));
    }

    /// A handle that looks like a pointer.
    pub(crate) fn handle(&mut self) -> usize {
        0x10_0000 + 64 * self.number() as usize
    }

    /// A handle, of something that has ended if there is one.
    pub(crate) fn reused(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| self.handle())
    }

    /// Returns whether a context, or any, may use the memory here.
    pub(crate) fn is_visible(&self, at: usize, owner: Option<u64>) -> bool {
        let before = self.registered.range(..=at).next_back();
        let is_registered = before.is_some_and(|(&from, memory)| {
            let is_shown = owner.is_none_or(|owner| memory.is_portable || memory.owner == owner);
            at < from + memory.bytes && is_shown
        });
        is_registered || self.range(at).is_some()
    }

    /// Returns the allocation, or the mapping, that has an address: its beginning and its bytes.
    pub(crate) fn range(&self, at: usize) -> Option<(usize, usize)> {
        let before = self.mapped.range(..=at).next_back();
        let mapped = before.map(|(&from, &(bytes, _))| (from, bytes));
        let memory = self.memory.iter().map(|(&from, words)| {
            let asked = self.asked.get(&from).map(|(bytes, _)| *bytes);
            (from, asked.unwrap_or(8 * words.len()))
        });
        let pooled = self.pooled.iter().map(|(&from, &(_, bytes))| (from, bytes as usize));
        mapped
            .into_iter()
            .chain(memory)
            .chain(pooled)
            .find(|&(from, bytes)| (from..from + bytes).contains(&at))
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

    /// Notes that what was before this record of an event has run, or never will.
    pub(crate) fn recorded(&mut self, event: usize, record: u64) {
        let event = self.events.get_mut(&event);
        event.into_iter().for_each(|event| event.open.retain(|open| *open != record));
    }

    /// Notes the time of an event.
    pub(crate) fn note_time(&mut self, event: usize) {
        self.times.insert(event, self.block_nanos);
    }

    /// A new stream's handle. Its number's last four bits are 0.
    pub(crate) fn add_stream(&mut self, stream: Stream) -> usize {
        let (handle, name) = (self.reused(), self.number() << 4);
        self.streams.insert(name, stream);
        self.handles.insert(handle, name);
        handle
    }

    /// Forgets a stream that was destroyed, once it has run what it had.
    pub(crate) fn drop_if_over(&mut self, stream: u64) {
        let is_over = |stream: &Stream| stream.is_destroyed && stream.queue.is_empty();
        if self.streams.get(&stream).is_some_and(is_over) {
            self.streams.remove(&stream);
        }
    }

    /// Returns whether nothing of this stream is left to run.
    pub(crate) fn is_idle(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.queue.is_empty())
    }

    /// Returns whether nothing of this context, or of any, is left to run.
    pub(crate) fn is_all_idle(&self, context: Option<u64>) -> bool {
        let of = |stream: &&Stream| context.is_none_or(|context| stream.context == context);
        self.streams.values().filter(of).all(|stream| stream.queue.is_empty())
    }
}
