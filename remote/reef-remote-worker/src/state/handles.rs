//! Handles of the driver, by the numbers that the client knows.

use reef_cuda_abi::codes::{INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE};
use reef_remote_calls::Kind;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Layout of a kernel's parameters: offset and size of each.
pub(crate) type Layout = Vec<(u32, u32)>;

/// Bit of numbers that this end has chosen. Programs take handles for addresses: cuda-python
/// refuses negative ones.
const OWN: u64 = 1 << 46;
/// Lowest number that names an object. Lower ones have meanings of their own.
const FIRST: u64 = 16;

#[derive(Debug)]
struct Entry {
    kind: Kind,
    handle: usize,
    /// Objects with which it ends: its module, library or graph, and its context. 0: none.
    parents: [u64; 2],
    /// Of a function, once it is known.
    layout: Option<Arc<Layout>>,
}

impl Entry {
    const fn new(kind: Kind, handle: usize, parent: u64) -> Self {
        Self { kind, handle, parents: [parent, 0], layout: None }
    }
}

/// Objects of a session.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    by_id: HashMap<u64, Entry>,
    by_handle: HashMap<(Kind, usize), u64>,
    next: u64,
    /// Number that was given last to an object without one.
    named: u64,
    /// Number that the next such object gets.
    forced: Option<u64>,
    /// Objects that calls of waiters have, with the number of these calls.
    used: HashMap<u64, usize>,
    /// Objects whose ends are under way.
    ending: HashSet<u64>,
}

/// Steps from an object to what it ends with, to what that ends with, and so on: more than there
/// are. The client chooses numbers, so they may go around.
const MAX_DEPTH: u32 = 8;

/// Code of a number that names no object of this kind.
fn unknown(kind: Kind) -> u32 {
    match kind {
        Kind::Context => INVALID_CONTEXT,
        Kind::Graph | Kind::Node | Kind::Exec | Kind::Pool => INVALID_VALUE,
        _ => INVALID_HANDLE,
    }
}

impl Handles {
    /// Returns the driver's handle. Zero is null. A kernel does for a function.
    ///
    /// # Errors
    ///
    /// The driver's code for a handle that isn't there, or whose object is about to end.
    pub(crate) fn get(&self, kind: Kind, id: u64) -> Result<usize, u32> {
        if id == 0 {
            return Ok(0);
        }
        let does = |entry: &&Entry| {
            entry.kind == kind || kind == Kind::Function && entry.kind == Kind::Kernel
        };
        let entry = self.by_id.get(&id).filter(does).filter(|_| !self.are_ending([id]));
        entry.map(|entry| entry.handle).ok_or_else(|| unknown(kind))
    }

    /// Returns the driver's handle of a function, and the layout of its parameters, if it is known.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`get`](Self::get).
    pub(crate) fn function(&self, id: u64) -> Result<(usize, Option<Arc<Layout>>), u32> {
        let handle = self.get(Kind::Function, id)?;
        let layout = self.by_id.get(&id).and_then(|entry| entry.layout.clone());
        Ok((handle, layout))
    }

    /// Notes the layout of a function's parameters, which ends with the function.
    pub(crate) fn set_layout(&mut self, id: u64, layout: Option<Layout>) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.layout = layout.map(Arc::new);
        }
    }

    /// Returns whether any of these objects is about to end. Zero is none.
    pub(crate) fn are_ending<const N: usize>(&self, ids: [u64; N]) -> bool {
        let is_part = |of: &u64| ids.iter().any(|id| *id != 0 && self.is_part(*id, *of, MAX_DEPTH));
        !self.ending.is_empty() && self.ending.iter().any(is_part)
    }

    /// Returns whether an object is this one, or ends with it.
    fn is_part(&self, id: u64, of: u64, depth: u32) -> bool {
        let parents = || self.by_id.get(&id).map_or([0; 2], |entry| entry.parents);
        let is_its = |parent: u64| parent != 0 && self.is_part(parent, of, depth - 1);
        id == of || depth > 0 && parents().into_iter().any(is_its)
    }

    /// Returns the number of an object.
    pub(crate) fn id_of(&self, kind: Kind, handle: usize) -> Option<u64> {
        self.by_handle.get(&(kind, handle)).copied()
    }

    /// Notes a call of a waiter that has these objects.
    pub(crate) fn begin_use(&mut self, ids: &[u64]) {
        for id in ids {
            *self.used.entry(*id).or_default() += 1;
        }
    }

    /// Notes that the call is over.
    pub(crate) fn end_use(&mut self, ids: &[u64]) {
        for id in ids {
            match self.used.get_mut(id) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    self.used.remove(id);
                }
            }
        }
    }

    /// Begins the end of an object: no call may begin with it, or with what ends with it, until
    /// [`end_over`](Self::end_over).
    ///
    /// # Errors
    ///
    /// The driver's code for an object that isn't there, if a waiter's call has it or it ends
    /// already.
    pub(crate) fn begin_end(&mut self, kind: Kind, id: u64) -> Result<(), u32> {
        if self.used.keys().any(|used| self.is_part(*used, id, MAX_DEPTH)) {
            return Err(unknown(kind));
        }
        if self.ending.insert(id) { Ok(()) } else { Err(unknown(kind)) }
    }

    /// Notes that the end is over, or was refused.
    pub(crate) fn end_over(&mut self, id: u64) {
        self.ending.remove(&id);
    }

    /// Names an object by a number that the client has chosen.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if the number is in use or can't be.
    pub(crate) fn insert(
        &mut self,
        kind: Kind,
        id: u64,
        handle: usize,
        parent: u64,
    ) -> Result<(), u32> {
        if id < FIRST || id & OWN != 0 || self.by_id.contains_key(&id) {
            return Err(INVALID_VALUE);
        }
        self.by_id.insert(id, Entry::new(kind, handle, parent));
        self.by_handle.insert((kind, handle), id);
        Ok(())
    }

    /// Returns the number of an object, which gets the client's if it has none.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`insert`](Self::insert).
    pub(crate) fn name_or(
        &mut self,
        kind: Kind,
        handle: usize,
        id: u64,
        parent: u64,
    ) -> Result<u64, u32> {
        if let Some(&known) = self.by_handle.get(&(kind, handle)) {
            return Ok(known);
        }
        self.insert(kind, id, handle, parent).map(|()| id).inspect(|id| self.named = *id)
    }

    /// Returns the number of an object, which gets one if it has none. Null is zero.
    pub(crate) fn name(&mut self, kind: Kind, handle: usize, parent: u64) -> u64 {
        if handle == 0 {
            return 0;
        }
        if let Some(&id) = self.by_handle.get(&(kind, handle)) {
            return id;
        }
        let forced = self.forced.take().filter(|id| id & OWN != 0 && !self.by_id.contains_key(id));
        let id = forced.unwrap_or_else(|| self.own_number());
        self.named = id;
        self.by_id.insert(id, Entry::new(kind, handle, parent));
        self.by_handle.insert((kind, handle), id);
        id
    }

    /// Returns the next number of this end's that names nothing.
    fn own_number(&mut self) -> u64 {
        loop {
            self.next += 1;
            let id = OWN | (self.next << 4);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Returns whether the last object that got a number is this one, once.
    pub(crate) fn take_named(&mut self, id: u64) -> bool {
        let is_it = self.named == id && id != 0;
        self.named = if is_it { 0 } else { self.named };
        is_it
    }

    /// Has the next object without a number get this one, if this end chooses such numbers.
    pub(crate) fn force(&mut self, id: Option<u64>) {
        self.forced = id;
    }

    /// Returns the count of the numbers that this end has chosen.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Goes on from another count.
    pub(crate) fn set_next(&mut self, next: u64) {
        self.next = next;
    }

    /// Returns whether a number names an object.
    pub(crate) fn is_live(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// An object ends with another one as well, besides the one that it was named with.
    pub(crate) fn also_ends_with(&mut self, id: u64, parent: u64) {
        if let Some(entry) = self.by_id.get_mut(&id).filter(|entry| entry.parents[0] != parent) {
            entry.parents[1] = parent;
        }
    }

    /// Returns the library that a kernel, or a function of one, is of.
    pub(crate) fn library_of(&self, id: u64) -> Option<u64> {
        let is_library =
            |id: &u64| self.by_id.get(id).is_some_and(|entry| entry.kind == Kind::Library);
        self.by_id.get(&id)?.parents.into_iter().find(is_library)
    }

    /// Returns the context that a stream is of.
    pub(crate) fn context_of(&self, stream: u64) -> Option<u64> {
        let entry = self.by_id.get(&stream).filter(|entry| entry.kind == Kind::Stream)?;
        Some(entry.parents[0])
    }

    /// Returns whether a call is about to end an object.
    pub(crate) fn is_ending(&self, id: u64) -> bool {
        self.ending.contains(&id)
    }

    /// Returns the graph that a node is of.
    pub(crate) fn graph_of(&self, id: u64) -> Option<u64> {
        let entry = self.by_id.get(&id).filter(|entry| entry.kind == Kind::Node)?;
        Some(entry.parents[0])
    }

    /// Returns the objects of a kind, with those that they end with.
    pub(crate) fn children(&self, kind: Kind) -> Vec<(u64, u64)> {
        let of = self.by_id.iter().filter(|(_, entry)| entry.kind == kind);
        let mut all: Vec<_> = of.map(|(id, entry)| (*id, entry.parents[0])).collect();
        all.sort_unstable();
        all
    }

    /// Returns the objects of a kind, with the driver's handles.
    pub(crate) fn all(&self, kind: Kind) -> Vec<(u64, usize)> {
        let of = self.by_id.iter().filter(|(_, entry)| entry.kind == kind);
        let mut all: Vec<_> = of.map(|(id, entry)| (*id, entry.handle)).collect();
        all.sort_unstable();
        all
    }

    /// Forgets an object, and all that ends with it. Returns the numbers of all of them.
    pub(crate) fn remove(&mut self, id: u64) -> Vec<u64> {
        let Some(entry) = self.by_id.remove(&id) else { return Vec::new() };
        let mut ended = vec![id];
        let place = (entry.kind, entry.handle);
        if self.by_handle.get(&place) == Some(&id) {
            self.by_handle.remove(&place);
        }
        if matches!(entry.kind, Kind::Context | Kind::Module | Kind::Library | Kind::Graph) {
            ended.extend(self.remove_children(id));
        }
        ended
    }

    /// Forgets all that ends with an object. Returns the numbers.
    pub(crate) fn remove_children(&mut self, id: u64) -> Vec<u64> {
        if id == 0 {
            return Vec::new(); // no object
        }
        let of = |(child, entry): (&u64, &Entry)| entry.parents.contains(&id).then_some(*child);
        let children: Vec<u64> = self.by_id.iter().filter_map(of).collect();
        children.into_iter().flat_map(|child| self.remove(child)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_another_kind_names_nothing() {
        let mut handles = Handles::default();
        handles.insert(Kind::Stream, 32, 0x1000, 0).unwrap();
        assert_eq!(handles.get(Kind::Stream, 32), Ok(0x1000));
        assert_eq!(handles.get(Kind::Event, 32), Err(INVALID_HANDLE));
        assert_eq!(handles.get(Kind::Context, 7), Err(INVALID_CONTEXT));
        assert_eq!(handles.get(Kind::Graph, 7), Err(INVALID_VALUE));
        assert_eq!(handles.get(Kind::Stream, 0), Ok(0));
    }

    #[test]
    fn object_of_a_call_does_not_end_and_one_that_ends_is_not_there() {
        let mut handles = Handles::default();
        handles.insert(Kind::Context, 16, 1, 0).unwrap();
        handles.insert(Kind::Stream, 32, 2, 16).unwrap();
        handles.begin_use(&[32, 32]);
        handles.end_use(&[32]);
        assert_eq!(handles.begin_end(Kind::Context, 16), Err(INVALID_CONTEXT));
        handles.end_use(&[32]);
        handles.begin_end(Kind::Context, 16).unwrap();
        assert_eq!(handles.get(Kind::Stream, 32), Err(INVALID_HANDLE));
        assert_eq!(handles.begin_end(Kind::Context, 16), Err(INVALID_CONTEXT));
        handles.end_over(16);
        assert_eq!(handles.get(Kind::Stream, 32), Ok(2));
    }

    #[test]
    fn number_in_use_or_of_this_end_is_refused() {
        let mut handles = Handles::default();
        handles.insert(Kind::Event, 32, 1, 0).unwrap();
        for id in [0, 15, 32, OWN | 32] {
            assert_eq!(handles.insert(Kind::Event, id, 2, 0), Err(INVALID_VALUE), "{id}");
        }
    }

    #[test]
    fn object_keeps_its_number_until_it_ends() {
        let mut handles = Handles::default();
        let id = handles.name(Kind::Context, 0x1000, 0);
        assert!(id < 1 << 47, "it could be an address");
        assert_eq!(handles.name(Kind::Context, 0x1000, 0), id);
        handles.remove(id);
        assert_ne!(handles.name(Kind::Context, 0x1000, 0), id);
        assert_eq!(handles.name(Kind::Context, 0, 0), 0);
    }

    /// Another server says at which count this end goes on.
    #[test]
    fn number_that_names_an_object_is_not_given_again() {
        let mut handles = Handles::default();
        let ids = [1, 2, 3].map(|handle| handles.name(Kind::Function, handle, 0));
        handles.set_next(0);
        let other = handles.name(Kind::Function, 4, 0);
        assert!(!ids.contains(&other), "{other:#x}");
        assert_eq!(ids.map(|id| handles.get(Kind::Function, id)), [Ok(1), Ok(2), Ok(3)]);
    }

    #[test]
    fn layout_ends_with_its_function() {
        let mut handles = Handles::default();
        let layout = |handles: &Handles| handles.function(48).unwrap().1.map(|all| all.to_vec());
        handles.insert(Kind::Module, 32, 2, 0).unwrap();
        handles.insert(Kind::Function, 48, 3, 32).unwrap();
        assert_eq!(layout(&handles), None);
        handles.set_layout(48, Some(vec![(0, 8), (8, 4)]));
        assert_eq!(layout(&handles), Some(vec![(0, 8), (8, 4)]));
        handles.remove(32);
        assert_eq!(handles.function(48), Err(INVALID_HANDLE));
        handles.set_layout(48, Some(vec![(0, 8)]));
        handles.insert(Kind::Function, 48, 3, 0).unwrap();
        assert_eq!(layout(&handles), None, "its module was another one");
    }

    #[test]
    fn objects_end_with_their_module_and_context() {
        let mut handles = Handles::default();
        handles.insert(Kind::Context, 16, 1, 0).unwrap();
        handles.insert(Kind::Module, 32, 2, 16).unwrap();
        handles.insert(Kind::Function, 48, 3, 32).unwrap();
        handles.insert(Kind::Stream, 64, 4, 16).unwrap();
        handles.remove(32);
        assert_eq!(handles.get(Kind::Function, 48), Err(INVALID_HANDLE));
        assert_eq!(handles.get(Kind::Stream, 64), Ok(4));
        handles.remove(16);
        assert_eq!(handles.get(Kind::Stream, 64), Err(INVALID_HANDLE));
    }
}
