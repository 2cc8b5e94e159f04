//! Shared state of gates: loom replaces it in its models.

#[cfg(not(loom))]
pub(super) use arc_swap::ArcSwap;
#[cfg(loom)]
pub(super) use model::ArcSwap;

#[cfg(loom)]
pub(super) use loom::sync::Arc;
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::Arc;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Model of `arc_swap`: each operation is one step.
#[cfg(loom)]
mod model {
    use loom::sync::{Arc, Mutex};

    #[derive(Debug)]
    pub(crate) struct ArcSwap<T>(Mutex<Arc<T>>);

    impl<T: Default> Default for ArcSwap<T> {
        fn default() -> Self {
            Self(Mutex::new(Arc::new(T::default())))
        }
    }

    impl<T> ArcSwap<T> {
        pub(crate) fn load(&self) -> Arc<T> {
            self.0.lock().unwrap().clone()
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            self.load()
        }

        pub(crate) fn swap(&self, new: Arc<T>) -> Arc<T> {
            std::mem::replace(&mut self.0.lock().unwrap(), new)
        }
    }
}
