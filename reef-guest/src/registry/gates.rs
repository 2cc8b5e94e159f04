//! The gates of a device's best-effort guests, as the daemon itself closes them.

use crate::hold::holders::Holders;
use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use arc_swap::ArcSwap;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Holds the best-effort guests of one device in the daemon's name.
///
/// Holding waits for nothing: the list of pages is replaced as a whole when a guest joins or leaves. Whoever changes
/// one of the two, the list or whether it is held, looks at the other afterwards; so a guest that joins while it is
/// held is held, whichever comes first.
#[derive(Debug, Default)]
pub struct Gates {
    pages: ArcSwap<Vec<Arc<Mapping>>>,
    is_held: AtomicBool,
    /// Whether the device has real-time guests; nobody who holds looks at it.
    has_real_time: Mutex<bool>,
    real_time: Condvar,
}

impl Gates {
    /// Closes all gates, and those of guests that join later, or opens them as far as it is the daemon that holds
    /// them. Any thread may call it at any time; it doesn't block. Guests of a job that has some on two devices which
    /// the daemon both holds go on when it releases one: a daemon has one device.
    pub fn hold(&self, is_held: bool) {
        if self.is_held.swap(is_held, Ordering::SeqCst) != is_held {
            fence(Ordering::SeqCst);
            self.settle();
        }
    }

    /// Whether the daemon holds them. May be out of date when it returns.
    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// Sleeps until the device has real-time guests, for no longer than `time`: whether it has.
    pub fn wait_for_real_time(&self, time: Duration) -> bool {
        let has_none = |has: &mut bool| !*has;
        match self.real_time.wait_timeout_while(self.has_real_time(), time, has_none) {
            Ok((has, _)) => *has,
            Err(_) => false, // nothing panics while it has this lock
        }
    }

    /// Ends a [wait](Self::wait_for_real_time) if there are any.
    pub(super) fn set_real_time(&self, has: bool) {
        *self.has_real_time() = has;
        self.real_time.notify_all();
    }

    fn has_real_time(&self) -> MutexGuard<'_, bool> {
        self.has_real_time.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// These are the device's best-effort guests from now on.
    pub(super) fn set_pages(&self, pages: Vec<Arc<Mapping>>) {
        self.pages.store(Arc::new(pages));
        fence(Ordering::SeqCst);
        if self.is_held() {
            self.settle(); // else nobody has held those that are new
        }
    }

    /// Nobody needs to be remembered.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_held() && self.pages.load().is_empty()
    }

    /// Brings all pages to what is wanted, until that didn't change meanwhile: whoever was late to apply an old wish
    /// applies the new one.
    fn settle(&self) {
        loop {
            let (is_held, now) = (self.is_held(), Time::now());
            for page in self.pages.load().iter() {
                match is_held {
                    true => page.hold(Holders::DAEMON, now),
                    false => page.release(Holders::DAEMON, now),
                }
            }
            if self.is_held() == is_held {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Class, Identity, PageFile};

    fn page() -> Arc<Mapping> {
        let who = Identity { guest: 1, class: Class::BestEffort, holder: 0, pid: 1 };
        Arc::new(PageFile::create(&who).unwrap().1)
    }

    /// With a list that isn't looked at again after a hold, or a hold that isn't looked at after a change of the
    /// list, this fails within a few hundred rounds.
    #[test]
    fn a_page_that_comes_while_others_hold_and_release_ends_as_they_do() {
        let gates = Gates::default();
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
}
