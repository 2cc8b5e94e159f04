//! The streams of a guest, in memory of a fixed size.

use super::stream::Stream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many slots from its own a key may stand.
const REACH: usize = 32;

/// Names a stream: its handle, or a context and which of its default streams. Never all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub usize, pub usize);

#[derive(Debug)]
struct Slot {
    /// Zero: free. Written last when a slot is claimed, first when it is freed.
    handle: AtomicUsize,
    part: AtomicUsize,
    stream: Stream,
}

/// Streams by their keys. Looking up takes no lock and allocates nothing; a claim takes one lock.
///
/// A slot keeps its counts when it passes to another stream: marks of the former may still arrive.
#[derive(Debug)]
pub struct Streams<const N: usize> {
    slots: [Slot; N],
    claim: Mutex<()>,
}

impl<const N: usize> Streams<N> {
    /// No streams.
    pub const fn new() -> Self {
        Self { slots: [const { Slot::new() }; N], claim: Mutex::new(()) }
    }

    /// The stream's slot, claimed if need be. `None`: the table is full around it.
    pub fn slot(&self, key: Key) -> Option<usize> {
        self.find(key).or_else(|| self.claim(key))
    }

    /// The stream's slot, if it has one.
    pub fn find(&self, key: Key) -> Option<usize> {
        let mut near = Self::near(key);
        near.find(|&at| self.slots.get(at).is_some_and(|slot| slot.is(key)))
    }

    /// Frees the stream's slot: its handle may name another stream from now on.
    pub fn free(&self, key: Key) {
        if let Some(slot) = self.find(key).and_then(|at| self.slots.get(at)) {
            slot.handle.store(0, Ordering::Release);
        }
    }

    /// The counts of a slot. `None`: there is no such slot.
    pub fn get(&self, at: usize) -> Option<&Stream> {
        self.slots.get(at).map(|slot| &slot.stream)
    }

    /// All slots with a stream, and its key.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Key, &Stream)> {
        let used = |(at, slot): (usize, &'_ Slot)| slot.key().map(|key| (at, key));
        self.slots
            .iter()
            .enumerate()
            .filter_map(move |(at, slot)| used((at, slot)).map(|(at, key)| (at, key, &slot.stream)))
    }

    fn claim(&self, key: Key) -> Option<usize> {
        let _lock = self.claim.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(at) = self.find(key) {
            return Some(at); // another thread was faster
        }
        let mut near = Self::near(key);
        let at = near.find(|&at| self.slots.get(at).is_some_and(|slot| slot.key().is_none()))?;
        let slot = self.slots.get(at)?;
        slot.part.store(key.1, Ordering::Relaxed);
        slot.handle.store(key.0, Ordering::Release);
        Some(at)
    }

    fn near(key: Key) -> impl Iterator<Item = usize> {
        let mixed = (key.0 ^ key.1.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (0..REACH.min(N)).map(move |step| mixed.wrapping_add(step) % N.max(1))
    }
}

impl<const N: usize> Default for Streams<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    const fn new() -> Self {
        let (handle, part) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { handle, part, stream: Stream::new() }
    }

    fn is(&self, key: Key) -> bool {
        self.handle.load(Ordering::Acquire) == key.0 && self.part.load(Ordering::Relaxed) == key.1
    }

    fn key(&self) -> Option<Key> {
        let handle = self.handle.load(Ordering::Acquire);
        (handle != 0).then(|| Key(handle, self.part.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn a_key_keeps_its_slot_until_it_is_freed(
            steps in proptest::collection::vec((any::<bool>(), 1..40_usize, 0..3_usize), 0..200)
        ) {
            let streams = Streams::<64>::new();
            let mut known = HashMap::new();
            for (frees, handle, part) in steps {
                let key = Key(handle * 4096, part);
                if frees {
                    streams.free(key);
                    known.remove(&(handle, part));
                    prop_assert_eq!(streams.find(key), None);
                } else if let Some(at) = streams.slot(key) {
                    prop_assert_eq!(*known.entry((handle, part)).or_insert(at), at);
                }
            }
            let slots: std::collections::HashSet<_> = known.values().collect();
            prop_assert_eq!(slots.len(), known.len(), "two keys in one slot");
            prop_assert_eq!(streams.iter().count(), known.len());
        }
    }

    #[test]
    fn threads_that_claim_one_key_get_one_slot() {
        let streams = Streams::<64>::new();
        let slots: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| streams.slot(Key(0x1000, 0)))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(slots.iter().all(|&slot| slot.is_some() && slot == slots[0]), "{slots:?}");
    }
}
