//! Sends a session to another server, or to a file, while it runs and then while it stands still.

use super::copy::Copy;
use super::digest::Digester;
use super::file;
use super::memory::{Copier, PIECE};
use super::state::{Range, State};
use super::take::{Pause, ranges};
use crate::notices::Notices;
use crate::state::lock::lock;
use crate::state::queue::Queue;
use crate::state::shared::Shared;
use reef_remote::migration::{self, MigrationSource, NotBegun, Outgoing, Prepared, Report, Target};
use reef_remote_calls::Kind;
use reef_wire::{Held, Key, Moved, Server};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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
    fn unchanged(ranges: &[Range], copy: &mut Copy) -> HashSet<u64> {
        let mut all = HashSet::new();
        for range in ranges {
            let Some(digester) = copy.digesters.get_mut(&range.context) else { continue };
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

    /// Takes the connection away from a session that stands still, and completes its state.
    fn hold(&self, pause: &Pause, state: &mut State) -> Result<Held, String> {
        let held = self.server.hold(self.name).ok_or("it has ended")?;
        (state.name, state.program) = (self.name, self.program.clone());
        state.key = Some(self.key.clone());
        state.end = held.state().map_err(|e| e.to_string())?;
        state.pending = pause.pending();
        Ok(held)
    }

    /// Moves the session to another server. It runs there then, and its program is told. `done`
    /// takes the outcome before this process ends.
    ///
    /// # Errors
    ///
    /// Why it runs on here. Or it has ended, as it is not known whether it runs there.
    pub(crate) fn migrate(
        &self,
        target: &Target,
        done: impl FnOnce(&Result<Report, String>),
    ) -> Result<Report, String> {
        migration::migrate(self, target, done)
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
        migration::snapshot(self, ends, |pause| self.write(pause, folder), done)
    }

    /// Writes a session that stands still. Returns the file's bytes, too.
    fn write(&self, pause: &Pause, folder: &Path) -> Result<(Prepared, u64), String> {
        let mut state = pause.state()?;
        let held = self.hold(pause, &mut state)?;
        let none = HashSet::new();
        let written = file::write(folder, &state, |each| self.read(&state.memory, &none, each))?;
        let memory = state.memory.iter().map(|range| range.bytes).sum();
        Ok((Prepared { held, memory, read: memory }, written))
    }
}

impl MigrationSource for Migration {
    type Copy = Copy;
    type Pause = Pause;

    fn key(&self) -> &Key {
        &self.key
    }

    fn begin(&self, to: &Target) -> Result<Copy, String> {
        let window = lock(&self.shared.window).as_ref().map(|window| window.base());
        let window = window.ok_or("it has memory without an address window")?;
        Copy::begin(to, window, &self.program)
    }

    fn outgoing(copy: &mut Copy) -> &mut Outgoing {
        &mut copy.outgoing
    }

    /// Sends the memory. Changes of it are sent again.
    fn send_early(&self, copy: &mut Copy) -> Result<(), String> {
        let (now, none) = (ranges(&self.shared), HashSet::new());
        let sent = self.read(&now, &none, |range, at, bytes| copy.piece(range, at, bytes));
        // Memory that has just ended can't be read, and needn't be.
        sent.or_else(|why| if copy.outgoing.has_ended() { Err(why) } else { Ok(()) })?;
        copy.digesters = self.digesters(&now);
        Ok(())
    }

    fn pause(&self, timeout: Duration) -> Result<Pause, String> {
        Pause::begin(&self.shared, &self.queue, timeout)
    }

    fn prepare(&self, pause: &mut Pause, copy: &mut Copy) -> Result<Prepared, String> {
        let mut state = pause.state()?;
        let same = Self::unchanged(&state.memory, copy);
        let mut read = 0;
        self.read(&state.memory, &same, |range, at, bytes| {
            read += bytes.len() as u64;
            copy.piece(range, at, bytes)
        })?;
        // Its messages come until here, and go along.
        let held = self.hold(pause, &mut state)?;
        copy.prepare(&state)?;
        let memory = state.memory.iter().map(|range| range.bytes).sum();
        Ok(Prepared { held, memory, read })
    }

    fn commit(&self, _: &Pause, copy: &Copy) -> Result<(), NotBegun> {
        copy.commit()
    }

    fn leave(pause: Pause) {
        std::mem::forget(pause); // no call is made again
    }

    /// Tells the client, and the server for clients that come later.
    fn redirect(&self, held: &Held, moved: &Moved) -> bool {
        let is_client_told = held.redirect(moved);
        self.notices.moved(self.name, moved.clone());
        is_client_told
    }
}
