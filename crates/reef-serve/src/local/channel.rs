//! A cursor that one side moves and the other waits for.
//!
//! The writer must not call the kernel for a reader that is polling, and a reader must not sleep
//! through a move of the cursor. The steps:
//!
//! | writer | reader |
//! |---|---|
//! | 1. moves the cursor | 3. notes that it is asleep |
//! | fence | fence |
//! | 2. wakes the reader if it is asleep | 4. reads the cursor again, then sleeps while it is unchanged |
//!
//! The fences ensure that step 2 sees step 3, or step 4 sees step 1. A side that violates this
//! delays only itself, because the other side polls at an interval.

use super::sync::{Ordering, Word, fence};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a reader polls after an early wake: longer than the copy of an input that follows
/// such a wake, and short enough to be a small part of a core even if the cursor always moves late.
pub(crate) const EARLY_WAKE_POLL_TIMEOUT: Duration = Duration::from_micros(200);

/// A cursor and the flag of its sleeping reader, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Channel {
    /// Wraps around at its maximum. Written by one side.
    cursor: Line,
    /// 0 or 1. Written by the other side.
    asleep: Line,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line(Word);

impl Channel {
    /// Moves the cursor. A reader that sees the move also sees all earlier writes.
    pub(crate) fn publish(&self, cursor: u32) {
        self.cursor.0.store(cursor, Ordering::Release);
        fence(Ordering::SeqCst); // between steps 1 and 2
        if self.asleep.0.load(Ordering::Relaxed) != 0 {
            self.cursor.0.wake();
        }
    }

    /// Wakes a sleeping reader shortly before the cursor moves, so that it is polling by then.
    pub(crate) fn wake_early(&self) {
        if self.asleep.0.load(Ordering::Relaxed) != 0 {
            self.cursor.0.wake();
        }
    }

    /// Returns the current position.
    pub(crate) fn cursor(&self) -> u32 {
        self.cursor.0.load(Ordering::Acquire)
    }

    /// Waits for the cursor to move from `seen`: polls for `spin`, then sleeps for at most `time`,
    /// and polls for [`EARLY_WAKE_POLL_TIMEOUT`] after an early wake. Returns whether it has moved;
    /// may return early.
    pub(crate) fn wait(&self, seen: u32, spin: Duration, time: Duration) -> bool {
        self.poll(seen, spin)
            || (self.sleep(seen, time) && self.poll(seen, EARLY_WAKE_POLL_TIMEOUT))
            || self.cursor() != seen
    }

    /// Polls for a move of the cursor for `time`. Returns whether there was one.
    ///
    /// Every few microseconds it yields the core: a thread that was just woken may be placed there,
    /// and would otherwise wait for all of `time` (busy 2-core VM, 2026-11-23: 54 µs from an answer
    /// to a sleeping client).
    fn poll(&self, seen: u32, time: Duration) -> bool {
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

    /// Sleeps until the cursor has left `seen`, or for at most `time`; may wake spuriously. Returns
    /// whether it was woken.
    pub(crate) fn sleep(&self, seen: u32, time: Duration) -> bool {
        self.asleep.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // between steps 3 and 4
        let is_woken = self.cursor() == seen && self.cursor.0.sleep(seen, time);
        self.asleep.0.store(0, Ordering::Relaxed);
        is_woken
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    /// Waits like both sides, without a timeout.
    fn wait(channel: &Channel, seen: u32) -> u32 {
        loop {
            let now = channel.cursor();
            if now != seen {
                return now;
            }
            channel.sleep(seen, Duration::MAX);
        }
    }

    /// A sleeping reader is woken, and sees the writes before the move of the cursor.
    #[test]
    fn reader_does_not_sleep_through_a_move() {
        loom::model(|| {
            let shared = Arc::new((Channel::default(), AtomicU32::new(0)));
            let writer = thread::spawn({
                let shared = shared.clone();
                move || {
                    shared.0.wake_early();
                    shared.1.store(7, Ordering::Relaxed);
                    shared.0.publish(1);
                }
            });
            assert_eq!(wait(&shared.0, 0), 1);
            assert_eq!(shared.1.load(Ordering::Relaxed), 7);
            writer.join().unwrap();
        });
    }

    /// A whole round trip of request and answer; both sides may sleep.
    #[test]
    fn round_trip_completes_with_sleeping_sides() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let segment = Arc::new((Channel::default(), Channel::default(), AtomicU32::new(0)));
            let daemon = thread::spawn({
                let segment = segment.clone();
                move || {
                    let submitted = wait(&segment.0, 0);
                    let request = segment.2.load(Ordering::Relaxed);
                    segment.1.wake_early();
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
    fn sleeping_reader_is_woken_before_its_timeout() {
        let channel = Channel::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let begin = Instant::now();
                while channel.cursor() == 0 {
                    channel.sleep(0, Duration::from_secs(120));
                }
                begin.elapsed()
            });
            // sleep: the reader sleeps; one that does not yet ends as well
            std::thread::sleep(Duration::from_millis(30));
            channel.publish(1);
            assert!(reader.join().unwrap() < Duration::from_secs(60));
        });
    }

    #[test]
    fn sleeping_reader_is_woken_early() {
        let channel = Channel::default();
        let slept = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let begin = Instant::now();
                channel.sleep(0, Duration::from_secs(60));
                begin.elapsed()
            });
            while !reader.is_finished() {
                channel.wake_early();
                std::thread::yield_now();
            }
            reader.join().unwrap()
        });
        assert!(slept < Duration::from_secs(30) && channel.cursor() == 0, "{slept:?}");
    }

    /// A polling reader sees a move without a wake; a reader that was woken without a move reports
    /// none.
    #[test]
    fn reader_polls_before_and_after_a_sleep() {
        let long = Duration::from_secs(60);
        let channel = Channel::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| channel.wait(0, long, Duration::ZERO));
            channel.publish(1);
            assert!(reader.join().unwrap());
        });
        assert!(!channel.wait(1, Duration::ZERO, Duration::from_millis(1)));
        let has_moved = std::thread::scope(|scope| {
            let reader = scope.spawn(|| channel.wait(1, Duration::ZERO, long));
            while !reader.is_finished() {
                channel.wake_early();
                std::thread::yield_now();
            }
            reader.join().unwrap()
        });
        assert!(!has_moved);
        assert!(channel.wait(0, Duration::ZERO, long), "the cursor has moved already");
    }

    #[test]
    fn channel_fields_are_on_separate_cache_lines() {
        assert_eq!((size_of::<Channel>(), align_of::<Channel>()), (128, 64));
    }
}
