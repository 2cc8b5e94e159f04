//! Memory by handles and mappings: it is there until neither a handle nor a mapping is left.

use super::device::Limited;
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// A piece of memory.
#[derive(Debug)]
struct Piece {
    device: &'static Limited,
    bytes: u64,
    mappings: u64,
    /// How often its handles have to be released.
    references: u64,
}

/// All that this process has made and that is limited. Pieces of others aren't known, and aren't charged here.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    last: u64,
    pieces: HashMap<u64, Piece>,
    /// Which piece a handle means, and how often it has to be released.
    handles: HashMap<u64, (u64, u64)>,
    /// By their addresses: lengths, and pieces.
    mappings: BTreeMap<u64, (u64, u64)>,
}

static PIECES: LazyLock<Mutex<Pieces>> = LazyLock::new(Mutex::default);

pub(crate) fn pieces() -> MutexGuard<'static, Pieces> {
    PIECES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Pieces {
    /// A piece was made.
    pub(crate) fn create(&mut self, handle: u64, device: &'static Limited, bytes: u64) {
        self.last += 1;
        self.pieces.insert(self.last, Piece { device, bytes, mappings: 0, references: 1 });
        self.handles.insert(handle, (self.last, 1));
    }

    /// A handle was released once.
    pub(crate) fn release(&mut self, handle: u64) {
        let Some((piece, count)) = self.handles.get_mut(&handle) else { return };
        let piece = *piece;
        *count -= 1;
        if *count == 0 {
            self.handles.remove(&handle);
        }
        self.change(piece, |piece| piece.references = piece.references.saturating_sub(1));
    }

    /// A handle was mapped.
    pub(crate) fn map(&mut self, at: u64, bytes: u64, handle: u64) {
        let Some((piece, _)) = self.handles.get(&handle).copied() else { return };
        self.mappings.insert(at, (bytes, piece));
        self.change(piece, |piece| piece.mappings += 1);
    }

    /// Whatever was mapped here is so no more.
    pub(crate) fn unmap(&mut self, at: u64, bytes: u64) {
        let its = self.mappings.range(at..at.saturating_add(bytes));
        let gone: Vec<_> = its.map(|(at, (_, piece))| (*at, *piece)).collect();
        for (at, piece) in gone {
            self.mappings.remove(&at);
            self.change(piece, |piece| piece.mappings = piece.mappings.saturating_sub(1));
        }
    }

    /// A handle was asked for by an address.
    pub(crate) fn retain(&mut self, handle: u64, at: u64) {
        let before = self.mappings.range(..=at).next_back();
        let Some((_, (_, piece))) = before.filter(|(from, (bytes, _))| at - **from < *bytes) else {
            return;
        };
        let piece = *piece;
        self.handles.entry(handle).or_insert((piece, 0)).1 += 1;
        self.change(piece, |piece| piece.references += 1);
    }

    fn change(&mut self, at: u64, change: impl FnOnce(&mut Piece)) {
        let Some(piece) = self.pieces.get_mut(&at) else { return };
        change(piece);
        if piece.references == 0 && piece.mappings == 0 {
            piece.device.give_back(piece.bytes);
            self.pieces.remove(&at);
        }
    }
}
