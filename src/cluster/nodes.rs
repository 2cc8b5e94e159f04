//! The devices of a cluster, and the search for one that takes a client.

use super::assignment::{Assignment, PlacedClient, Spec};
use super::failure::Failure;
use super::ledger::Ledger;
use super::node::Node;
use reef_core::{Device, Error, Result};
use std::sync::Arc;

/// All devices of a cluster. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Nodes<D: Device> {
    pub(super) all: Arc<[Arc<Node<D>>]>,
    pub(super) ledger: Ledger,
}

impl<D: Device> Nodes<D> {
    /// Finds a device for a client: the best one that has room, by the ledger; if that turns out to
    /// be full or lost, the next.
    ///
    /// # Errors
    ///
    /// `Unplaced` if none takes it; the error for which its replica could not be made.
    pub(super) fn place<C: PlacedClient<D>, M, E: Failure>(
        &self,
        spec: &Spec<D, M, E>,
    ) -> Result<Assignment<D, C, M>, E> {
        let mut refused: Vec<(usize, Error)> = Vec::new();
        loop {
            let but: Vec<usize> = refused.iter().map(|(at, _)| *at).collect();
            let Some(entered) = self.ledger.place(C::CLASS, &spec.demand, &but) else {
                return Err(self.unplaced(spec.demand.bytes, &refused).into());
            };
            let node = self.all[entered.at()].clone();
            match Assignment::take(node.clone(), entered, spec) {
                Ok(assignment) => return Ok(assignment),
                Err(error) => refused.push((node.index(), elsewhere(&node, error)?)),
            }
        }
    }

    /// Returns the error for a client of `bytes` bytes that no device takes.
    fn unplaced(&self, bytes: u64, refused: &[(usize, Error)]) -> Error {
        let why = |node: &Arc<Node<D>>| {
            let name = node.name();
            let refusal = refused.iter().find(|(at, _)| *at == node.index());
            match (node.lost(), refusal) {
                (Some(error), _) | (None, Some((_, error))) => format!("{name}: {error}"),
                (None, None) => {
                    let entry = self.ledger.entry(node.index());
                    let memory = entry.memory.unwrap_or_default();
                    format!("{name}: {} of {memory} bytes promised", entry.bytes)
                }
            }
        };
        let all: Vec<_> = self.all.iter().map(why).collect();
        Error::Unplaced(format!("no device takes a client of {bytes} bytes: {}", all.join("; ")))
    }
}

/// The device's reason if another device may do better, or else the error.
fn elsewhere<D: Device, E: Failure>(node: &Arc<Node<D>>, error: E) -> Result<Error, E> {
    match error.device_error() {
        Some(why) if matches!(why, Error::OutOfMemory { .. }) || node.is_lost_after(why) => {
            Ok(why.clone())
        }
        _ => Err(error),
    }
}
