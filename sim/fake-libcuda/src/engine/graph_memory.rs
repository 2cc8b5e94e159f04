//! Memory of graphs, in pages: it is taken when a graph is launched or uploaded, and kept until a
//! call trims it.
//!
//! An executable graph keeps its pages between launches. Others may have the same ones: those that
//! are launched in the same stream, because they run in turn, and any while it doesn't run and has
//! no allocation that lives on. A launch whose pages are in use by another graph gets others.
//!
//! `REEF_FAKE_GRAPH_UNIT` is the number of bytes in which they are taken, a multiple of a page.

use super::device_memory::{give_back, take};
use super::settings::setting;
use std::collections::{BTreeSet, HashMap, HashSet};

pub(super) const PAGE: u64 = 2 << 20;

/// Number of pages that are taken for a graph.
fn pages_of(bytes: u64) -> u64 {
    bytes.next_multiple_of(setting("REEF_FAKE_GRAPH_UNIT", PAGE)) / PAGE
}

/// All memory that graphs have.
#[derive(Debug, Default)]
pub(crate) struct GraphMemory {
    /// Pages by their numbers.
    pages: BTreeSet<u64>,
    last: u64,
    execs: HashMap<usize, Backing>,
    /// Addresses of nodes' memory, and those among them that are memory of the host.
    pub(super) addresses: HashSet<usize>,
    pub(super) of_host: HashSet<usize>,
}

/// Memory of an executable graph.
#[derive(Debug, Default)]
struct Backing {
    pages: BTreeSet<u64>,
    /// Stream of its last launch, and the number of launches that have not ended.
    stream: u64,
    running: u64,
    /// Allocations that no node of the graph ends.
    live: HashSet<usize>,
    is_gone: bool,
}

impl Backing {
    /// Returns whether a launch in a stream may not have its pages.
    fn is_in_use(&self, stream: u64) -> bool {
        !self.live.is_empty() || (self.running > 0 && self.stream != stream)
    }
}

impl GraphMemory {
    /// Gives an executable graph its pages for a launch in a stream. False: there are none left.
    pub(super) fn back(
        &mut self,
        exec: usize,
        bytes: u64,
        live: HashSet<usize>,
        stream: u64,
    ) -> bool {
        if bytes == 0 {
            return true;
        }
        let others =
            self.execs.iter().filter(|(other, of)| **other != exec && of.is_in_use(stream));
        let used: HashSet<u64> = others.flat_map(|(_, of)| of.pages.iter().copied()).collect();
        let own = self.execs.entry(exec).or_default();
        let has_enough = own.pages.len() as u64 >= pages_of(bytes); // it may have been updated
        if !has_enough || own.pages.iter().any(|page| used.contains(page)) {
            let Some(pages) = Self::find(&mut self.pages, &mut self.last, bytes, &used) else {
                return false;
            };
            own.pages = pages;
        }
        (own.live, own.stream) = (live, stream);
        true
    }

    /// Finds pages that are not in use, or takes more.
    fn find(
        all: &mut BTreeSet<u64>,
        last: &mut u64,
        bytes: u64,
        used: &HashSet<u64>,
    ) -> Option<BTreeSet<u64>> {
        let count = pages_of(bytes) as usize;
        let mut pages: BTreeSet<_> =
            all.iter().copied().filter(|page| !used.contains(page)).take(count).collect();
        let more = (count - pages.len()) as u64;
        if more > 0 && !take(more * PAGE) {
            return None;
        }
        pages.extend(*last + 1..=*last + more);
        *last += more;
        all.extend(&pages);
        Some(pages)
    }

    /// A launch begins, for which the graph has its memory.
    pub(crate) fn begin(&mut self, exec: usize) {
        self.execs.get_mut(&exec).into_iter().for_each(|of| of.running += 1);
    }

    /// A launch has ended.
    pub(crate) fn end(&mut self, exec: usize) {
        self.execs
            .get_mut(&exec)
            .into_iter()
            .for_each(|of| of.running = of.running.saturating_sub(1));
        self.forget_ended();
    }

    /// An executable graph is destroyed. Its pages stay for others.
    pub(super) fn destroy(&mut self, exec: usize) {
        self.execs.get_mut(&exec).into_iter().for_each(|of| of.is_gone = true);
        self.forget_ended();
    }

    /// Ends an allocation. False: it isn't one of graphs.
    pub(super) fn free(&mut self, at: usize) -> bool {
        for of in self.execs.values_mut() {
            of.live.remove(&at);
        }
        self.forget_ended();
        self.addresses.contains(&at)
    }

    fn forget_ended(&mut self) {
        self.execs.retain(|_, of| !of.is_gone || of.running > 0 || !of.live.is_empty());
    }

    /// Gives back the pages of no graph that runs or has live allocations.
    pub(super) fn trim(&mut self) {
        self.execs.values_mut().filter(|of| of.running == 0 && of.live.is_empty()).for_each(|of| {
            of.pages.clear();
        });
        let used: BTreeSet<u64> = self.execs.values().flat_map(|of| &of.pages).copied().collect();
        give_back((self.pages.len() - used.len()) as u64 * PAGE);
        self.pages = used;
    }

    /// Bytes that the driver has taken for graphs, and those of them that graphs have.
    pub(crate) fn reserved(&self) -> (u64, u64) {
        let used: HashSet<&u64> = self.execs.values().flat_map(|of| &of.pages).collect();
        (self.pages.len() as u64 * PAGE, used.len() as u64 * PAGE)
    }
}
