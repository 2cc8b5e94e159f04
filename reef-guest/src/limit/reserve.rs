//! What one process has of its job's memory, and how it takes more without a lock.
//!
//! 1. Whoever wants memory says so: `asking` grows.
//! 2. It adds up what all have and ask for, of each share first `asking` and then `used`.
//! 3. If that fits, `used` grows; in any case `asking` shrinks again, last.
//!
//! Of two who ask at once the later one sees the earlier one, as asking or as used: who moves from
//! one to the other is counted twice meanwhile and never not at all. So both may be sent back, and
//! try again, but never both be let in where one fits. Nobody waits for anybody, and who is killed
//! in the middle leaves nothing but numbers in its own share.

use super::atomic::{AtomicU64, Ordering::SeqCst, fence};

/// Bytes of one process. Written by that process, and by whoever finds it dead.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Reservation {
    asking: AtomicU64,
    used: AtomicU64,
    /// What it has of its device besides: its context, and code. Written by the daemon.
    overhead: AtomicU64,
}

impl Default for Reservation {
    fn default() -> Self {
        let new = || AtomicU64::new(0);
        Self { asking: new(), used: new(), overhead: new() }
    }
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is reserved.
    Granted,
    /// Others have so much that it doesn't fit.
    Full,
    /// Others are asking as well: ask again.
    Contended,
}

impl Reservation {
    /// Where `overhead` stands, for who writes it from outside.
    pub(super) const OVERHEAD_AT: usize = std::mem::offset_of!(Self, overhead);

    /// Reserves so many bytes of the limit that `all` shares have together, of which this is one.
    /// Neither may be more than `quantity::MAX_BYTES`.
    pub(super) fn ask<'a>(
        &self,
        bytes: u64,
        limit: u64,
        all: impl Iterator<Item = &'a Self>,
    ) -> Answer {
        self.asking.fetch_add(bytes, SeqCst);
        fence(SeqCst); // step 1 before step 2, of whoever else asks: without it both could miss each other
        let (asking, used) = all.fold((0_u64, 0_u64), |(asking, used), share| {
            let more = share.asking.load(SeqCst); // before `used`: see above
            let used = used.saturating_add(share.overhead());
            (asking.saturating_add(more), used.saturating_add(share.used.load(SeqCst)))
        });
        let fits = asking.saturating_add(used) <= limit;
        if fits {
            self.used.fetch_add(bytes, SeqCst);
        }
        self.asking.fetch_sub(bytes, SeqCst);
        match fits {
            true => Answer::Granted,
            false if used.saturating_add(bytes) > limit => Answer::Full,
            false => Answer::Contended,
        }
    }

    /// Adds what was taken without a question.
    pub(super) fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, SeqCst);
    }

    /// Gives bytes back; no more than there are.
    pub(super) fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(SeqCst, SeqCst, less);
    }

    /// What it has. May be out of date when it returns.
    pub(super) fn used(&self) -> u64 {
        self.used.load(SeqCst)
    }

    /// What it has besides.
    pub(super) fn overhead(&self) -> u64 {
        self.overhead.load(SeqCst)
    }

    /// Of a process that has ended, or has not begun: it has nothing.
    pub(super) fn clear(&self) {
        self.overhead.store(0, SeqCst);
        self.asking.store(0, SeqCst);
        self.used.store(0, SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_together_never_pass_the_limit(
            limit in 1_u64..1000,
            steps in proptest::collection::vec((0..4_usize, any::<bool>(), 1..400_u64), 0..200),
        ) {
            let shares = [(); 4].map(|()| Reservation::default());
            let mut held = [(); 4].map(|()| Vec::new());
            for (at, gives_back, bytes) in steps {
                let sum: u64 = held.iter().flatten().sum();
                if gives_back {
                    held[at].pop().into_iter().for_each(|bytes| shares[at].give_back(bytes));
                } else {
                    let answer = shares[at].ask(bytes, limit, shares.iter());
                    let want = if sum + bytes <= limit { Answer::Granted } else { Answer::Full };
                    prop_assert_eq!(answer, want);
                    if want == Answer::Granted { held[at].push(bytes); }
                }
                let sum: u64 = held.iter().flatten().sum();
                prop_assert_eq!(shares.iter().map(Reservation::used).sum::<u64>(), sum);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn asks(shares: &[Reservation; 2], at: usize, bytes: u64) -> Answer {
        shares[at].ask(bytes, 10, shares.iter())
    }

    #[test]
    fn two_processes_never_have_more_than_the_limit_and_one_alone_is_let_in() {
        loom::model(|| {
            let shares = Arc::new([Reservation::default(), Reservation::default()]);
            let other = shares.clone();
            let thread = thread::spawn(move || asks(&other, 1, 6));
            let mine = asks(&shares, 0, 6);
            let other = thread.join().unwrap();
            let used = shares[0].used() + shares[1].used();
            assert!(used <= 10, "{mine:?} {other:?}");
            assert!(used == 6 || (mine, other) == (Answer::Contended, Answer::Contended));
            assert_ne!((mine, other), (Answer::Full, Answer::Full));
        });
    }

    #[test]
    fn two_threads_of_one_process_do_not_either() {
        loom::model(|| {
            let shares = Arc::new([Reservation::default(), Reservation::default()]);
            let other = shares.clone();
            let thread = thread::spawn(move || {
                let answer = asks(&other, 0, 4);
                if answer == Answer::Granted {
                    other[0].give_back(4);
                }
                answer
            });
            let mine = asks(&shares, 0, 7);
            thread.join().unwrap();
            let used = shares[0].used();
            assert_eq!(used, if mine == Answer::Granted { 7 } else { 0 });
        });
    }
}
