//! Messages that have made a session's objects, so that another server can make them again.
//!
//! An object lives as long as its name, or as another one needs it: a launch keeps its memory. So
//! does its origin, and the living origins in their order are the log of the session.

use super::tenants::accounts::Charge;
use crate::messages::{Operation, RemoteCommand, Shape};
use reef_core::{Backend, Launch, Task};
use reef_op::Operators;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Memory of a session.
#[derive(Debug)]
pub(super) struct Memory<D: Operators> {
    pub(super) buffer: D::Buffer,
    /// Its address as the client sees it, and its bytes. Constants that the device has packed have
    /// none for the client.
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// Bytes on the device.
    pub(super) len: u64,
    pub(super) is_host: bool,
    /// These bytes in the session's account: launches and graphs keep the memory when its name is
    /// released.
    _charge: Charge,
    /// Commands have written it.
    is_worked: AtomicBool,
    /// Number of the client's writes.
    writes: AtomicU64,
}

impl<D: Operators> Memory<D> {
    pub(super) fn new(
        buffer: D::Buffer,
        [address, bytes, len]: [u64; 3],
        is_host: bool,
        charge: Charge,
    ) -> Self {
        let (is_worked, writes) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { buffer, address, bytes, len, is_host, _charge: charge, is_worked, writes }
    }

    /// Notes a write of the client.
    pub(super) fn note_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that changes with each write. `None`: commands write it, at any time.
    pub(super) fn version(&self) -> Option<u64> {
        let is_worked = self.is_worked.load(Ordering::Relaxed);
        (!is_worked).then(|| self.writes.load(Ordering::Relaxed))
    }
}

/// Object with what has made it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are launches")]
pub(super) enum Object<D: Operators> {
    Buffer(Memory<D>),
    /// Prepared launches of an operation.
    Launches {
        list: Vec<Launch<D>>,
        operation: Operation,
        shapes: Vec<Shape>,
    },
    /// A kernel with any arguments, or `append`, whose arguments are checked.
    Kernel {
        kernel: D::Kernel,
        name: String,
        is_checked: bool,
    },
    Graph {
        task: Task<D>,
        commands: Vec<RemoteCommand>,
    },
    Preemptor {
        preemptor: Arc<D::Preemptor>,
        level: u8,
        facts: [bool; 2],
        step: AtomicU64,
    },
    Lane {
        is_real_time: bool,
        preemptor: Option<u64>,
    },
}

/// Object of a session, with what it needs.
#[derive(Debug)]
pub(super) struct Origin<D: Operators> {
    /// Place in the order of what the client has made and released.
    pub(super) order: u64,
    /// Place of its release; 0: it has its name.
    freed: AtomicU64,
    /// Its name. Lanes have none.
    pub(super) id: u64,
    pub(super) object: Object<D>,
    pub(super) uses: Vec<Arc<Origin<D>>>,
    /// Objects that are written when it runs.
    writes: Vec<Arc<Origin<D>>>,
    has_run: AtomicBool,
    /// Bytes of the server's machine in the session's account. `None`: lanes count by threads.
    _held: Option<Charge>,
}

impl<D: Operators> Origin<D> {
    pub(super) fn new(
        order: u64,
        id: u64,
        object: Object<D>,
        needs: Needs<D>,
        held: Option<Charge>,
    ) -> Arc<Self> {
        let (freed, has_run) = (AtomicU64::new(0), AtomicBool::new(false));
        let Needs { uses, writes } = needs;
        Arc::new(Self { order, freed, id, object, uses, writes, has_run, _held: held })
    }

    pub(super) fn free(&self, order: u64) {
        self.freed.store(order, Ordering::Relaxed);
    }

    /// Returns the place of its release.
    pub(super) fn freed(&self) -> Option<u64> {
        Some(self.freed.load(Ordering::Relaxed)).filter(|order| *order > 0)
    }

    /// Notes that it runs: commands write what it writes, and nothing tells when.
    pub(super) fn note_run(&self) {
        if let Object::Buffer(memory) = &self.object {
            memory.is_worked.store(true, Ordering::Relaxed);
        }
        if !self.has_run.load(Ordering::Relaxed) {
            self.has_run.store(true, Ordering::Relaxed);
            self.writes.iter().for_each(|origin| origin.note_run());
        }
    }

    pub(super) fn memory(&self) -> Option<&Memory<D>> {
        match &self.object {
            Object::Buffer(memory) => Some(memory),
            _ => None,
        }
    }
}

/// Objects that an object needs, and those that it writes when it runs.
#[derive(Debug)]
pub(super) struct Needs<D: Operators> {
    pub(super) uses: Vec<Arc<Origin<D>>>,
    pub(super) writes: Vec<Arc<Origin<D>>>,
}

impl<D: Operators> Default for Needs<D> {
    fn default() -> Self {
        Self { uses: Vec::new(), writes: Vec::new() }
    }
}

/// A command as the client names it, with the objects that its names meant then.
#[derive(Debug)]
pub(super) struct Source<D: Operators> {
    pub(super) command: RemoteCommand,
    /// Launches, graph or kernel first, then memory.
    pub(super) origins: Vec<Arc<Origin<D>>>,
}

impl<D: Operators> Clone for Source<D> {
    fn clone(&self) -> Self {
        Self { command: self.command.clone(), origins: self.origins.clone() }
    }
}

/// A record of the blocks that are left of a command.
#[derive(Debug)]
pub(super) struct Record<D: Operators> {
    pub(super) checkpoint: <D as Backend>::Checkpoint,
    pub(super) source: Source<D>,
    /// Bytes of the server's machine in the session's account. `None`: its command ran here, or at
    /// another server.
    pub(super) _held: Option<Charge>,
}
