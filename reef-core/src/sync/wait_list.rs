//! List of those that wait for what a thread may never bring, because it hangs.
//!
//! Waiting goes by other means, which are quicker. This is the last resort: a waiter is in the list
//! while it waits, and when the wait is hopeless all in it are told. A waiter that comes after that
//! is refused. Adding and ending take the same lock, so one of the two sees the other.

use crate::sync::primitives::{Arc, AtomicBool, Mutex, Ordering};

/// Waiters of one kind.
#[derive(Debug)]
pub(crate) struct WaitList<T> {
    /// Nothing more comes. Written once.
    is_over: AtomicBool,
    waiting: Mutex<Vec<Arc<T>>>,
}

impl<T> Default for WaitList<T> {
    fn default() -> Self {
        Self { is_over: AtomicBool::new(false), waiting: Mutex::new(Vec::new()) }
    }
}

impl<T> WaitList<T> {
    /// Adds a waiter, which has to [leave](Self::remove). It must check whether the wait
    /// [is over](Self::is_over) after this.
    pub(crate) fn add(&self, waiter: &Arc<T>) {
        self.waiting.lock().push(waiter.clone());
    }

    /// Removes a waiter that was added, once.
    pub(crate) fn remove(&self, waiter: &Arc<T>) {
        let mut waiting = self.waiting.lock();
        if let Some(at) = waiting.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            waiting.swap_remove(at);
        }
    }

    /// Returns whether nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Nothing more comes: tells all that wait by `tell`.
    pub(crate) fn end(&self, tell: impl Fn(&T)) {
        self.is_over.store(true, Ordering::Release);
        let waiting = self.waiting.lock().clone();
        waiting.iter().for_each(|waiter| tell(waiter));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn end_tells_those_that_wait() {
        let list = WaitList::default();
        let waiters = [1, 2, 3, 4].map(Arc::new);
        waiters.iter().for_each(|waiter| list.add(waiter));
        list.add(&waiters[3]); // twice, as from two threads
        [1, 3].iter().for_each(|&at: &usize| list.remove(&waiters[at]));
        let told = RefCell::new(Vec::new());
        assert!(!list.is_over());
        list.end(|waiter| told.borrow_mut().push(*waiter));
        told.borrow_mut().sort();
        assert_eq!((told.take(), list.is_over()), (vec![1, 3, 4], true));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::thread;

    /// A waiter comes while the wait ends; `looks`: it looks after it was added, and not before.
    fn wait_that_ends(checks: bool) {
        loom::model(move || {
            let scene = Arc::new((WaitList::default(), Arc::new(AtomicBool::new(false))));
            let waiter = thread::spawn({
                let scene = scene.clone();
                move || {
                    let (list, is_told) = &*scene;
                    let was_over = list.is_over();
                    list.add(is_told);
                    if checks { list.is_over() } else { was_over }
                }
            });
            let (list, is_told) = &*scene;
            list.end(|told| told.store(true, Ordering::Relaxed));
            let sees = waiter.join().unwrap();
            assert!(sees || is_told.load(Ordering::Relaxed), "it sleeps for ever");
            list.remove(is_told);
        });
    }

    #[test]
    fn waiter_is_told_or_sees_the_end() {
        wait_that_ends(true);
    }

    #[test]
    #[should_panic = "it sleeps for ever"]
    fn waiter_that_checks_before_it_is_added_sleeps_for_ever() {
        wait_that_ends(false);
    }
}
