//! A loaded version of a model with its replicas.

use crate::engine::node::Node;
use crate::models::loaded_model::LoadedModel;
use crate::models::retiring::Retiring;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A loaded version of a model: a replica on each device that has it, of which there is one at
/// least.
#[derive(Debug)]
pub(crate) struct Replicas {
    each: Vec<Arc<LoadedModel>>,
    /// Who is asked first, so that equals take turns. Written by every request of a model with
    /// several replicas.
    turn: AtomicUsize,
}

impl Replicas {
    /// None of no replica.
    pub(crate) fn new(each: Vec<Arc<LoadedModel>>) -> Option<Self> {
        (!each.is_empty()).then(|| Self { each, turn: AtomicUsize::new(0) })
    }

    /// All of them.
    pub(crate) fn each(&self) -> &[Arc<LoadedModel>] {
        &self.each
    }

    /// One of them, for what they have in common.
    pub(crate) fn first(&self) -> &Arc<LoadedModel> {
        &self.each[0]
    }

    /// The one on this device.
    pub(crate) fn on(&self, device: &Node) -> Option<&Arc<LoadedModel>> {
        self.each.iter().find(|replica| replica.node().index == device.index)
    }

    /// The one on the device with the least load, of those that work if one does; equals take
    /// turns.
    pub(crate) fn next(&self) -> &Arc<LoadedModel> {
        let [first, others @ ..] = &*self.each else { unreachable!("there is one at least") };
        if others.is_empty() {
            return first;
        }
        // What a lost device is asked for ends at once: by its load alone it would be asked most.
        let load = |node: &Node| (node.lost().is_some(), node.load());
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.each[least(self.each.len(), turn, |at| load(self.each[at].node()))]
    }

    /// Bytes of all.
    pub(crate) fn bytes(&self) -> u64 {
        self.each.iter().map(|replica| replica.bytes()).sum()
    }

    /// Bytes of each, with the place of its device among the daemon's.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (usize, u64)> {
        self.each.iter().map(|replica| (replica.node().index, replica.bytes()))
    }

    /// Takes no more requests, and waits for those that they have.
    pub(crate) fn retire(&self) {
        self.begin_to_retire().into_iter().for_each(Retiring::wait);
    }

    /// The same without waiting.
    pub(crate) fn begin_to_retire(&self) -> Vec<Retiring> {
        self.each.iter().map(|replica| replica.begin_to_retire()).collect()
    }
}

/// Where of `len` places the least load is, beginning at `turn`. Each is asked once.
fn least<T: Ord>(len: usize, turn: usize, load: impl Fn(usize) -> T) -> usize {
    let all = (0..len).map(|n| (turn % len + n) % len);
    all.min_by_key(|&at| load(at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_load_comes_first_and_equals_take_turns() {
        let order = |loads: &[usize]| {
            (0..4).map(|turn| least(loads.len(), turn, |at| loads[at])).collect::<Vec<_>>()
        };
        assert_eq!(order(&[0, 0, 0]), [0, 1, 2, 0]);
        assert_eq!(order(&[1, 0, 1]), [1, 1, 1, 1]);
        assert_eq!(order(&[2, 1, 1]), [1, 1, 2, 1]);
        assert_eq!(least(2, usize::MAX, |_| 5), 1);
        assert_eq!(least(2, 0, |at| [(true, 0), (false, 7)][at]), 1);
    }
}
