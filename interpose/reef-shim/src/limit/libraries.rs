//! Global variables of libraries, of which each context has its own.

use super::charges::Charge;
use super::device::Limited;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Library, with its charges.
#[derive(Debug)]
pub(crate) struct Library {
    /// Bytes in each context.
    bytes: u64,
    /// Charges of contexts. One without a context is that of a device's next one.
    copies: Vec<Charge>,
}

static LIBRARIES: LazyLock<Mutex<HashMap<usize, Library>>> = LazyLock::new(Mutex::default);

fn libraries() -> MutexGuard<'static, HashMap<usize, Library>> {
    LIBRARIES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Library {
    /// Creates the record of a library, whose bytes are reserved in these contexts.
    pub(crate) fn new(bytes: u64, contexts: &[(&'static Limited, usize)]) -> Self {
        let copies = contexts.iter().map(|(device, context)| Charge::new(device, bytes, *context));
        Self { bytes, copies: copies.collect() }
    }

    /// Returns the charge for a device's next context.
    fn next(&mut self, ordinal: i32) -> Option<&mut Charge> {
        self.copies.iter_mut().find(|copy| copy.context == 0 && copy.device.ordinal == ordinal)
    }

    /// Gives its charges back.
    pub(crate) fn end(self) {
        self.copies.into_iter().for_each(Charge::end);
    }
}

pub(crate) fn note(handle: usize, library: Library) {
    let former = libraries().insert(handle, library);
    former.into_iter().for_each(Library::end); // unseen
}

/// Removes a library that is about to end: afterwards another one may get its handle.
pub(crate) fn take(handle: usize) -> Option<Library> {
    libraries().remove(&handle)
}

/// Returns the bytes that a new context of a device takes for all libraries.
pub(crate) fn missing(ordinal: i32) -> u64 {
    let mut libraries = libraries();
    let lack = libraries.values_mut().filter_map(|of| of.next(ordinal).is_none().then_some(of));
    lack.fold(0, |sum: u64, of| sum.saturating_add(of.bytes))
}

/// Notes a new context, for which `reserved` bytes are reserved.
pub(crate) fn enter(device: &'static Limited, context: usize, reserved: u64) {
    let mut needed: u64 = 0;
    let mut libraries = libraries();
    let has = |of: &Library| of.copies.iter().any(|copy| copy.context == context);
    for library in libraries.values_mut().filter(|library| !has(library)) {
        match library.next(device.ordinal) {
            Some(next) => next.context = context,
            None => {
                library.copies.push(Charge::new(device, library.bytes, context));
                needed = needed.saturating_add(library.bytes);
            }
        }
    }
    drop(libraries);
    device.add(needed.saturating_sub(reserved)); // libraries that were loaded meanwhile
    device.give_back(reserved.saturating_sub(needed));
}

/// Removes what libraries have in a context that is about to end: afterwards another one may get
/// its handle. Returns it with the libraries' handles.
pub(crate) fn take_context(context: usize) -> Vec<(usize, Charge)> {
    let mut taken = Vec::new();
    for (handle, library) in libraries().iter_mut() {
        let its = library.copies.extract_if(.., |copy| copy.context == context);
        taken.extend(its.map(|copy| (*handle, copy)));
    }
    taken
}

/// Gives back what libraries had in a context that has ended, or notes it again if that has not. A
/// library may have ended meanwhile.
pub(crate) fn end_context(taken: Vec<(usize, Charge)>, has_ended: bool) {
    let mut gone = Vec::new();
    let mut libraries = libraries();
    for (handle, copy) in taken {
        match libraries.get_mut(&handle) {
            Some(library) if !has_ended => library.copies.push(copy),
            _ => gone.push(copy),
        }
    }
    drop(libraries);
    gone.into_iter().for_each(Charge::end);
}
