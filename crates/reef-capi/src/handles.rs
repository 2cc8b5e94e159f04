//! Handles: what C holds instead of pointers.
//!
//! A handle is a number that is never used twice, and that is not an address. So a handle that was
//! freed, is of another kind or was made up is found out, whatever C does with it. A call keeps its
//! object alive, so another thread may free the handle meanwhile. A forked child has no threads of
//! its parent, so the parent's handles are refused there.

use crate::fault::{Fault, Result};
use crate::status::REEF_HANDLE;
use parking_lot::RwLock;
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// Kind of object behind a handle.
pub(crate) trait Kind: Send + Sync + 'static {
    /// Name for error messages.
    const NAME: &'static str;
}

impl Kind for reef_any::Device {
    const NAME: &'static str = "device";
}

impl Kind for reef_any::Dispatcher {
    const NAME: &'static str = "dispatcher";
}

impl Kind for reef_any::Client {
    const NAME: &'static str = "client";
}

impl Kind for reef_any::Network {
    const NAME: &'static str = "network";
}

impl Kind for reef_any::Request {
    const NAME: &'static str = "request";
}

/// An object and the name of its kind.
struct Open {
    kind: &'static str,
    /// Process that made it.
    process: u32,
    object: Arc<dyn Any + Send + Sync>,
}

static OPEN: LazyLock<RwLock<HashMap<usize, Open>>> = LazyLock::new(Default::default);
/// Number of handles made so far.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Distance of handles: far from null and from any aligned address, in case C takes one for a
/// pointer.
const STEP: usize = 16;
const FIRST: usize = 5;

/// A handle of `object`.
pub(crate) fn open<T: Kind>(object: T) -> Result<usize> {
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let handle = count.checked_mul(STEP).and_then(|at| at.checked_add(STEP + FIRST));
    let handle = handle.ok_or_else(|| Fault::busy("all handles have been used up"))?;
    let (process, object) = (std::process::id(), Arc::new(object));
    OPEN.write().insert(handle, Open { kind: T::NAME, process, object });
    Ok(handle)
}

/// The object behind `handle`.
pub(crate) fn get<T: Kind>(handle: usize) -> Result<Arc<T>> {
    let open = OPEN.read();
    let found = open.get(&handle).map(|open| (open.kind, open.process, open.object.clone()));
    drop(open);
    let (kind, process, object) = found.ok_or_else(|| unknown::<T>(handle))?;
    if process != std::process::id() {
        return Err(forked::<T>(handle, process));
    }
    object.downcast().map_err(|_| other::<T>(handle, kind))
}

/// The object behind `handle`, which is none any more.
pub(crate) fn close<T: Kind>(handle: usize) -> Result<Arc<T>> {
    let object = get::<T>(handle)?;
    let was_open = OPEN.write().remove(&handle);
    // Another thread may have closed it since `get`.
    was_open.map(|_| object).ok_or_else(|| unknown::<T>(handle))
}

/// Handles that are open.
pub(crate) fn count() -> usize {
    OPEN.read().len()
}

fn unknown<T: Kind>(handle: usize) -> Fault {
    let text = match handle {
        0 => format!("no {}: the handle is null", T::NAME),
        _ => format!("no {} {handle:#x}: it was freed, or is not a handle", T::NAME),
    };
    Fault::new(REEF_HANDLE, text)
}

fn forked<T: Kind>(handle: usize, process: u32) -> Fault {
    let text = format!(
        "no {} {handle:#x}: it was opened in process {process}, of which this one is a fork",
        T::NAME
    );
    Fault::new(REEF_HANDLE, text)
}

fn other<T: Kind>(handle: usize, kind: &str) -> Fault {
    Fault::new(REEF_HANDLE, format!("no {} {handle:#x}: it is a {kind}", T::NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Cat;
    #[derive(Debug)]
    struct Dog;
    impl Kind for Cat {
        const NAME: &'static str = "cat";
    }
    impl Kind for Dog {
        const NAME: &'static str = "dog";
    }

    #[test]
    fn a_handle_is_good_once_and_for_its_kind() {
        let cat = open(Cat).unwrap();
        assert!(get::<Cat>(cat).is_ok());
        assert_eq!(get::<Dog>(cat).unwrap_err().text, format!("no dog {cat:#x}: it is a cat"));
        assert_eq!(close::<Dog>(cat).unwrap_err().status, REEF_HANDLE);
        assert!(close::<Cat>(cat).is_ok());
        let again = close::<Cat>(cat).unwrap_err();
        assert_eq!(again.text, format!("no cat {cat:#x}: it was freed, or is not a handle"));
        assert_ne!(open(Cat).unwrap(), cat);
        assert_eq!(get::<Cat>(0).unwrap_err().text, "no cat: the handle is null");
    }

    #[test]
    fn one_of_many_threads_closes_a_handle() {
        let cat = open(Cat).unwrap();
        let closes = || usize::from(close::<Cat>(cat).is_ok());
        let closed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(closes)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(closed, 1);
    }
}
