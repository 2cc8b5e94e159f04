//! List that grows at its front, whose readers take no lock.

use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};

/// List of values that stay for the life of the process.
pub(crate) struct List<T: 'static>(AtomicPtr<Node<T>>);

struct Node<T: 'static> {
    value: T,
    next: Option<&'static Node<T>>,
}

impl<T> List<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Adds a value. Callers must not overlap, or a value is lost.
    pub(crate) fn push(&self, value: T) -> &'static T {
        let node = Box::leak(Box::new(Node { value, next: self.first() }));
        self.0.store(node, Ordering::Release);
        &node.value
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        std::iter::successors(self.first(), |node| node.next).map(|node| &node.value)
    }

    fn first(&self) -> Option<&'static Node<T>> {
        // SAFETY: null, or leaked by `push`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}
