//! Variants of a model, with a list of recent use for each principal.
//!
//! Each principal has a list of the shapes that it used last. A variant stays for as long as it is
//! in a list. So a principal that uses many shapes evicts its own, and unused ones expire. Variants
//! that the model's description names are in no list and stay.
//!
//! No variant is dropped while the lock is held: returning its memory takes time.

use super::variant::Variant;
use crate::models::declaration::{Shapes, rows_of};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Variants of a model.
#[derive(Debug)]
pub(crate) struct Variants {
    /// Maximum number of all principals together, and of one.
    max: usize,
    part: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pinned: HashMap<Shapes, Arc<Variant>>,
    made: HashMap<Shapes, WeakVariant>,
    /// The most recently used one is last.
    lists: BTreeMap<Principal, VecDeque<ListEntry>>,
}

/// A variant that exists for as long as a list or a request holds it.
#[derive(Debug)]
struct WeakVariant {
    variant: Weak<Variant>,
    /// Bytes that it has reserved. They are stored here because reading them from the variant would
    /// hold it, and its last holder frees its memory.
    bytes: u64,
}

impl WeakVariant {
    fn is_alive(&self) -> bool {
        self.variant.strong_count() > 0
    }
}

/// A variant in a principal's list.
#[derive(Debug)]
struct ListEntry {
    shapes: Shapes,
    variant: Arc<Variant>,
    used: Instant,
}

impl Variants {
    pub(crate) fn new(max: usize, part: usize) -> Self {
        Self { max, part: part.clamp(1, max.max(1)), state: Mutex::default() }
    }

    /// Adds a variant that stays for as long as the model does.
    pub(crate) fn pin(&self, shapes: Shapes, variant: Arc<Variant>) {
        self.state.lock().pinned.insert(shapes, variant);
    }

    /// Returns the variant for these shapes, if it exists, and notes the use by `principal`.
    pub(crate) fn get(&self, shapes: &Shapes, principal: &Principal) -> Option<Arc<Variant>> {
        let mut state = self.state.lock();
        if let Some(variant) = state.pinned.get(shapes) {
            return Some(variant.clone());
        }
        let variant = state.made.get(shapes)?.variant.upgrade()?;
        let dropped = state.note_use(principal, shapes, &variant, self.part);
        drop(state);
        free_blocking(dropped);
        Some(variant)
    }

    /// Returns the variant with the fewest rows, at least `rows`, whose other sizes equal these
    /// shapes.
    pub(crate) fn with_rows(&self, shapes: &Shapes, rows: usize) -> Option<(usize, Arc<Variant>)> {
        let fit = self.same_but_rows(shapes).into_iter().filter(|(first, _)| *first >= rows);
        fit.min_by_key(|(rows, _)| *rows)
    }

    /// Notes that a batch runs on it, so that it does not expire yet. The order of eviction is
    /// unchanged.
    pub(crate) fn note_use(&self, variant: &Arc<Variant>) {
        let (now, mut state) = (Instant::now(), self.state.lock());
        let all = state.lists.values_mut().flatten();
        all.filter(|kept| Arc::ptr_eq(&kept.variant, variant)).for_each(|kept| kept.used = now);
    }

    /// Returns the maximum number of rows among variants whose other sizes equal these shapes; 0 if
    /// there is none.
    pub(crate) fn widest(&self, shapes: &Shapes) -> usize {
        let state = self.state.lock();
        let made = state.made.iter().filter(|(_, made)| made.is_alive()).map(|(of, _)| of);
        let all = state.pinned.keys().chain(made);
        all.filter_map(|of| rows_of_same(of, shapes)).max().unwrap_or(0)
    }

    /// Returns the variants that differ from these shapes only in their rows, with the number of
    /// rows.
    fn same_but_rows(&self, shapes: &Shapes) -> Vec<(usize, Arc<Variant>)> {
        let rows = |made: &Shapes| rows_of_same(made, shapes);
        let state = self.state.lock();
        let pinned = state.pinned.iter().filter_map(|(made, v)| Some((rows(made)?, v.clone())));
        let made = state.made.iter().filter_map(|(of, v)| Some((rows(of)?, v.variant.upgrade()?)));
        pinned.chain(made).collect()
    }

    /// Adds a variant for `principal`. Returns another one, if it was created at the same time for
    /// another principal.
    pub(crate) fn insert(
        &self,
        shapes: Shapes,
        principal: &Principal,
        made: Arc<Variant>,
    ) -> Arc<Variant> {
        let mut state = self.state.lock();
        let other = state.made.get(&shapes).and_then(|made| made.variant.upgrade());
        let variant = other.unwrap_or_else(|| made.clone());
        let (bytes, weak) = (variant.bytes(), Arc::downgrade(&variant));
        state.made.insert(shapes.clone(), WeakVariant { variant: weak, bytes });
        let dropped = state.note_use(principal, &shapes, &variant, self.part);
        drop(state);
        drop(dropped);
        variant
    }

    /// Makes room for one more variant of `principal`. Returns `false` if all slots belong to
    /// others.
    pub(crate) fn make_room(&self, principal: &Principal) -> bool {
        loop {
            let mut state = self.state.lock();
            state.made.retain(|_, made| made.is_alive());
            let own = state.lists.get(principal).map_or(0, VecDeque::len);
            if state.made.len() < self.max && own < self.part {
                return true;
            }
            let Some(dropped) = state.evict(principal, |_| true) else { return false };
            drop(state);
            drop(dropped);
        }
    }

    /// Drops variants that have been unused for `idle`. Returns their number.
    pub(crate) fn expire(&self, idle: Duration) -> usize {
        let mut state = self.state.lock();
        let dropped = state.take_expired(Instant::now(), idle);
        state.made.retain(|_, made| made.is_alive());
        drop(state);
        dropped.len()
    }

    /// Drops the variant that `principal` used the longest ago, or one of a principal with more.
    /// Returns `false` if there is none.
    pub(crate) fn evict(&self, principal: &Principal) -> bool {
        let dropped = self.state.lock().evict(principal, |_| true);
        dropped.is_some()
    }

    /// Drops a variant as [`evict`](Self::evict) does, but none of the owner.
    pub(crate) fn evict_of_others(&self, principal: &Principal) -> bool {
        let dropped = self.state.lock().evict(principal, |of| !of.is_owner());
        dropped.is_some()
    }

    /// Drops the variant that `principal` used the longest ago. Returns `false` if there is none.
    pub(crate) fn evict_own(&self, principal: &Principal) -> bool {
        let dropped = self.state.lock().oldest_of(principal);
        dropped.is_some()
    }

    /// Returns all variants that exist.
    pub(crate) fn all(&self) -> Vec<(Shapes, Arc<Variant>)> {
        let state = self.state.lock();
        let pinned = state.pinned.iter().map(|(of, variant)| (of.clone(), variant.clone()));
        let made =
            state.made.iter().filter_map(|(of, made)| Some((of.clone(), made.variant.upgrade()?)));
        pinned.chain(made).collect()
    }

    /// Number of variants.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        let made = state.made.values().filter(|made| made.is_alive()).count();
        state.pinned.len() + made
    }

    /// Bytes of all variants. Frees none, because I/O threads call it.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state.lock();
        let made = state.made.values().filter(|made| made.is_alive()).map(|made| made.bytes);
        let pinned = state.pinned.values().map(|variant| variant.bytes());
        pinned.chain(made).sum()
    }

    /// Bytes of the variants that stay.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.state.lock().pinned.values().map(|variant| variant.bytes()).sum()
    }

    /// Drops all variants.
    pub(crate) fn clear(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        let kept = state.lists.into_values().flatten().map(|kept| kept.variant);
        state.pinned.into_values().chain(kept).for_each(|variant| variant.clear());
    }
}

/// Returns the rows of the shapes `made`, if they differ from `shapes` only in their rows.
fn rows_of_same(made: &Shapes, shapes: &Shapes) -> Option<usize> {
    let same = |(one, other): (&Vec<usize>, &Vec<usize>)| one.get(1..) == other.get(1..);
    rows_of(made).filter(|_| made.iter().zip(shapes).all(same))
}

/// Drops a variant on a thread that may block: requests arrive on I/O threads, which may not.
fn free_blocking(dropped: Option<Arc<Variant>>) {
    let Some(dropped) = dropped else { return };
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn_blocking(move || drop(dropped));
    } // else this is not an I/O thread
}

impl State {
    /// Notes the use by `principal`; returns the variant that its list has no room for any more.
    fn note_use(
        &mut self,
        principal: &Principal,
        shapes: &Shapes,
        variant: &Arc<Variant>,
        part: usize,
    ) -> Option<Arc<Variant>> {
        let list = self.lists.entry(principal.clone()).or_default();
        list.retain(|kept| kept.shapes != *shapes); // the same variant, pushed again below
        let (shapes, variant, used) = (shapes.clone(), variant.clone(), Instant::now());
        list.push_back(ListEntry { shapes, variant, used });
        if list.len() > part { list.pop_front().map(|oldest| oldest.variant) } else { None }
    }

    /// Removes variants from the lists that were last used `idle` before `now` or earlier.
    fn take_expired(&mut self, now: Instant, idle: Duration) -> Vec<Arc<Variant>> {
        let is_old = |kept: &ListEntry| now.saturating_duration_since(kept.used) >= idle;
        let mut all = Vec::new();
        for list in self.lists.values_mut() {
            let (old, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(list).into_iter().partition(is_old);
            *list = kept; // in their order
            all.extend(old.into_iter().map(|kept| kept.variant));
        }
        self.lists.retain(|_, list| !list.is_empty());
        all
    }

    /// Removes the oldest one of `principal`, or of the principal with the most, of those that are
    /// meant, if that has more than `principal`.
    fn evict(
        &mut self,
        principal: &Principal,
        is_meant: fn(&Principal) -> bool,
    ) -> Option<Arc<Variant>> {
        let own = self.lists.get(principal).map_or(0, VecDeque::len);
        let (max, count) = self
            .lists
            .iter()
            .filter(|(principal, _)| is_meant(principal))
            .map(|(principal, list)| (principal, list.len()))
            .max_by_key(|(_, count)| *count)?;
        let loser = if count > own { max.clone() } else { principal.clone() };
        self.oldest_of(&loser)
    }

    /// Removes the oldest one of `principal`.
    fn oldest_of(&mut self, principal: &Principal) -> Option<Arc<Variant>> {
        let list = self.lists.get_mut(principal)?;
        let oldest = list.pop_front()?.variant;
        if list.is_empty() {
            self.lists.remove(principal);
        }
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::engine::api::{DeviceModel, Instance, Sizes};
    use crate::engine::node::Nodes;
    use crate::error::Result;
    use crate::models::budget::Budget;
    use crate::models::shaped::variant::Parts;
    use crate::tensor::TensorInfos;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, ThreadId};

    /// Thread of a drop, and whether the lock was held then.
    type DropReport = (ThreadId, bool);

    /// Reports its drop.
    #[derive(Debug)]
    struct ReportingModel(Weak<Variants>, Sender<DropReport>);

    impl DeviceModel for ReportingModel {
        fn instance(&self, _: Class, _: reef::ClientConfig) -> Result<Box<dyn Instance>> {
            unreachable!("no instance")
        }

        fn own_bytes(&self) -> u64 {
            0
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    impl Drop for ReportingModel {
        fn drop(&mut self) {
            let held = self.0.upgrade().is_some_and(|variants| variants.state.is_locked());
            let _ = self.1.send((thread::current().id(), held));
        }
    }

    fn variants_of(
        part: usize,
    ) -> (Arc<Variants>, impl Fn() -> Arc<Variant>, Receiver<DropReport>) {
        let variants = Arc::new(Variants::new(9, part));
        let (sender, freed) = channel();
        let weak = Arc::downgrade(&variants);
        let node = Nodes::open("cpu:0?units=1", "reef", 0.0).unwrap().all[0].clone();
        let make = move || {
            let (inputs, outputs) =
                (TensorInfos::of(&Default::default()), TensorInfos::of(&Default::default()));
            let sizes = Sizes { weights: 0, instance: 0 };
            let loaded = Arc::new(ReportingModel(weak.clone(), sender.clone()));
            let memory = Budget::new(0).reserve("a model", 1).unwrap();
            let node = node.clone();
            let parts = Parts { inputs, outputs, sizes, loaded, node, memory, taken: None };
            Variant::new(parts, [0, 0]).unwrap()
        };
        (variants, make, freed)
    }

    fn shapes(rows: usize) -> Shapes {
        vec![vec![rows, 3]]
    }

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn variant_is_freed_off_io_threads_and_outside_the_lock() {
        let (variants, make, freed) = variants_of(1);
        let [a, b] = [1, 2].map(Principal::User);
        variants.insert(shapes(1), &a, make());
        variants.insert(shapes(2), &b, make());
        variants.insert(shapes(2), &b, make()); // made at the same time: the first one stays
        assert_eq!(freed.recv_timeout(TEST_TIMEOUT).unwrap(), (thread::current().id(), false));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        variants.get(&shapes(2), &a).unwrap(); // pushes out the one that `a` had
        let (thread, held) = freed.recv_timeout(TEST_TIMEOUT).expect("it is freed");
        assert!(thread != thread::current().id() && !held);
    }

    #[test]
    fn owner_keeps_its_variants_when_others_need_memory() {
        let (variants, make, _freed) = variants_of(9);
        let owner = Principal::User(rustix::process::getuid().as_raw());
        let [a, b] = ["a", "b"].map(|name| Principal::Token(name.into()));
        for rows in [1, 2, 3] {
            variants.insert(shapes(rows), &owner, make());
        }
        for rows in [4, 5] {
            variants.insert(shapes(rows), &a, make());
        }
        assert!(variants.evict_of_others(&b) && variants.evict_of_others(&b));
        assert!(!variants.evict_of_others(&b), "the others are the owner's");
        assert_eq!(variants.len(), 3);
    }

    #[test]
    fn unused_variant_expires() {
        let (variants, make, freed) = variants_of(9);
        let [a, b] = [1, 2].map(Principal::User);
        variants.pin(shapes(1), make());
        for rows in [2, 3] {
            variants.insert(shapes(rows), &a, make());
        }
        let hour = Duration::from_secs(3600);
        variants.get(&shapes(2), &b).unwrap();
        assert_eq!((variants.expire(hour), variants.len()), (0, 3));
        let mut state = variants.state.lock();
        let soon = Instant::now() + hour;
        state.lists.get_mut(&b).unwrap()[0].used = soon; // `b` uses it in an hour
        let dropped = state.take_expired(soon, hour);
        drop(state);
        assert_eq!(dropped.len(), 2, "both of `a`");
        drop(dropped);
        freed.recv_timeout(TEST_TIMEOUT).unwrap();
        assert!(variants.get(&shapes(2), &b).is_some() && variants.get(&shapes(3), &a).is_none());
        assert_eq!(variants.len(), 2, "the pinned one, and that of `b`");
        assert_eq!((variants.expire(Duration::ZERO), variants.len()), (1, 1));
    }

    #[test]
    fn variant_used_by_batches_stays() {
        let (variants, make, _freed) = variants_of(9);
        let a = Principal::User(1);
        let [_, wide, _] = [1, 8, 2].map(|rows| variants.insert(shapes(rows), &a, make()));
        assert_eq!(variants.bytes(), 3);
        let hour = Duration::from_secs(3600);
        let long_ago = Instant::now() - hour;
        let list = |variants: &Variants| {
            let mut state = variants.state.lock();
            state.lists.get_mut(&a).unwrap().iter_mut().for_each(|kept| kept.used = long_ago);
        };
        list(&variants);
        variants.note_use(&wide);
        drop(wide);
        assert_eq!((variants.expire(hour), variants.len(), variants.bytes()), (2, 1, 1));
        list(&variants);
        assert_eq!((variants.expire(hour), variants.bytes()), (1, 0));
    }
}
