//! When a real-time guest holds its peers: from its first launch until it is known to be idle.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

/// A real-time guest's launches, and whether its peers are held because of them.
///
/// A launch counts `pulse` up and then looks at `busy`; a release clears `busy` and then looks at `pulse`. So one of
/// the two sees the other: no launch is left with its peers open.
#[derive(Debug)]
#[repr(C)]
pub struct Activity {
    /// Launches so far. Written by launching threads.
    pulse: AtomicU64,
    /// 1 while peers are held. Written under the lock that guards the list of peers.
    busy: AtomicU32,
    /// How often it went from idle to busy. Written under the same lock.
    starts: AtomicU32,
}

impl Default for Activity {
    fn default() -> Self {
        Self { pulse: AtomicU64::new(0), busy: AtomicU32::new(0), starts: AtomicU32::new(0) }
    }
}

impl Activity {
    /// Counts a launch that is about to be made. True: the peers aren't held, so call [`hold`](Self::hold) first.
    #[must_use]
    pub fn launch(&self) -> bool {
        self.pulse.fetch_add(1, Ordering::SeqCst);
        self.busy.load(Ordering::SeqCst) == 0
    }

    /// Holds the peers. The caller has the lock of the list of peers, and `hold_all` sets the bit in each.
    pub fn hold(&self, hold_all: impl FnOnce()) {
        if self.busy.swap(1, Ordering::SeqCst) == 0 {
            self.starts.fetch_add(1, Ordering::Relaxed);
        }
        hold_all();
    }

    /// Releases the peers if nothing was launched since [`pulse`](Self::pulse) was `seen`, after which all work has
    /// ended. The caller has the lock. True: released, and `release_all` was called.
    pub fn release(&self, seen: u64, release_all: impl FnOnce()) -> bool {
        if self.busy.load(Ordering::SeqCst) == 0 {
            return false; // or the 1 below would say held where no peer is
        }
        self.busy.store(0, Ordering::SeqCst);
        if self.pulse.load(Ordering::SeqCst) != seen {
            self.busy.store(1, Ordering::SeqCst);
            return false;
        }
        release_all();
        true
    }

    /// Launches so far.
    pub fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::SeqCst)
    }

    /// Whether peers are held. Out of date when it returns, unless the caller has the lock.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) != 0
    }

    /// How often it went from idle to busy.
    pub fn starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn peers_are_released_only_by_who_knows_of_the_last_launch() {
        let activity = Activity::default();
        assert!(activity.launch(), "the first launch holds");
        activity.hold(|| {});
        let seen = activity.pulse();
        assert!(!activity.launch(), "held already");
        assert!(!activity.release(seen, || panic!("a launch came since")));
        assert!(activity.is_busy());
        assert!(activity.release(activity.pulse(), || {}));
        assert!(activity.launch(), "held anew");
        assert_eq!(activity.starts(), 1);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::super::Holders;
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    #[derive(Default)]
    struct Guests {
        activity: Activity,
        peer: Holders,
        lock: Mutex<()>,
    }

    impl Guests {
        fn launch(&self) {
            if self.activity.launch() {
                let _lock = self.lock.lock().unwrap();
                self.activity.hold(|| self.peer.hold(3));
            }
        }

        fn release(&self, seen: u64) -> bool {
            let _lock = self.lock.lock().unwrap();
            self.activity.release(seen, || self.peer.release(3))
        }
    }

    #[test]
    fn a_launch_that_a_release_does_not_know_of_stays_held() {
        loom::model(|| {
            let guests = Arc::new(Guests::default());
            guests.launch();
            let seen = guests.activity.pulse(); // and all has ended
            let other = guests.clone();
            let launching = thread::spawn(move || {
                other.launch();
                assert!(other.peer.has(3), "the launch starts now");
            });
            guests.release(seen);
            launching.join().unwrap();
            assert!(guests.peer.has(3) && guests.activity.is_busy());
        });
    }

    #[test]
    fn two_launches_and_a_release_of_the_first() {
        loom::model(|| {
            let guests = Arc::new(Guests::default());
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let other = guests.clone();
                    thread::spawn(move || {
                        other.launch();
                        other.activity.pulse()
                    })
                })
                .collect();
            let is_released = guests.release(1);
            for other in others {
                other.join().unwrap();
            }
            // Only the launch that came after the release's look can have closed it again.
            assert!(guests.peer.has(3), "released {is_released}");
        });
    }
}
