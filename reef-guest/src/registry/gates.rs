//! The gates of best-effort guests, as one holder closes them.

use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use arc_swap::ArcSwap;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Holds best-effort guests in one holder's name: the daemon's for a device, or a real-time guest's
/// for its peers.
///
/// Holding waits for nothing: the list of pages is replaced as a whole when a guest joins or
/// leaves. Whoever changes one of the two, the list or whether it is held, looks at the other
/// afterwards; so a guest that joins while it is held is held, whichever comes first.
#[derive(Debug)]
pub struct Gates {
    /// Whose bit it is.
    holder: u32,
    pages: ArcSwap<Pages>,
    /// [`OPEN`], [`HELD`] or, for good, [`OVER`].
    state: AtomicU32,
    /// Whether the device has real-time guests; nobody who holds looks at it.
    has_real_time: Mutex<bool>,
    real_time: Condvar,
}

type Pages = Vec<Arc<Mapping>>;

const OPEN: u32 = 0;
const HELD: u32 = 1;
const OVER: u32 = 2;

impl Gates {
    pub(super) fn of(holder: u32) -> Self {
        let (pages, state) = (ArcSwap::default(), AtomicU32::new(OPEN));
        Self { holder, pages, state, has_real_time: Mutex::new(false), real_time: Condvar::new() }
    }

    /// Closes all gates, and those of guests that join later, or opens them as far as it is this
    /// holder that holds them. Any thread may call it at any time; it doesn't block. Guests of a
    /// job that has some on two devices which the daemon both holds go on when it releases one: a
    /// daemon has one device.
    pub fn hold(&self, is_held: bool) {
        let wanted = if is_held { HELD } else { OPEN };
        let change = |state| (state != wanted && state != OVER).then_some(wanted);
        if self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok() {
            fence(Ordering::SeqCst);
            self.settle();
        }
    }

    /// Opens all gates for good: nobody holds in this name any more, whoever tries.
    pub(super) fn end(&self) {
        self.state.store(OVER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.settle();
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.state.load(Ordering::SeqCst) == OVER
    }

    /// Whether this holder holds them. May be out of date when it returns.
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::SeqCst) == HELD
    }

    /// Sleeps until the device has real-time guests, for no longer than `time`: whether it has.
    pub fn wait_for_real_time(&self, time: Duration) -> bool {
        let has_none = |has: &mut bool| !*has;
        match self.real_time.wait_timeout_while(self.has_real_time(), time, has_none) {
            Ok((has, _)) => *has,
            Err(_) => false, // nothing panics while it has this lock
        }
    }

    /// EndWatch a [wait](Self::wait_for_real_time) if there are any.
    pub(super) fn set_real_time(&self, has: bool) {
        *self.has_real_time() = has;
        self.real_time.notify_all();
    }

    fn has_real_time(&self) -> MutexGuard<'_, bool> {
        self.has_real_time.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// These are held with the holder's device from now on; others are released.
    pub(super) fn set_pages(&self, pages: Vec<Arc<Mapping>>) {
        let before = self.pages.swap(Arc::new(pages));
        fence(Ordering::SeqCst);
        if self.is_held() {
            self.settle(); // else nobody has held those that are new
        }
        self.release_gone(&before);
    }

    /// Nobody needs to be remembered.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_held() && self.pages.load().is_empty()
    }

    /// Brings all pages to what is wanted, until neither that nor the list changed meanwhile:
    /// whoever was late to apply an old request applies the new one.
    fn settle(&self) {
        loop {
            let (is_held, now, pages) = (self.is_held(), Time::now(), self.pages.load_full());
            for page in pages.iter() {
                match is_held {
                    true => page.hold(self.holder, now),
                    false => page.release(self.holder, now),
                }
            }
            fence(Ordering::SeqCst);
            let is_same_list = Arc::ptr_eq(&pages, &self.pages.load());
            if !is_same_list {
                self.release_gone(&pages);
            } else if self.is_held() == is_held {
                return;
            }
        }
    }

    /// Releases pages of an older list that aren't in the list any more.
    fn release_gone(&self, older: &Pages) {
        let (list, now) = (self.pages.load(), Time::now());
        let is_gone = |page: &&Arc<Mapping>| !list.iter().any(|it| Arc::ptr_eq(it, page));
        older.iter().filter(is_gone).for_each(|page| page.release(self.holder, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::holders::Holders;
    use crate::page::{Class, Identity, PageFile};

    fn page() -> Arc<Mapping> {
        let who = Identity { guest: 1, class: Class::BestEffort, holder: 0, pid: 1 };
        Arc::new(PageFile::create(&who).unwrap().1)
    }

    /// With a list that isn't looked at again after a hold, or a hold that isn't looked at after a
    /// change of the list, this fails within a few hundred rounds.
    #[test]
    fn a_page_that_comes_while_others_hold_and_release_ends_as_they_do() {
        let gates = Gates::of(Holders::DAEMON);
        for round in 0..2000 {
            let (first, second) = (page(), page());
            gates.set_pages(vec![first.clone()]);
            std::thread::scope(|scope| {
                scope.spawn(|| gates.hold(round % 2 == 0));
                scope.spawn(|| gates.set_pages(vec![first.clone(), second.clone()]));
            });
            for page in [&first, &second] {
                assert_eq!(page.holders.is_closed(), gates.is_held(), "round {round}");
            }
        }
    }

    /// With a release that trusts the list that it began with, this fails within a few thousand
    /// rounds.
    #[test]
    fn pages_that_leave_and_holders_that_end_are_open_whatever_comes_meanwhile() {
        for round in 0..4000 {
            let gates = Gates::of(3);
            let (stays, leaves) = (page(), page());
            gates.set_pages(vec![stays.clone(), leaves.clone()]);
            std::thread::scope(|scope| {
                scope.spawn(|| gates.hold(true));
                scope.spawn(|| gates.set_pages(vec![stays.clone()]));
            });
            assert!(stays.holders.is_closed() && !leaves.holders.is_closed(), "round {round}");
            gates.hold(false);
            std::thread::scope(|scope| {
                scope.spawn(|| gates.hold(true));
                scope.spawn(|| gates.end());
            });
            gates.hold(true);
            assert!(!stays.holders.is_closed() && gates.is_over(), "round {round}");
        }
    }
}
