//! Which variants of a model there are, and who wants them kept.
//!
//! Each principal has a list of the shapes that it used last. A variant stays for as long as it is
//! in a list, so whoever asks for many shapes pushes out its own, and what a principal hasn't used
//! for long expires. Variants that the model's description names are in nobody's list and stay.
//!
//! No variant is dropped while the lock is held: giving its memory back takes time.

use super::variant::Variant;
use crate::models::declaration::{Shapes, rows_of};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The variants of a model.
#[derive(Debug)]
pub(crate) struct Variants {
    /// Of all principals together, and of one.
    most: usize,
    part: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pinned: HashMap<Shapes, Arc<Variant>>,
    made: HashMap<Shapes, Made>,
    /// Most recently used last.
    lists: BTreeMap<Principal, VecDeque<Kept>>,
}

/// A variant that is there for as long as a list or a request has it.
#[derive(Debug)]
struct Made {
    variant: Weak<Variant>,
    /// What it has reserved. To ask the variant is to hold it, and who holds it last frees its
    /// memory.
    bytes: u64,
}

impl Made {
    fn is_there(&self) -> bool {
        self.variant.strong_count() > 0
    }
}

/// A variant in a principal's list.
#[derive(Debug)]
struct Kept {
    shapes: Shapes,
    variant: Arc<Variant>,
    used: Instant,
}

impl Variants {
    pub(crate) fn new(most: usize, part: usize) -> Self {
        Self { most, part: part.clamp(1, most.max(1)), state: Mutex::default() }
    }

    /// Keeps one for as long as the model is there.
    pub(crate) fn pin(&self, shapes: Shapes, variant: Arc<Variant>) {
        self.state.lock().pinned.insert(shapes, variant);
    }

    /// The one for these shapes, if it is there; `who` has used it last then.
    pub(crate) fn get(&self, shapes: &Shapes, who: &Principal) -> Option<Arc<Variant>> {
        let mut state = self.state.lock();
        if let Some(variant) = state.pinned.get(shapes) {
            return Some(variant.clone());
        }
        let variant = state.made.get(shapes)?.variant.upgrade()?;
        let dropped = state.keep(who, shapes, &variant, self.part);
        drop(state);
        free_aside(dropped);
        Some(variant)
    }

    /// The one with as many rows at least, and the fewest, that has these shapes otherwise.
    pub(crate) fn with_rows(&self, shapes: &Shapes, rows: usize) -> Option<(usize, Arc<Variant>)> {
        let fit = self.alike(shapes).into_iter().filter(|(first, _)| *first >= rows);
        fit.min_by_key(|(rows, _)| *rows)
    }

    /// A batch runs on it, so it doesn't expire yet. Whose it is to give up for another stays as it
    /// was.
    pub(crate) fn note_use(&self, variant: &Arc<Variant>) {
        let (now, mut state) = (Instant::now(), self.state.lock());
        let all = state.lists.values_mut().flatten();
        all.filter(|kept| Arc::ptr_eq(&kept.variant, variant)).for_each(|kept| kept.used = now);
    }

    /// Rows of the one with most that has these shapes otherwise; 0 if there is none.
    pub(crate) fn widest(&self, shapes: &Shapes) -> usize {
        let state = self.state.lock();
        let made = state.made.iter().filter(|(_, made)| made.is_there()).map(|(of, _)| of);
        let all = state.pinned.keys().chain(made);
        all.filter_map(|of| rows_beside(of, shapes)).max().unwrap_or(0)
    }

    /// Those that differ from these shapes in their rows alone, with how many those are.
    fn alike(&self, shapes: &Shapes) -> Vec<(usize, Arc<Variant>)> {
        let rows = |made: &Shapes| rows_beside(made, shapes);
        let state = self.state.lock();
        let pinned = state.pinned.iter().filter_map(|(made, v)| Some((rows(made)?, v.clone())));
        let made = state.made.iter().filter_map(|(of, v)| Some((rows(of)?, v.variant.upgrade()?)));
        pinned.chain(made).collect()
    }

    /// Keeps one that was made for `who`; another one, if it was made at the same time for somebody
    /// else.
    pub(crate) fn insert(
        &self,
        shapes: Shapes,
        who: &Principal,
        made: Arc<Variant>,
    ) -> Arc<Variant> {
        let mut state = self.state.lock();
        let other = state.made.get(&shapes).and_then(|made| made.variant.upgrade());
        let variant = other.unwrap_or_else(|| made.clone());
        let (bytes, weak) = (variant.bytes(), Arc::downgrade(&variant));
        state.made.insert(shapes.clone(), Made { variant: weak, bytes });
        let dropped = state.keep(who, &shapes, &variant, self.part);
        drop(state);
        drop(dropped);
        variant
    }

    /// Makes room for one more of `who`. `false`: the places are others'.
    pub(crate) fn make_room(&self, who: &Principal) -> bool {
        loop {
            let mut state = self.state.lock();
            state.made.retain(|_, made| made.is_there());
            let own = state.lists.get(who).map_or(0, VecDeque::len);
            if state.made.len() < self.most && own < self.part {
                return true;
            }
            let Some(dropped) = state.give_up(who) else { return false };
            drop(state);
            drop(dropped);
        }
    }

    /// Drops those that nobody has used for as long as `idle`. Returns how many.
    pub(crate) fn expire(&self, idle: Duration) -> usize {
        let mut state = self.state.lock();
        let dropped = state.expired(Instant::now(), idle);
        state.made.retain(|_, made| made.is_there());
        drop(state);
        dropped.len()
    }

    /// Drops the one that `who` used longest ago, or one of a principal with more. `false`: there
    /// is none.
    pub(crate) fn give_up(&self, who: &Principal) -> bool {
        let dropped = self.state.lock().give_up(who);
        dropped.is_some()
    }

    /// Drops the one that `who` used longest ago. `false`: it has none.
    pub(crate) fn give_up_own(&self, who: &Principal) -> bool {
        let dropped = self.state.lock().oldest_of(who);
        dropped.is_some()
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        let made = state.made.values().filter(|made| made.is_there()).count();
        state.pinned.len() + made
    }

    /// Bytes of all. Frees none: threads of I/O ask for this.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state.lock();
        let made = state.made.values().filter(|made| made.is_there()).map(|made| made.bytes);
        let pinned = state.pinned.values().map(|variant| variant.bytes());
        pinned.chain(made).sum()
    }

    /// Bytes of those that stay.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.state.lock().pinned.values().map(|variant| variant.bytes()).sum()
    }

    /// Lets all go.
    pub(crate) fn clear(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        let kept = state.lists.into_values().flatten().map(|kept| kept.variant);
        state.pinned.into_values().chain(kept).for_each(|variant| variant.clear());
    }
}

/// Rows of a variant of the shapes `made`, if they differ from `shapes` in their rows alone.
fn rows_beside(made: &Shapes, shapes: &Shapes) -> Option<usize> {
    let same = |(one, other): (&Vec<usize>, &Vec<usize>)| one.get(1..) == other.get(1..);
    rows_of(made).filter(|_| made.iter().zip(shapes).all(same))
}

/// Drops a variant on a thread that may block: requests come in on threads of I/O, which may not.
fn free_aside(dropped: Option<Arc<Variant>>) {
    let Some(dropped) = dropped else { return };
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn_blocking(move || drop(dropped));
    } // or the thread is none of I/O
}

impl State {
    /// Notes that `who` used it; returns what it has no place for any more.
    fn keep(
        &mut self,
        who: &Principal,
        shapes: &Shapes,
        variant: &Arc<Variant>,
        part: usize,
    ) -> Option<Arc<Variant>> {
        let list = self.lists.entry(who.clone()).or_default();
        list.retain(|kept| kept.shapes != *shapes); // it is `variant`, which stays
        let (shapes, variant, used) = (shapes.clone(), variant.clone(), Instant::now());
        list.push_back(Kept { shapes, variant, used });
        if list.len() > part { list.pop_front().map(|oldest| oldest.variant) } else { None }
    }

    /// Takes those out of the lists that were used `idle` before `now` or earlier.
    fn expired(&mut self, now: Instant, idle: Duration) -> Vec<Arc<Variant>> {
        let is_old = |kept: &Kept| now.saturating_duration_since(kept.used) >= idle;
        let mut all = Vec::new();
        for list in self.lists.values_mut() {
            let (old, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(list).into_iter().partition(is_old);
            *list = kept; // in its order, which is not that of all uses
            all.extend(old.into_iter().map(|kept| kept.variant));
        }
        self.lists.retain(|_, list| !list.is_empty());
        all
    }

    /// Takes the oldest of `who`, or of the principal with most if that has more than `who`.
    fn give_up(&mut self, who: &Principal) -> Option<Arc<Variant>> {
        let own = self.lists.get(who).map_or(0, VecDeque::len);
        let (most, count) = self
            .lists
            .iter()
            .map(|(who, list)| (who, list.len()))
            .max_by_key(|(_, count)| *count)?;
        let loser = if count > own { most.clone() } else { who.clone() };
        self.oldest_of(&loser)
    }

    /// Takes the oldest of `who`.
    fn oldest_of(&mut self, who: &Principal) -> Option<Arc<Variant>> {
        let list = self.lists.get_mut(who)?;
        let oldest = list.pop_front()?.variant;
        if list.is_empty() {
            self.lists.remove(who);
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

    /// On which thread something was dropped, and whether the lock was held then.
    type Freed = (ThreadId, bool);

    /// Tells when it is dropped.
    #[derive(Debug)]
    struct Told(Weak<Variants>, Sender<Freed>);

    impl DeviceModel for Told {
        fn instance(&self, _: Class, _: reef::ClientConfig) -> Result<Box<dyn Instance>> {
            unreachable!("no lane")
        }

        fn own_bytes(&self) -> u64 {
            0
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            let held = self.0.upgrade().is_some_and(|variants| variants.state.is_locked());
            let _ = self.1.send((thread::current().id(), held));
        }
    }

    fn places(part: usize) -> (Arc<Variants>, impl Fn() -> Arc<Variant>, Receiver<Freed>) {
        let variants = Arc::new(Variants::new(9, part));
        let (sender, freed) = channel();
        let weak = Arc::downgrade(&variants);
        let node = Nodes::open("cpu:0?units=1", "reef", 0.0).unwrap().all[0].clone();
        let make = move || {
            let (inputs, outputs) =
                (TensorInfos::of(&Default::default()), TensorInfos::of(&Default::default()));
            let sizes = Sizes { weights: 0, instance: 0 };
            let loaded = Arc::new(Told(weak.clone(), sender.clone()));
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

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn variants_are_freed_off_threads_of_io_and_outside_of_the_lock() {
        let (variants, make, freed) = places(1);
        let [a, b] = [1, 2].map(Principal::User);
        variants.insert(shapes(1), &a, make());
        variants.insert(shapes(2), &b, make());
        variants.insert(shapes(2), &b, make()); // made at the same time: the first one stays
        assert_eq!(freed.recv_timeout(SOON).unwrap(), (thread::current().id(), false));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        variants.get(&shapes(2), &a).unwrap(); // pushes out the one that `a` had
        let (thread, held) = freed.recv_timeout(SOON).expect("it is freed");
        assert!(thread != thread::current().id() && !held);
    }

    #[test]
    fn what_nobody_uses_expires() {
        let (variants, make, freed) = places(9);
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
        let dropped = state.expired(soon, hour);
        drop(state);
        assert_eq!(dropped.len(), 2, "both of `a`");
        drop(dropped);
        freed.recv_timeout(SOON).unwrap();
        assert!(variants.get(&shapes(2), &b).is_some() && variants.get(&shapes(3), &a).is_none());
        assert_eq!(variants.len(), 2, "the pinned one, and that of `b`");
        assert_eq!((variants.expire(Duration::ZERO), variants.len()), (1, 1));
    }

    #[test]
    fn what_only_batches_use_stays() {
        let (variants, make, _freed) = places(9);
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
