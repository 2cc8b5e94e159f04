//! Replicas: state that clients on one device share, such as the weights of a model.

use super::failure::Failure;
use super::ledger::LedgerEntry;
use super::node::Node;
use parking_lot::Mutex;
use reef_core::{Device, Error, Result};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

type Build<D, W, E> = dyn Fn(&D) -> Result<W, E> + Send + Sync;

/// A replica on each device on which a client uses one, and none elsewhere: made for the first,
/// gone with the last.
pub struct Replicas<D: Device, W, E = Error> {
    bytes: u64,
    build: Box<Build<D, W, E>>,
    /// By device. Held while a replica is made, so that it is made once.
    made: Box<[Mutex<Weak<Replica<W>>>]>,
}

/// A replica on one device, with its place in the ledger.
#[derive(Debug)]
pub struct Replica<W> {
    value: W,
    _entered: LedgerEntry,
}

impl<W> Deref for Replica<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.value
    }
}

impl<D: Device, W, E> fmt::Debug for Replicas<D, W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<D: Device, W, E: Failure> Replicas<D, W, E> {
    pub(super) fn new(
        devices: usize,
        bytes: u64,
        build: impl Fn(&D) -> Result<W, E> + Send + Sync + 'static,
    ) -> Self {
        let made = (0..devices).map(|_| Mutex::default()).collect();
        Self { bytes, build: Box::new(build), made }
    }

    /// The replica on this device of the cluster, which is made now if no client there has one.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if the device has no room for it; those of making it.
    pub fn on(&self, node: &Node<D>) -> Result<Arc<Replica<W>>, E> {
        let mut made = self.made[node.index()].lock();
        if let Some(replica) = made.upgrade() {
            return Ok(replica);
        }
        let _entered = node.take(self.bytes)?;
        let replica = Arc::new(Replica { value: (self.build)(node.device())?, _entered });
        *made = Arc::downgrade(&replica);
        Ok(replica)
    }
}
