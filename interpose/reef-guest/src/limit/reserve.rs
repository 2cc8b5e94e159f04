//! Reservation of a job's memory by one of its processes, without a lock.
//!
//! 1. A process that wants memory raises `asking`.
//! 2. It adds up `asking` and `used` of all processes; of each process it reads `asking` first.
//! 3. If the sum fits, it raises `used`. In any case it lowers `asking` again, last.
//!
//! Of two processes that ask at once, the later one sees the earlier one's bytes in `asking` or in
//! `used`. Bytes that move from one to the other may be counted twice, but are never missed. So
//! both processes may be refused and try again, but never both succeed where one fits. No process
//! waits for another. A process that is killed in the middle leaves nothing but numbers in its own
//! reservation.

use super::atomic::{AtomicU64, Ordering::SeqCst, fence};

/// Bytes of one process. Written by that process, and by a process that finds it dead.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Reservation {
    asking: AtomicU64,
    used: AtomicU64,
    /// Further bytes that it has on the device: its context, and code. Written by the daemon.
    overhead: AtomicU64,
}

impl Default for Reservation {
    fn default() -> Self {
        let new = || AtomicU64::new(0);
        Self { asking: new(), used: new(), overhead: new() }
    }
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The bytes are reserved.
    Granted,
    /// The limit has no room for the bytes.
    Full,
    /// Other processes are asking at the same time: ask again.
    Contended,
}

impl Reservation {
    /// Offset of `overhead`, for the daemon, which writes it to the file.
    pub(super) const OVERHEAD_AT: usize = std::mem::offset_of!(Self, overhead);

    /// Reserves `bytes` of the limit that `all` reservations share; this must be one of them.
    /// Neither number may exceed `quantity::MAX_BYTES`.
    pub(super) fn ask<'a>(
        &self,
        bytes: u64,
        limit: u64,
        all: impl Iterator<Item = &'a Self>,
    ) -> Answer {
        self.asking.fetch_add(bytes, SeqCst);
        // Step 1 before another process's step 2: without it both could miss each other.
        fence(SeqCst);
        let (asking, used) = all.fold((0_u64, 0_u64), |(asking, used), share| {
            let more = share.asking.load(SeqCst); // before `used`: see step 2
            let used = used.saturating_add(share.overhead());
            (asking.saturating_add(more), used.saturating_add(share.used.load(SeqCst)))
        });
        let fits = asking.saturating_add(used) <= limit;
        if fits {
            self.used.fetch_add(bytes, SeqCst);
        }
        self.asking.fetch_sub(bytes, SeqCst);
        if fits {
            Answer::Granted
        } else if used.saturating_add(bytes) > limit {
            Answer::Full
        } else {
            Answer::Contended
        }
    }

    /// Adds bytes that were taken without a request.
    pub(super) fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, SeqCst);
    }

    /// Gives bytes back, at most as many as are reserved.
    pub(super) fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(SeqCst, SeqCst, less);
    }

    /// Returns the reserved bytes. May be out of date when it returns.
    pub(super) fn used(&self) -> u64 {
        self.used.load(SeqCst)
    }

    pub(super) fn overhead(&self) -> u64 {
        self.overhead.load(SeqCst)
    }

    /// Returns the bytes that are asked for. May be out of date when it returns.
    pub(super) fn asking(&self) -> u64 {
        self.asking.load(SeqCst)
    }

    /// Sets what a process has, and asks for, that has not begun yet.
    pub(super) fn set(&self, asking: u64, used: u64, overhead: u64) {
        self.overhead.store(overhead, SeqCst);
        self.asking.store(asking, SeqCst);
        self.used.store(used, SeqCst);
    }

    /// Resets the reservation, for a process that has ended or has not begun.
    pub(super) fn clear(&self) {
        self.set(0, 0, 0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reservations_together_never_exceed_the_limit(
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
    fn two_processes_never_exceed_the_limit_and_a_single_one_fits() {
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
    fn two_threads_of_a_process_never_exceed_the_limit() {
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
