//! Which device's page a context's launches stand behind.

use super::attach::attach;
use super::entries::{Context, add, find, lock, take_out};

/// The context of this name, attached when it is first seen. `None`: pass the call on.
pub(crate) fn context(name: usize) -> Option<Context> {
    if name == 0 {
        return None;
    }
    if let Some(known) = find(name) {
        return known.read();
    }
    let _lock = lock();
    if let Some(known) = find(name) {
        return known.read(); // another thread was faster
    }
    add(name, attach())?.read()
}

/// Forgets a context that is about to end, or all. Those that live are attached anew.
pub(crate) fn forget(name: Option<usize>) {
    let _lock = lock();
    take_out(name);
}
