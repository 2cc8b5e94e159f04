//! When a real-time guest holds its peers: from its first launch until it is known to be idle.
//!
//! The guest says so in its own page, and writes nowhere else; a relay of the daemon's closes its
//! peers' gates. The relay sleeps on the word itself (a futex), so that a launch wakes it within
//! microseconds.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing is known to be on the device.
const IDLE: u32 = 0;
/// Peers are to be held.
const BUSY: u32 = 1;
/// A release looks for launches that it doesn't know of; peers are still to be held.
const ENDING: u32 = 2;

/// A real-time guest's launches, and whether its peers are to be held because of them.
///
/// A launch counts `pulse` up and then looks at `busy`; a release writes `busy` and then looks at
/// `pulse`. So one of the two sees the other: no launch is left with its peers open.
#[derive(Debug)]
#[repr(C)]
pub struct Activity {
    /// Launches so far. Written by launching threads.
    pulse: AtomicU64,
    /// [`IDLE`], [`BUSY`] or [`ENDING`]; any other value counts as busy. Written by launching
    /// threads and one keeper.
    busy: AtomicU32,
    /// How often it went from idle to busy.
    starts: AtomicU32,
    /// Changes with what the device has done. Written by the keeper alone, while the guest is busy.
    beat: AtomicU64,
}

impl Default for Activity {
    fn default() -> Self {
        let (pulse, beat) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { pulse, busy: AtomicU32::new(IDLE), starts: AtomicU32::new(0), beat }
    }
}

impl Activity {
    /// Counts a launch that is about to be made. True: the peers aren't held, so call
    /// [`hold`](Self::hold) first.
    #[must_use]
    pub fn launch(&self) -> bool {
        self.pulse.fetch_add(1, Ordering::SeqCst);
        self.busy.load(Ordering::SeqCst) != BUSY
    }

    /// Has the peers held. True: they weren't before, and the relay has been woken.
    pub fn hold(&self) -> bool {
        if self.busy.swap(BUSY, Ordering::SeqCst) != IDLE {
            return false;
        }
        self.wake();
        self.starts.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Has the peers released if nothing was launched since [`pulse`](Self::pulse) was `seen`,
    /// after which all work has ended. One thread at a time may call it. True: they are released.
    pub fn release(&self, seen: u64) -> bool {
        if !self.transition(BUSY, ENDING) {
            return false;
        }
        if self.pulse.load(Ordering::SeqCst) != seen {
            self.transition(ENDING, BUSY); // or a launch has already done so
            return false;
        }
        let is_released = self.transition(ENDING, IDLE);
        if is_released {
            self.wake();
        }
        is_released
    }

    fn transition(&self, from: u32, to: u32) -> bool {
        self.busy.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Launches so far.
    pub fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::SeqCst)
    }

    /// Whether peers are to be held. Out of date when it returns.
    pub fn is_busy(&self) -> bool {
        self.word() != IDLE
    }

    /// How often it went from idle to busy.
    pub fn starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Shows how far the device has come: a number that changes with it.
    pub fn show_progress(&self, progress: u64) {
        self.beat.store(progress, Ordering::Relaxed);
    }

    /// Changes when the guest launches, and when its device is seen to come further: that it is at
    /// work.
    pub(crate) fn evidence(&self) -> (u64, u64) {
        (self.pulse.load(Ordering::Relaxed), self.beat.load(Ordering::Relaxed))
    }

    /// What says whether it is busy, for [`wait`](Self::wait).
    pub(crate) fn word(&self) -> u32 {
        self.busy.load(Ordering::SeqCst)
    }

    /// Whether this [`word`](Self::word) means that peers are to be held.
    pub(crate) fn means_busy(word: u32) -> bool {
        word != IDLE
    }
}

#[cfg(not(loom))]
mod waiting {
    use super::Activity;
    use rustix::event::Timespec;
    use rustix::thread::futex;
    use std::time::Duration;

    impl Activity {
        /// Sleeps while the word is what it was `seen` to be, for no longer than `time`.
        pub(crate) fn wait(&self, seen: u32, time: Duration) {
            let time = Timespec::try_from(time).ok();
            let _ = futex::wait(&self.busy, futex::Flags::empty(), seen, time.as_ref()); // whoever waits looks again
        }

        /// Wakes whoever waits, in whichever process.
        pub(crate) fn wake(&self) {
            let _ = futex::wake(&self.busy, futex::Flags::empty(), u32::MAX >> 1); // there may be nobody
        }
    }
}

/// A futex as the system has it: the look at the word and falling asleep are one step.
#[cfg(loom)]
mod waiting {
    use super::Activity;
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        pub(super) static ref BELL: (Mutex<()>, Condvar) = Default::default();
    }

    impl Activity {
        pub(crate) fn wait(&self, seen: u32) {
            let lock = BELL.0.lock().unwrap();
            if self.word() == seen {
                drop(BELL.1.wait(lock).unwrap());
            }
        }

        pub(crate) fn wake(&self) {
            let _lock = BELL.0.lock().unwrap();
            BELL.1.notify_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn peers_are_released_only_by_who_knows_of_the_last_launch() {
        let activity = Activity::default();
        assert!(activity.launch(), "the first launch holds");
        assert!(activity.hold() && !activity.hold());
        let seen = activity.pulse();
        assert!(!activity.launch(), "held already");
        assert!(!activity.release(seen), "a launch came since");
        assert!(activity.is_busy());
        assert!(activity.release(activity.pulse()));
        assert!(!activity.release(activity.pulse()) && !activity.is_busy());
        assert!(activity.launch(), "held anew");
        assert_eq!(activity.starts(), 1);
    }

    #[test]
    fn whoever_waits_is_woken_and_what_has_changed_is_not_waited_for() {
        let (activity, long) = (Activity::default(), Duration::from_secs(60));
        let begin = Instant::now();
        activity.wait(BUSY, long);
        std::thread::scope(|scope| {
            scope.spawn(|| activity.wait(IDLE, long));
            std::thread::sleep(Duration::from_millis(20));
            activity.hold();
        });
        assert!(begin.elapsed() < long / 2);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::super::Holders;
    use super::waiting::BELL;
    use super::*;
    use loom::sync::Arc;
    use loom::thread;
    use std::mem::ManuallyDrop;

    /// A real-time guest, and a peer's word that only the relay writes.
    #[derive(Default)]
    struct Guests {
        activity: Activity,
        peer: Holders,
    }

    impl Guests {
        fn launch(&self) {
            if self.activity.launch() {
                self.activity.hold();
            }
        }

        /// The relay, until the peer is held as is wanted; `waits` sleeps while the word is what
        /// was seen.
        fn relay(&self, is_wanted: bool, waits: impl Fn(&Activity, u32)) {
            loop {
                let word = self.activity.word();
                match Activity::means_busy(word) {
                    true => self.peer.hold(3),
                    false => self.peer.release(3),
                }
                if Activity::means_busy(word) == is_wanted {
                    return;
                }
                waits(&self.activity, word);
            }
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
                assert!(other.activity.is_busy(), "the launch starts now");
            });
            guests.activity.release(seen);
            launching.join().unwrap();
            assert!(guests.activity.is_busy());
        });
    }

    #[test]
    fn two_launches_and_a_release_of_the_first() {
        loom::model(|| {
            let guests = Arc::new(Guests::default());
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let other = guests.clone();
                    thread::spawn(move || other.launch())
                })
                .collect();
            let is_released = guests.activity.release(1);
            for other in others {
                other.join().unwrap();
            }
            // Only the launch that came after the release's look can have made it busy again.
            assert!(guests.activity.is_busy(), "released {is_released}");
        });
    }

    #[test]
    fn relay_follows_a_launch_and_a_release() {
        loom::model(|| {
            let guests = Arc::new(Guests::default());
            let other = guests.clone();
            let relay = thread::spawn(move || {
                other.relay(true, Activity::wait);
                assert!(other.peer.has(3));
                other.relay(false, Activity::wait);
            });
            guests.launch();
            // As soon as the relay may have followed; it may also come when all is over, so it is
            // busy for long enough.
            while !guests.peer.has(3) {
                thread::yield_now();
            }
            assert!(guests.activity.release(1));
            relay.join().unwrap();
            assert!(!guests.peer.is_held());
        });
    }

    /// A relay that falls asleep without a look at the word sleeps on for ever.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn relay_that_does_not_look_before_it_sleeps_is_lost() {
        loom::model(|| {
            // A deadlock ends the model with all that is in it; nothing may be dropped then.
            let guests = ManuallyDrop::new(Arc::new(Guests::default()));
            let other = ManuallyDrop::new(Arc::clone(&guests));
            let relay = thread::spawn(move || {
                other.relay(true, |_, _| drop(BELL.1.wait(BELL.0.lock().unwrap()).unwrap()));
            });
            guests.launch();
            relay.join().unwrap();
        });
    }
}
