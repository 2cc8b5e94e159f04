//! A loaded version of a model with its replicas.

use crate::engine::node::Node;
use crate::models::loaded_model::LoadedModel;
use crate::models::retiring::Retiring;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A loaded version of a model: a replica on each of its devices, at least one.
#[derive(Debug)]
pub(crate) struct Replicas {
    each: Vec<Arc<LoadedModel>>,
    /// Index of the replica that is compared first, so that equal ones take turns. Written by every
    /// request of a model with several replicas.
    turn: AtomicUsize,
}

impl Replicas {
    /// Wraps replicas; `None` if there are none.
    pub(crate) fn new(each: Vec<Arc<LoadedModel>>) -> Option<Self> {
        (!each.is_empty()).then(|| Self { each, turn: AtomicUsize::new(0) })
    }

    pub(crate) fn each(&self) -> &[Arc<LoadedModel>] {
        &self.each
    }

    /// Returns one replica, for their common properties.
    pub(crate) fn first(&self) -> &Arc<LoadedModel> {
        &self.each[0]
    }

    pub(crate) fn on(&self, device: &Node) -> Option<&Arc<LoadedModel>> {
        self.each.iter().find(|replica| replica.node().index == device.index)
    }

    /// Returns the replica on the device with the least load, among those that work if there are
    /// any; equal ones take turns.
    pub(crate) fn next(&self) -> &Arc<LoadedModel> {
        let [first, others @ ..] = &*self.each else { unreachable!("there is at least one") };
        if others.is_empty() {
            return first;
        }
        // Work on a lost device ends at once: by load alone it would be chosen most often.
        let load = |node: &Node| (node.lost().is_some(), node.load());
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.each[least_loaded(self.each.len(), turn, |at| load(self.each[at].node()))]
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.each.iter().map(|replica| replica.bytes()).sum()
    }

    /// Bytes of each replica, with the index of its device among the daemon's.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (usize, u64)> {
        self.each.iter().map(|replica| (replica.node().index, replica.bytes()))
    }

    /// Closes all replicas, and waits for their requests.
    pub(crate) fn retire(&self) {
        self.start_retiring().into_iter().for_each(Retiring::wait);
    }

    /// Closes all replicas without waiting.
    pub(crate) fn start_retiring(&self) -> Vec<Retiring> {
        self.each.iter().map(|replica| replica.start_retiring()).collect()
    }
}

/// Returns the index with the least load among `len`, beginning at `turn`. Reads each load once.
fn least_loaded<T: Ord>(len: usize, turn: usize, load: impl Fn(usize) -> T) -> usize {
    let all = (0..len).map(|n| (turn % len + n) % len);
    all.min_by_key(|&at| load(at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_loaded_is_chosen_and_equals_take_turns() {
        let order = |loads: &[usize]| {
            (0..4).map(|turn| least_loaded(loads.len(), turn, |at| loads[at])).collect::<Vec<_>>()
        };
        assert_eq!(order(&[0, 0, 0]), [0, 1, 2, 0]);
        assert_eq!(order(&[1, 0, 1]), [1, 1, 1, 1]);
        assert_eq!(order(&[2, 1, 1]), [1, 1, 2, 1]);
        assert_eq!(least_loaded(2, usize::MAX, |_| 5), 1);
        assert_eq!(least_loaded(2, 0, |at| [(true, 0), (false, 7)][at]), 1);
    }
}
