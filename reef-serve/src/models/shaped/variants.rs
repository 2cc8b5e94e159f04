//! Which variants of a model there are, and who wants them kept.
//!
//! Each principal has a list of the shapes that it used last. A variant stays for as long as it is in a list, so whoever
//! asks for many shapes pushes out its own. Variants that the model's description names are in nobody's list and stay.

use super::variant::Variant;
use crate::models::declaration::{Shapes, rows_of};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};

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
    made: HashMap<Shapes, Weak<Variant>>,
    /// Most recently used last.
    lists: BTreeMap<Principal, VecDeque<(Shapes, Arc<Variant>)>>,
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
        let variant = state.made.get(shapes)?.upgrade()?;
        let dropped = state.keep(who, shapes, &variant, self.part);
        drop(state);
        drop(dropped); // its memory takes time to be given back
        Some(variant)
    }

    /// The one with as many rows at least, and the fewest, that has these shapes otherwise.
    pub(crate) fn with_rows(&self, shapes: &Shapes, rows: usize) -> Option<(usize, Arc<Variant>)> {
        let state = self.state.lock();
        let fits = |made: &Shapes| {
            let alike = |(one, other): (&Vec<usize>, &Vec<usize>)| one.get(1..) == other.get(1..);
            let first = rows_of(made)?;
            (first >= rows && made.iter().zip(shapes).all(alike)).then_some(first)
        };
        let pinned = state.pinned.iter().filter_map(|(made, v)| Some((fits(made)?, v.clone())));
        let made = state.made.iter().filter_map(|(made, v)| Some((fits(made)?, v.upgrade()?)));
        pinned.chain(made).min_by_key(|(rows, _)| *rows)
    }

    /// Keeps one that was made for `who`; another one, if it was made at the same time for somebody else.
    pub(crate) fn insert(
        &self,
        shapes: Shapes,
        who: &Principal,
        made: Arc<Variant>,
    ) -> Arc<Variant> {
        let mut state = self.state.lock();
        let variant = state.made.get(&shapes).and_then(Weak::upgrade).unwrap_or(made);
        state.made.insert(shapes.clone(), Arc::downgrade(&variant));
        let dropped = state.keep(who, &shapes, &variant, self.part);
        drop(state);
        drop(dropped);
        variant
    }

    /// Makes room for one more of `who`. `false`: the places are others'.
    pub(crate) fn make_room(&self, who: &Principal) -> bool {
        loop {
            let mut state = self.state.lock();
            state.made.retain(|_, variant| variant.strong_count() > 0);
            let own = state.lists.get(who).map_or(0, VecDeque::len);
            if state.made.len() < self.most && own < self.part {
                return true;
            }
            let Some(dropped) = state.give_up(who) else { return false };
            drop(state);
            drop(dropped);
        }
    }

    /// Drops the one that `who` used longest ago, or one of a principal with more. `false`: there is none.
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
        let made = state.made.values().filter(|variant| variant.strong_count() > 0).count();
        state.pinned.len() + made
    }

    /// Bytes of all.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state.lock();
        let made = state.made.values().filter_map(Weak::upgrade);
        let all = state.pinned.values().cloned().chain(made);
        all.map(|variant| variant.bytes()).sum()
    }

    /// Bytes of those that stay.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.state.lock().pinned.values().map(|variant| variant.bytes()).sum()
    }

    /// Lets all go.
    pub(crate) fn clear(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        let kept = state.lists.into_values().flatten().map(|(_, variant)| variant);
        state.pinned.into_values().chain(kept).for_each(|variant| variant.clear());
    }
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
        list.retain(|(other, _)| other != shapes);
        list.push_back((shapes.clone(), variant.clone()));
        if list.len() > part { list.pop_front().map(|(_, oldest)| oldest) } else { None }
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
        let (_, oldest) = list.pop_front()?;
        if list.is_empty() {
            self.lists.remove(who);
        }
        Some(oldest)
    }
}
