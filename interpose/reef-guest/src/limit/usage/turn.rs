//! Turn of a device: one word that processes take and leave without a lock.
//!
//! 1. A process that has the turn and wants to begin sets itself not idle, and then reads the word:
//!    if it
//!    is still its own, it begins.
//! 2. A process that takes the turn of an idle process writes the word, and then reads whether that
//!    one is idle
//!    still: if not, it gives the turn back.
//!
//! So at least one of the two sees the other, and both may retreat: then the first one has the
//! turn, and finds that out when it asks again. No process waits for another here. A turn is also
//! taken from processes that have ended, that were stopped, or whose work takes too long. Their
//! work may still be on the device then.

use super::super::atomic::{AtomicU64, Ordering::SeqCst, fence};

const MICROSECOND: u64 = 1_000;

/// Time since which a process has no work, in nanoseconds; zero: it has work, or is about to begin
/// some. Written by that process alone.
#[derive(Debug)]
#[repr(C)]
pub(in crate::limit) struct Idle(AtomicU64);

impl Default for Idle {
    fn default() -> Self {
        Self(AtomicU64::new(1))
    }
}

impl Idle {
    /// Returns the time since which it is idle. `None`: it works.
    pub(in crate::limit) fn since(&self) -> Option<u64> {
        Some(self.0.load(SeqCst)).filter(|since| *since > 0)
    }

    /// Notes that it has work.
    pub(in crate::limit) fn end(&self) {
        if self.0.load(SeqCst) > 0 {
            self.0.store(0, SeqCst);
        }
    }

    /// Notes that it has no work any more.
    pub(in crate::limit) fn begin(&self, now: u64) {
        let _ = self.0.compare_exchange(0, now.max(1), SeqCst, SeqCst);
    }
}

/// Value of the turn at one moment: its member, and its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::limit) struct TurnHolder(u64);

impl TurnHolder {
    fn new(member: usize, now: u64) -> Self {
        Self((now / MICROSECOND) << 8 | (member as u64 + 1) & 0xff)
    }

    /// Returns the slot of the member that has the turn.
    pub(in crate::limit) fn member(self) -> Option<usize> {
        (self.0 as usize & 0xff).checked_sub(1)
    }

    /// Returns its begin, in nanoseconds with a resolution of a microsecond.
    pub(in crate::limit) fn began(self) -> u64 {
        (self.0 >> 8).saturating_mul(MICROSECOND) // other processes may write any value
    }
}

/// Turn of a device, in the accounts file.
#[derive(Debug)]
#[repr(C, align(128))]
pub(in crate::limit) struct Turn {
    /// Zero: free. Otherwise microseconds, and in the lowest byte the member's slot plus one.
    word: AtomicU64,
    /// Time of the last request for a turn that was refused, in nanoseconds.
    pub(in crate::limit) claimed: AtomicU64,
}

impl Default for Turn {
    fn default() -> Self {
        Self { word: AtomicU64::new(0), claimed: AtomicU64::new(0) }
    }
}

impl Turn {
    pub(in crate::limit) fn read(&self) -> TurnHolder {
        TurnHolder(self.word.load(SeqCst))
    }

    /// Step 1. Returns false if it isn't this member's turn; it is as idle as before then.
    pub(in crate::limit) fn begin(&self, member: usize, idle: &Idle) -> bool {
        let since = idle.0.swap(0, SeqCst);
        fence(SeqCst);
        let is_ours = self.read().member() == Some(member);
        if !is_ours && since > 0 {
            idle.0.store(since, SeqCst);
        }
        is_ours
    }

    /// Takes the turn, if its value is still `from`. Step 2, if it is taken because `holder` is
    /// idle. Returns whether this member has it.
    pub(in crate::limit) fn take(
        &self,
        member: usize,
        now: u64,
        from: TurnHolder,
        holder: Option<&Idle>,
    ) -> bool {
        let new = TurnHolder::new(member, now).0;
        if self.word.compare_exchange(from.0, new, SeqCst, SeqCst).is_err() {
            return false;
        }
        fence(SeqCst);
        let is_late = holder.is_some_and(|idle| idle.since().is_none());
        if is_late {
            let _ = self.word.compare_exchange(new, from.0, SeqCst, SeqCst);
        }
        !is_late
    }

    /// Leaves the turn to other processes, if it is this member's.
    pub(in crate::limit) fn leave(&self, member: usize) {
        let held = self.read();
        if held.member() == Some(member) {
            let _ = self.word.compare_exchange(held.0, 0, SeqCst, SeqCst);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn turn_returns_its_member_and_begin_for_any_value() {
        let (turn, idle) = (Turn::default(), Idle::default());
        assert_eq!((turn.read().member(), turn.begin(0, &idle)), (None, false));
        assert!(turn.take(127, 7_000_999, turn.read(), None));
        assert_eq!((turn.read().member(), turn.read().began()), (Some(127), 7_000_000));
        turn.leave(0);
        assert!(turn.begin(127, &idle) && idle.since().is_none());
        turn.word.store(u64::MAX, SeqCst);
        assert_eq!((turn.read().member(), turn.read().began()), (Some(254), u64::MAX));
    }

    #[test]
    fn turn_of_a_member_with_new_work_is_kept() {
        let (turn, idle) = (Turn::default(), [Idle::default(), Idle::default()]);
        assert!(turn.take(0, 1_000, turn.read(), None) && turn.begin(0, &idle[0]));
        let held = turn.read();
        assert!(!turn.take(1, 2_000, held, Some(&idle[0])), "step 2");
        assert_eq!(turn.read(), held);
        idle[0].begin(3_000);
        assert!(turn.take(1, 4_000, held, Some(&idle[0])) && turn.begin(1, &idle[1]));
        assert!(!turn.begin(0, &idle[0]) && idle[0].since() == Some(3_000));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn idle_since(since: u64) -> Idle {
        Idle(AtomicU64::new(since))
    }

    fn accounts() -> Arc<(Turn, [Idle; 3])> {
        let turn = Turn::default();
        let nobody = turn.read();
        assert!(turn.take(0, 5_000, nobody, None));
        Arc::new((turn, [idle_since(1), idle_since(1), idle_since(1)]))
    }

    #[test]
    fn begin_and_take_of_a_turn_never_both_succeed() {
        loom::model(|| {
            let accounts = accounts();
            let other = accounts.clone();
            let thread = thread::spawn(move || {
                let (turn, idle) = &*other;
                let held = turn.read();
                turn.take(1, 9_000, held, Some(&idle[0])) && turn.begin(1, &idle[1])
            });
            let (turn, idle) = &*accounts;
            let first = turn.begin(0, &idle[0]);
            let second = thread.join().unwrap();
            assert!(!(first && second));
            // The one that has the turn now may begin.
            let holder = turn.read().member().unwrap();
            assert_eq!(second, holder == 1);
            assert!(turn.begin(holder, &idle[holder]));
        });
    }

    #[test]
    fn only_one_of_two_members_takes_a_turn() {
        loom::model(|| {
            let accounts = accounts();
            accounts.0.leave(0);
            let other = accounts.clone();
            let thread = thread::spawn(move || {
                let held = other.0.read();
                held.member().is_none() && other.0.take(1, 9_000, held, None)
            });
            let held = accounts.0.read();
            let first = held.member().is_none() && accounts.0.take(2, 9_000, held, None);
            let second = thread.join().unwrap();
            assert!(first != second);
        });
    }
}
