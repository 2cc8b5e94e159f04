//! A cursor that one side moves and the other waits for.
//!
//! The writer must not call the kernel for a reader that polls anyway, and a reader must not sleep
//! through a move of the cursor. The steps:
//!
//! | writer | reader |
//! |---|---|
//! | 1. moves the cursor | 3. notes that it is asleep |
//! | fence | fence |
//! | 2. wakes the reader if it is asleep | 4. reads the cursor again, then sleeps while it is unchanged |
//!
//! By the fences, step 2 sees step 3 or step 4 sees step 1. A side that lies about any of this
//! makes only itself wait: the other polls at an interval.

use super::sync::{Ordering, Word, fence};
use std::thread;
use std::time::{Duration, Instant};

/// How long who was woken ahead of news looks for them: longer than the copy of an input that a
/// client wakes the daemon ahead of, and so short that it is a small part of a core even if the
/// news are always late.
pub(crate) const ROUSED: Duration = Duration::from_micros(200);

/// A cursor and whether its reader sleeps, on lines of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Channel {
    /// 0 and up, wrapping. Written by one side.
    cursor: Line,
    /// 0 or 1. Written by the other side.
    asleep: Line,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line(Word);

impl Channel {
    /// Moves the cursor: what was written before can be read by who sees it.
    pub(crate) fn publish(&self, cursor: u32) {
        self.cursor.0.store(cursor, Ordering::Release);
        fence(Ordering::SeqCst); // between steps 1 and 2
        if self.asleep.0.load(Ordering::Relaxed) != 0 {
            self.cursor.0.wake();
        }
    }

    /// Wakes a reader that sleeps before there is news, which come at once: it looks for them while
    /// they are made.
    pub(crate) fn rouse(&self) {
        if self.asleep.0.load(Ordering::Relaxed) != 0 {
            self.cursor.0.wake();
        }
    }

    /// Where the cursor is now.
    pub(crate) fn cursor(&self) -> u32 {
        self.cursor.0.load(Ordering::Acquire)
    }

    /// Waits for the cursor to move from `seen`: looks for `spin`, then sleeps for `time` at most,
    /// and looks for [`ROUSED`] if it is woken before there is news. Returns whether there is; may
    /// return early.
    pub(crate) fn wait(&self, seen: u32, spin: Duration, time: Duration) -> bool {
        self.look(seen, spin)
            || (self.sleep(seen, time) && self.look(seen, ROUSED))
            || self.cursor() != seen
    }

    /// Looks for a move of the cursor for `time`. Returns whether there was one.
    ///
    /// Every few microseconds it lets another thread have the core: the one that was just woken may
    /// be put there, and would wait for all of `time` (2-core VM that was busy, 2026-11-23: 54 µs
    /// from an answer to the client, which slept).
    fn look(&self, seen: u32, time: Duration) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < time {
            for _ in 0..64 {
                if self.cursor() != seen {
                    return true;
                }
                std::hint::spin_loop();
            }
            thread::yield_now();
        }
        false
    }

    /// Sleeps until the cursor is not at `seen` any more, or `time` is over, or for no reason.
    /// Returns whether it was woken.
    pub(crate) fn sleep(&self, seen: u32, time: Duration) -> bool {
        self.asleep.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // between steps 3 and 4
        let woken = self.cursor() == seen && self.cursor.0.sleep(seen, time);
        self.asleep.0.store(0, Ordering::Relaxed);
        woken
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    /// Waits as both sides do, without a time.
    fn wait(channel: &Channel, seen: u32) -> u32 {
        loop {
            let now = channel.cursor();
            if now != seen {
                return now;
            }
            channel.sleep(seen, Duration::MAX);
        }
    }

    /// A reader that sleeps is woken, and sees what was written before the cursor moved.
    #[test]
    fn nobody_sleeps_through_news() {
        loom::model(|| {
            let shared = Arc::new((Channel::default(), AtomicU32::new(0)));
            let writer = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.0.rouse();
                    shared.1.store(7, Ordering::Relaxed);
                    shared.0.publish(1);
                }
            });
            assert_eq!(wait(&shared.0, 0), 1);
            assert_eq!(shared.1.load(Ordering::Relaxed), 7);
            writer.join().unwrap();
        });
    }

    /// A whole round trip: request, answer, and both sides may sleep.
    #[test]
    fn an_answer_comes_back() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let segment = Arc::new((Channel::default(), Channel::default(), AtomicU32::new(0)));
            let daemon = thread::spawn({
                let segment = segment.clone();
                move || {
                    let submitted = wait(&segment.0, 0);
                    let request = segment.2.load(Ordering::Relaxed);
                    segment.1.rouse();
                    segment.2.store(request + 1, Ordering::Relaxed);
                    segment.1.publish(submitted);
                }
            });
            segment.2.store(41, Ordering::Relaxed);
            segment.0.publish(1);
            assert_eq!(wait(&segment.1, 0), 1);
            assert_eq!(segment.2.load(Ordering::Relaxed), 42);
            daemon.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken_and_not_by_the_clock() {
        let channel = Channel::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let begin = Instant::now();
                while channel.cursor() == 0 {
                    channel.sleep(0, Duration::from_secs(10));
                }
                begin.elapsed()
            });
            std::thread::sleep(Duration::from_millis(30));
            channel.publish(1);
            assert!(reader.join().unwrap() < Duration::from_secs(5));
        });
    }

    #[test]
    fn a_sleeper_is_roused_without_news() {
        let channel = Channel::default();
        let slept = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let begin = Instant::now();
                channel.sleep(0, Duration::from_secs(60));
                begin.elapsed()
            });
            while !reader.is_finished() {
                channel.rouse();
                std::thread::yield_now();
            }
            reader.join().unwrap()
        });
        assert!(slept < Duration::from_secs(30) && channel.cursor() == 0, "{slept:?}");
    }

    /// Whoever looks sees news that come without a wake; whoever was roused for nothing says that
    /// there are none.
    #[test]
    fn news_are_looked_for_before_and_after_a_sleep() {
        let long = Duration::from_secs(60);
        let channel = Channel::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| channel.wait(0, long, Duration::ZERO));
            channel.publish(1);
            assert!(reader.join().unwrap());
        });
        assert!(!channel.wait(1, Duration::ZERO, Duration::from_millis(1)));
        let roused = std::thread::scope(|scope| {
            let reader = scope.spawn(|| channel.wait(1, Duration::ZERO, long));
            while !reader.is_finished() {
                channel.rouse();
                std::thread::yield_now();
            }
            reader.join().unwrap()
        });
        assert!(!roused);
        assert!(channel.wait(0, Duration::ZERO, long), "there are news already");
    }

    #[test]
    fn sides_write_lines_of_their_own() {
        assert_eq!((size_of::<Channel>(), align_of::<Channel>()), (128, 64));
    }
}
