//! A client on one device of a cluster, and its moves.

use super::assignment::{Assignment, LostAssignment, PlacedClient, Spec};
use super::failure::Failure;
use super::node::Node;
use super::nodes::Nodes;
use reef_core::{BeClient, Device, Error, Result, RtClient};
use std::fmt;
use std::sync::Arc;

/// A real-time client of a cluster.
pub type RtPlaced<D, M, E = Error> = Placed<D, RtClient<D>, M, E>;
/// A best-effort client of a cluster.
pub type BePlaced<D, M, E = Error> = Placed<D, BeClient<D>, M, E>;

/// Number of devices lost under one request from which the request counts as the cause.
const MAX_LOSSES: u32 = 2;

/// A client `C` with the replica `M` of what it runs, on one device of a cluster. If that is lost,
/// both are made anew on another one.
pub struct Placed<D: Device, C, M, E = Error> {
    nodes: Nodes<D>,
    spec: Spec<D, M, E>,
    assignment: Assignment<D, C, M>,
    left: Vec<LostAssignment<C, M>>,
    moves: u32,
    /// Devices that were lost while a request of this client was there, since one succeeded.
    losses: u32,
}

impl<D: Device, C, M, E> fmt::Debug for Placed<D, C, M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, demand) = (&self.assignment.node, &self.spec.demand);
        f.debug_struct("Placed").field("node", node).field("demand", demand).finish_non_exhaustive()
    }
}

impl<D: Device, C: PlacedClient<D>, M, E: Failure> Placed<D, C, M, E> {
    pub(super) fn new(nodes: Nodes<D>, spec: Spec<D, M, E>) -> Result<Self, E> {
        let assignment = nodes.place(&spec)?;
        Ok(Self { nodes, spec, assignment, left: Vec::new(), moves: 0, losses: 0 })
    }

    /// Returns the node that it is on.
    pub fn node(&self) -> &Arc<Node<D>> {
        &self.assignment.node
    }

    /// Returns the number of its moves.
    pub fn moves(&self) -> u32 {
        self.moves
    }

    /// The client and its replica, where they are now; if the device is known to be lost, on
    /// another one.
    ///
    /// For requests that are waited for later. When one ends with an error, ask
    /// [`recover`](Self::recover).
    ///
    /// # Errors
    ///
    /// `DeviceLost` if it may not move; `Unplaced` if no device takes it.
    pub fn parts(&mut self) -> Result<(&mut C, &mut M), E> {
        if let Some(error) = self.assignment.node.lost().cloned() {
            self.move_away(&error)?;
        }
        Ok((&mut self.assignment.client, &mut self.assignment.replica))
    }

    /// Runs `request` to its end. If the device is lost meanwhile, the client moves and `request`
    /// runs once more, on the new replica: what it did to the old one is gone, what it did
    /// elsewhere is its own to know.
    ///
    /// # Errors
    ///
    /// Returns the errors of `request` while the device is well; `DeviceLost` if the client may not
    /// move, or if the second device is lost as well: no third one is tried; `Unplaced` if no
    /// device takes it.
    pub fn run<T>(
        &mut self,
        mut request: impl FnMut(&mut C, &mut M) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let (client, replica) = self.parts()?;
            match request(client, replica) {
                Ok(value) => {
                    self.losses = 0;
                    return Ok(value);
                }
                Err(error) if !self.recover(&error)? => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Moves the client if its device is lost, now that a request ended with `error`. `false`: the
    /// device is well, and the error is the request's own.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`parts`](Self::parts); `DeviceLost` if requests of this client met
    /// the loss of several devices and none has succeeded in between.
    pub fn recover(&mut self, error: &E) -> Result<bool, E> {
        let Some(error) = error.device_error() else { return Ok(false) };
        if !self.assignment.node.is_lost_after(error) {
            return Ok(false);
        }
        self.losses += 1;
        self.move_away(error)?;
        Ok(true)
    }

    /// Takes a place on another device, then leaves the old one.
    #[cold]
    fn move_away(&mut self, error: &Error) -> Result<(), E> {
        if !self.spec.demand.moves {
            return Err(self.stays(error, "its client keeps state there and doesn't move").into());
        }
        if self.losses >= MAX_LOSSES {
            let why = format!("{} devices were lost under this client's requests", self.losses);
            return Err(self.stays(error, &why).into());
        }
        let left = std::mem::replace(&mut self.assignment, self.nodes.place(&self.spec)?);
        self.left.push(left.leave());
        self.moves += 1;
        Ok(())
    }

    fn stays(&self, error: &Error, why: &str) -> Error {
        let why = format!("{}: {error}; {why}", self.assignment.node.name());
        Error::DeviceLost { backend: D::NAME, why }
    }
}
