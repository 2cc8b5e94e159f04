//! Preemption of remote lanes.
//!
//! In a session with a device of its own, each step is a message that follows the commands which it
//! stops. In a shared session commands that were not sent stay at the client, and what was sent is
//! preempted by the server's dispatcher, for the sake of any session's real-time work.

use super::connection::Connection;
use super::objects::Handle;
use crate::error::NAME;
use crate::messages::{EVICT, REACTIVATE, RESET, Stop};
use reef_core::{Error, PreemptLevel, Result};
use reef_wire::little_endian::U64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Stops what the server's device has of this session, or nothing in a shared session: its level
/// is [`HostQueue`](reef_core::PreemptLevel::HostQueue) then.
#[derive(Debug)]
pub struct Preemptor {
    pub(super) level: PreemptLevel,
    pub(super) needs_room: bool,
    pub(super) calls_driver: bool,
    /// The server's, if the device is the session's own.
    pub(super) handle: Option<Handle>,
}

impl Preemptor {
    fn post(&self, step: u64) -> Result<()> {
        let Some(Handle { connection, id }) = &self.handle else { return Ok(()) };
        let stop = Stop { preemptor: U64::new(id.bits()), step: U64::new(step) };
        connection.post_hot_on(0, &stop)
    }

    fn check(&self, asked: PreemptLevel) -> Result<()> {
        if asked <= self.level {
            return Ok(());
        }
        Err(Error::Level { backend: NAME, what: "preemptor", asked, have: self.level })
    }
}

impl reef_core::Preemptor for Preemptor {
    fn level(&self) -> PreemptLevel {
        self.level
    }

    fn needs_room(&self) -> bool {
        self.needs_room
    }

    fn calls_driver(&self) -> bool {
        self.calls_driver
    }

    fn evict(&self) -> Result<()> {
        self.check(PreemptLevel::DeviceQueue)?;
        self.post(EVICT)
    }

    fn reset(&self) -> Result<()> {
        self.check(PreemptLevel::All)?;
        self.post(RESET)
    }

    fn reactivate(&self) -> Result<()> {
        self.post(REACTIVATE)
    }
}

/// Record of the blocks of a launch that have run, at the server.
///
/// In a shared session the client never resumes a launch: all of its blocks remain, or the server
/// runs them all.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub(super) handle: Option<Arc<Handle>>,
    /// Blocks that are left, as last heard of.
    pub(super) left: Arc<AtomicU32>,
}

impl Checkpoint {
    pub(super) fn new(handle: Option<Handle>, blocks: u32) -> Self {
        Self { handle: handle.map(Arc::new), left: Arc::new(AtomicU32::new(blocks)) }
    }

    /// Its name at the server.
    ///
    /// # Errors
    ///
    /// `Unsupported` in a shared session.
    pub(super) fn id(&self) -> Result<u64> {
        match &self.handle {
            Some(handle) => Ok(handle.id.bits()),
            None => Err(Error::Unsupported { backend: NAME, what: "a part of a launch".into() }),
        }
    }

    pub(super) fn connection(&self) -> Option<&Connection> {
        self.handle.as_deref().map(|handle| &*handle.connection)
    }
}

impl reef_core::Checkpoint for Checkpoint {
    fn remaining(&self) -> u32 {
        self.left.load(Ordering::Acquire)
    }
}
