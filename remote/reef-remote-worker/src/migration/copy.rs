//! A session at another server, which is made of a state.

use super::digest::{Digest, Digester};
use super::state::{Range, State};
use reef_remote::migration::{NotBegun, Outgoing, Target};
use reef_remote_calls::{
    Facts, MigrateBytes, MigrateClear, MigrateCommit, MigrateMap, MigratePrepare, MigrateState,
    Request, SCHEMA,
};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, codec, hot_bytes};
use std::collections::HashMap;

/// Session at another server that begins with a state.
pub(crate) struct Copy {
    pub(super) outgoing: Outgoing,
    /// Memory that is mapped there.
    mapped: HashMap<u64, (u64, i32)>,
    /// Digests of the pieces that are there.
    pieces: HashMap<u64, Digest>,
    /// Kernels that make digests of the memory here, by its contexts.
    pub(super) digesters: HashMap<u64, Digester>,
}

impl Copy {
    /// Begins one for a program, with the same window.
    ///
    /// # Errors
    ///
    /// There is no such server, or its window is another one.
    pub(crate) fn begin(target: &Target, window: u64, program: &str) -> Result<Self, String> {
        let request = Request { windows: vec![window], is_migrated: true, class: None };
        let request = codec::write(&request).map_err(|e| e.to_string())?;
        let options = target.options(SCHEMA, program, request);
        let outgoing = Outgoing::open(options).map_err(|e| e.to_string())?;
        let facts: Facts = codec::read(outgoing.facts()).map_err(|e| e.to_string())?;
        if facts.window != Some(window) {
            let got = facts.window;
            return Err(format!("window at the other server: must be {window:#x}, got {got:x?}"));
        }
        let (mapped, pieces, digesters) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Self { outgoing, mapped, pieces, digesters })
    }

    fn post(&mut self, op: u16, parts: &[&[u8]]) -> Result<(), String> {
        self.outgoing.post(op, parts).map_err(|e| e.to_string())
    }

    /// Returns whether a piece of memory with this digest is there.
    pub(crate) fn has(&self, range: &Range, at: u64, digest: Digest) -> bool {
        self.mapped.get(&range.at) == Some(&(range.bytes, range.device))
            && self.pieces.get(&at) == Some(&digest)
    }

    /// Sends a piece of memory, if it differs from what is there.
    ///
    /// # Errors
    ///
    /// The other server's.
    pub(crate) fn piece(&mut self, range: &Range, at: u64, bytes: &[u8]) -> Result<(), String> {
        let has = (range.bytes, range.device);
        if self.mapped.get(&range.at) != Some(&has) {
            let pieces = range.at..range.at + range.bytes;
            self.pieces.retain(|at, _| !pieces.contains(at));
            self.mapped.insert(range.at, has);
            let map = MigrateMap {
                at: U64::new(range.at),
                bytes: U64::new(range.bytes),
                device: U32::new(range.device as u32),
                reserved: U32::new(0),
            };
            self.post(MigrateMap::OP, &[hot_bytes(&map)])?;
        }
        let digest = Digest::of(bytes);
        if self.pieces.insert(at, digest) == Some(digest) {
            return Ok(());
        }
        if bytes.iter().all(|byte| *byte == 0) {
            let clear = MigrateClear { at: U64::new(at), bytes: U64::new(bytes.len() as u64) };
            return self.post(MigrateClear::OP, &[hot_bytes(&clear)]);
        }
        self.post(MigrateBytes::OP, &[hot_bytes(&MigrateBytes { at: U64::new(at) }), bytes])
    }

    /// Has the other server make the session of its state. It doesn't run there yet.
    ///
    /// # Errors
    ///
    /// The other server's.
    pub(crate) fn prepare(&mut self, state: &State) -> Result<(), String> {
        let bytes = codec::write(state).map_err(|e| e.to_string())?;
        let head = MigrateState { reserved: U64::new(0) };
        let sent = self.outgoing.post_state(MigrateState::OP, hot_bytes(&head), &bytes);
        sent.map_err(|e| e.to_string())?;
        let head = MigratePrepare { reserved: U64::new(0) };
        self.outgoing.call(MigratePrepare::OP, hot_bytes(&head)).map_err(|e| e.to_string())
    }

    /// Has the session run there.
    ///
    /// # Errors
    ///
    /// The other server refuses, or it is not known whether it runs there.
    pub(crate) fn commit(&self) -> Result<(), NotBegun> {
        let head = MigrateCommit { reserved: U64::new(0) };
        let called = self.outgoing.call(MigrateCommit::OP, hot_bytes(&head));
        called.map_err(|error| NotBegun::new(&error, error.to_string()))
    }
}
