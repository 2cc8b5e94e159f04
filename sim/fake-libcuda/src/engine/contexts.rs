//! The world's contexts: how they begin and end, and what goes with them.

use super::context::{CONTEXT_BYTES, Context, Kind, primary};
use super::device_memory::give_back;
use super::world::{Stream, World};

impl World {
    /// Adds a reference to a device's primary context, which begins if it is the first.
    pub(crate) fn retain(&mut self, device: usize) -> usize {
        let handle = primary(device);
        if !self.contexts.contains_key(&handle) {
            self.add_context(handle, device, Kind::Primary);
            self.contexts.get_mut(&handle).expect("was added").references = 0;
        }
        self.contexts.get_mut(&handle).expect("is there").references += 1;
        handle
    }

    pub(crate) fn create_context(&mut self, device: usize, kind: Kind) -> usize {
        let handle = self.reused();
        self.add_context(handle, device, kind);
        handle
    }

    fn add_context(&mut self, handle: usize, device: usize, kind: Kind) {
        self.last_context += 1;
        let id = self.last_context;
        let owner = match kind {
            Kind::Green(_) => self.contexts.get(&primary(device)).map_or(id, |primary| primary.id),
            _ => id,
        };
        self.contexts.insert(handle, Context { id, device, kind, references: 1, owner });
    }

    /// Takes a reference away. Some: it was the last one, and the context's number is this.
    pub(crate) fn release(&mut self, handle: usize) -> Option<u64> {
        let context = self.contexts.get_mut(&handle)?;
        context.references = context.references.saturating_sub(1);
        let is_over = context.references == 0;
        is_over.then(|| self.end_context(handle)).flatten()
    }

    /// Ends a context: its handle means nothing from now on. What is in its streams goes on.
    pub(crate) fn end_context(&mut self, handle: usize) -> Option<u64> {
        let context = self.contexts.remove(&handle)?;
        if context.kind == Kind::Created {
            give_back(CONTEXT_BYTES);
        }
        let copies = self.library_copies.extract_if(|(_, of), _| *of == handle);
        copies.for_each(|(_, bytes)| give_back(bytes));
        if context.kind != Kind::Primary {
            self.free.push(handle);
        }
        Some(context.id)
    }

    /// Ends what a context had, once its streams have run.
    pub(crate) fn drop_context(&mut self, context: u64) {
        let dead: Vec<_> = self.streams_of(context).collect();
        dead.iter().for_each(|name| drop(self.streams.remove(name)));
        let free = self.handles.extract_if(|_, name| dead.contains(name)).map(|(handle, _)| handle);
        self.free.extend(free.collect::<Vec<_>>());
        self.registered.retain(|_, memory| memory.owner != context);
        let its = self.asked.iter().filter(|(_, (_, owner))| *owner == context);
        let its: Vec<usize> = its.map(|(at, _)| *at).collect();
        // Its bytes are free. They stay readable here, for tests that look at them afterwards: no
        // new block gets their addresses.
        let spare = self.shared_blocks.spare.len();
        for at in its {
            self.asked.get_mut(&at).into_iter().for_each(|(_, owner)| *owner = 0);
            self.end_taken(at).into_iter().for_each(give_back);
            self.take_out(at, &|_| true); // if it is an array
        }
        self.shared_blocks.spare.truncate(spare);
    }

    /// Invalidates the captures of a green context's streams, which can do nothing more but run
    /// what they have.
    pub(crate) fn detach(&mut self, context: u64) {
        let names: Vec<_> = self.streams_of(context).collect();
        for name in names {
            let stream = self.streams.get_mut(&name).expect("was found");
            stream.is_detached = true;
            if let Some((capture, _)) = stream.capture.clone() {
                self.captures.get_mut(&capture).into_iter().for_each(|it| it.is_invalid = true);
            }
        }
    }

    fn streams_of(&self, context: u64) -> impl Iterator<Item = u64> {
        let its = move |(_, stream): &(&u64, &Stream)| stream.context == context;
        self.streams.iter().filter(its).map(|(name, _)| *name)
    }

    /// The handle of a context by its number.
    pub(crate) fn handle_of(&self, id: u64) -> Option<usize> {
        self.contexts.iter().find(|(_, context)| context.id == id).map(|(handle, _)| *handle)
    }
}
