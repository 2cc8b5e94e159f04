//! Sends a session to another server, or to a file, while it runs and then while it stands still.

use super::copy::Copy;
use super::digest::Digester;
use super::file;
use super::memory::{Copier, PIECE};
use super::state::Range;
use super::take::{Pause, ranges};
use crate::notices::Notices;
use crate::state::lock::lock;
use crate::state::queue::Queue;
use crate::state::shared::Shared;
use reef_remote::migration::{Report, Target};
use reef_remote_calls::Kind;
use reef_wire::{Error, Held, Key, Moved, Server};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time within which a session must come to stand still.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The session of this process.
#[derive(Debug, Clone)]
pub(crate) struct Migration {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) server: Server,
    pub(crate) name: [u8; 16],
    /// Program, as it names itself.
    pub(crate) program: String,
    /// Secret by which its client is known to the next server.
    pub(crate) key: Key,
    pub(crate) notices: Notices,
}

impl Migration {
    fn moved(&self, address: String) -> Moved {
        Moved { address, key: self.key.clone() }
    }

    /// Tells the client, and the server for clients that come later. Returns whether the client
    /// was told.
    fn redirect(&self, held: &Held, moved: &Moved) -> bool {
        let is_client_told = held.redirect(moved);
        self.notices.moved(self.name, moved.clone());
        is_client_told
    }

    /// Makes the kernel of digests in each context with memory, where that can be.
    fn digesters(&self, ranges: &[Range]) -> HashMap<u64, Digester> {
        let mut all = HashMap::new();
        for context in ranges.iter().map(|range| range.context).collect::<BTreeSet<u64>>() {
            let handle = lock(&self.shared.handles).get(Kind::Context, context);
            let made = handle.ok().and_then(|handle| Digester::new(&self.shared, handle));
            all.extend(made.map(|digester| (context, digester)));
        }
        all
    }

    /// Returns the pieces of memory that the other server has as they are, by the device's digests.
    fn unchanged(
        ranges: &[Range],
        copy: &Copy,
        digesters: &mut HashMap<u64, Digester>,
    ) -> HashSet<u64> {
        let mut all = HashSet::new();
        for range in ranges {
            let Some(digester) = digesters.get_mut(&range.context) else { continue };
            let pieces = range.bytes as usize / PIECE;
            let digests = digester.of(range.at, pieces).unwrap_or_default(); // all is read then
            let places = (range.at..).step_by(PIECE).zip(digests);
            all.extend(
                places.filter(|(at, digest)| copy.has(range, *at, *digest)).map(|(at, _)| at),
            );
        }
        all
    }

    /// Reads memory of the window, piece by piece, without the pieces of `but`. Memory that ends
    /// meanwhile is left out.
    fn read(
        &self,
        ranges: &[Range],
        but: &HashSet<u64>,
        mut each: impl FnMut(&Range, u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut copiers: HashMap<u64, Copier> = HashMap::new();
        for range in ranges {
            let handle = lock(&self.shared.handles).get(Kind::Context, range.context);
            let Ok(handle) = handle else { continue }; // it has just ended
            let failed = |code: u32| format!("memory at {:#x}: code {code}", range.at);
            let copier = match copiers.entry(range.context) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(Copier::new(&self.shared, handle).map_err(failed)?)
                }
            };
            let places = (range.at..range.at + range.bytes).step_by(PIECE);
            for at in places.filter(|at| !but.contains(at)) {
                let len = (range.at + range.bytes - at).min(PIECE as u64) as usize;
                // Nothing is unmapped while it is read.
                let window = lock(&self.shared.window);
                let slabs = window.as_ref().map(|window| window.slabs());
                let slab = slabs.and_then(|slabs| slabs.get(&range.at));
                if slab.is_none_or(|slab| slab.bytes != range.bytes) {
                    break;
                }
                let bytes = copier.read(at, len).map_err(failed)?;
                drop(window);
                each(range, at, bytes)?;
            }
        }
        Ok(())
    }

    /// Moves the session to another server. It runs there then, and its program is told after
    /// `done`: this process ends then.
    ///
    /// # Errors
    ///
    /// Why it runs on here. Or it has ended, as it is not known whether it runs there.
    pub(crate) fn migrate(
        &self,
        target: &Target,
        done: impl FnOnce(&Result<Report, String>),
    ) -> Result<Report, String> {
        let window = lock(&self.shared.window).as_ref().map(|window| window.base());
        let window = window.ok_or("it has memory without a window")?;
        let mut copy = Copy::begin(target, window, &self.program)?;
        // Bytes that change meanwhile are sent again.
        let (now, none) = (ranges(&self.shared), HashSet::new());
        let early = self.read(&now, &none, |range, at, bytes| copy.piece(range, at, bytes));
        // Memory that has just ended can't be read, and needn't be.
        early.or_else(|why| copy.client.ended().map_or(Ok(()), |_| Err(why)))?;
        let mut digesters = self.digesters(&now);
        let begin = Instant::now();
        let pause = Pause::begin(&self.shared, &self.queue, PAUSE_TIMEOUT)?;
        copy.sent = 0;
        let mut state = pause.state()?;
        let same = Self::unchanged(&state.memory, &copy, &mut digesters);
        let mut read = 0;
        self.read(&state.memory, &same, |range, at, bytes| {
            read += bytes.len() as u64;
            copy.piece(range, at, bytes)
        })?;
        let held = self.server.hold(self.name).ok_or("it has ended")?;
        (state.name, state.program) = (self.name, self.program.clone());
        state.key = Some(self.key.clone());
        state.end = held.state().map_err(|e| e.to_string())?;
        state.pending = pause.pending();
        copy.prepare(&state)?;
        let memory = state.memory.iter().map(|range| range.bytes).sum();
        // From here on it never runs here again.
        match copy.commit() {
            Ok(()) => {
                let took = begin.elapsed();
                let moved = self.moved(target.address.to_string());
                let is_client_told = self.redirect(&held, &moved);
                let delta = copy.sent;
                let report = Report { pause: took, memory, read, delta, is_client_told };
                done(&Ok(report));
                held.end(Error::ended_by(&moved));
                std::mem::forget(pause);
                Ok(report)
            }
            Err(why) => {
                let text =
                    format!("it was being moved to {}, which does not answer", target.address);
                let failed = Err(format!("{why}: the session has ended"));
                done(&failed);
                held.end(Error::Ended(text));
                std::mem::forget(pause);
                failed
            }
        }
    }

    /// Writes the session to a folder. It runs on, unless it is to end.
    ///
    /// # Errors
    ///
    /// Reason why it can't be written. The session runs on.
    pub(crate) fn snapshot(
        &self,
        folder: &Path,
        ends: bool,
        done: impl FnOnce(&Result<Report, String>),
    ) -> Result<Report, String> {
        let begin = Instant::now();
        let pause = Pause::begin(&self.shared, &self.queue, PAUSE_TIMEOUT)?;
        let mut state = pause.state()?;
        let held = self.server.hold(self.name).ok_or("it has ended")?;
        (state.name, state.program) = (self.name, self.program.clone());
        state.key = Some(self.key.clone());
        state.end = held.state().map_err(|e| e.to_string())?;
        state.pending = pause.pending();
        let none = HashSet::new();
        let written = file::write(folder, &state, |each| self.read(&state.memory, &none, each))?;
        let memory = state.memory.iter().map(|range| range.bytes).sum();
        let took = begin.elapsed();
        let moved = self.moved(String::new()); // its program waits until a server has it
        let is_client_told = !ends || self.redirect(&held, &moved);
        let report = Report { pause: took, memory, read: memory, delta: written, is_client_told };
        if ends {
            done(&Ok(report));
            held.end(Error::ended_by(&moved));
            std::mem::forget(pause);
        }
        Ok(report)
    }
}
