//! Activity of a real-time guest: it holds its peers from its first launch until it is known to be
//! idle.
//!
//! The guest writes this to its own page alone. A relay of the daemon closes its peers' gates. The
//! relay sleeps on the word itself (a futex), so that a launch wakes it within microseconds.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing is known to be on the device.
const IDLE: u32 = 0;
/// Peers must be held.
const BUSY: u32 = 1;
/// A release looks for launches that it doesn't know of. Peers must still be held.
const ENDING: u32 = 2;

/// Launches of a real-time guest, and the state that its peers are held by.
///
/// A launch counts `pulse` up and then looks at `busy`; a release writes `busy` and then looks at
/// `pulse`. So one of the two sees the other, and no launch runs while its peers' gates are open.
#[derive(Debug)]
#[repr(C)]
pub struct Activity {
    /// Launches so far. Written by launching threads.
    pulse: AtomicU64,
    /// [`IDLE`], [`BUSY`] or [`ENDING`]; any other value counts as busy. Written by launching
    /// threads and one watchdog.
    busy: AtomicU32,
    /// Number of changes from idle to busy.
    starts: AtomicU32,
    /// Changes with what the device has done. Written by the watchdog alone, while the guest is
    /// busy.
    beat: AtomicU64,
}

impl Default for Activity {
    fn default() -> Self {
        let (pulse, beat) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { pulse, busy: AtomicU32::new(IDLE), starts: AtomicU32::new(0), beat }
    }
}

impl Activity {
    /// Counts a launch that is about to be made. Returns true if the peers aren't held: call
    /// [`hold`](Self::hold) first then.
    #[must_use]
    pub fn launch(&self) -> bool {
        self.pulse.fetch_add(1, Ordering::SeqCst);
        self.busy.load(Ordering::SeqCst) != BUSY
    }

    /// Has the peers held. Returns true if they weren't held before; the relay has been woken then.
    pub fn hold(&self) -> bool {
        if self.busy.swap(BUSY, Ordering::SeqCst) != IDLE {
            return false;
        }
        self.wake();
        self.starts.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Has the peers released if nothing was launched since [`pulse`](Self::pulse) was `seen`,
    /// after which all work has ended. One thread at a time may call it. Returns true if the peers
    /// are released.
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

    /// Returns whether peers must be held. May be out of date when it returns.
    pub fn is_busy(&self) -> bool {
        self.word() != IDLE
    }

    /// Returns the number of changes from idle to busy.
    pub fn starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Publishes the progress of the device: a number that changes with it.
    pub fn show_progress(&self, progress: u64) {
        self.beat.store(progress, Ordering::Relaxed);
    }

    /// Returns two numbers that change when the guest launches and when its device makes progress:
    /// evidence that it is at work.
    pub(crate) fn evidence(&self) -> (u64, u64) {
        (self.pulse.load(Ordering::Relaxed), self.beat.load(Ordering::Relaxed))
    }

    /// Returns the word that says whether it is busy, for [`wait`](Self::wait).
    pub(crate) fn word(&self) -> u32 {
        self.busy.load(Ordering::SeqCst)
    }

    /// Returns whether this [`word`](Self::word) means that peers must be held.
    pub(crate) fn means_busy(word: u32) -> bool {
        word != IDLE
    }

    /// Follows the word until `is_over`: `apply` does what the word means, and `rest` sleeps for as
    /// long as the word is that one. The word is read before either, so no change is slept through.
    pub(crate) fn follow<F, R>(
        &self,
        follower: &mut F,
        is_over: impl Fn(&F) -> bool,
        apply: impl Fn(&mut F, u32) -> R,
        rest: impl Fn(&mut F, u32, R),
    ) {
        while !is_over(follower) {
            let word = self.word();
            let next = apply(follower, word);
            rest(follower, word, next);
        }
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
            // The caller reads the word again, whatever the result.
            let _ = futex::wait(&self.busy, futex::Flags::empty(), seen, time.as_ref());
        }

        /// Wakes all waiting threads of all processes.
        pub(crate) fn wake(&self) {
            // There may be no waiting thread.
            let _ = futex::wake(&self.busy, futex::Flags::empty(), u32::MAX >> 1);
        }
    }
}

/// Model of a futex: the poll of the word and falling asleep are one step.
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
    fn release_without_the_last_launch_keeps_peers_held() {
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
    fn wait_ends_at_a_hold_and_returns_at_once_after_a_change() {
        let (activity, long) = (Activity::default(), Duration::from_secs(60));
        let begin = Instant::now();
        activity.wait(BUSY, long);
        std::thread::scope(|scope| {
            scope.spawn(|| activity.wait(IDLE, long));
            // sleep: the wait begins; one that has not begun by then ends as well
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

    /// Real-time guest, and a peer's word that only the relay writes.
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

        /// Runs the relay until the peer is held or not, as `is_wanted` says. `waits` sleeps while
        /// the word is unchanged.
        fn relay(&self, is_wanted: bool, waits: impl Fn(&Activity, u32)) {
            self.activity.follow(
                &mut false,
                |has_come| *has_come,
                |has_come, word| {
                    let is_busy = Activity::means_busy(word);
                    if is_busy {
                        self.peer.hold(3)
                    } else {
                        self.peer.release(3)
                    }
                    *has_come = is_busy == is_wanted;
                },
                |has_come, word, ()| {
                    if !*has_come {
                        waits(&self.activity, word);
                    }
                },
            );
        }
    }

    #[test]
    fn launch_unknown_to_a_release_keeps_peers_held() {
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
    fn release_of_the_first_of_two_launches_keeps_peers_held() {
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
            // The relay might also come when all is over, so the guest stays busy until it has
            // followed.
            while !guests.peer.has(3) {
                thread::yield_now();
            }
            assert!(guests.activity.release(1));
            relay.join().unwrap();
            assert!(!guests.peer.is_held());
        });
    }

    /// A relay that falls asleep without a poll of the word never wakes.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn relay_without_a_check_before_its_sleep_deadlocks() {
        loom::model(|| {
            // A deadlock ends the model at once: nothing may be dropped then.
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
