//! The word that a best-effort guest's device waits on: a set of holders, and an override.

use super::atomic::{AtomicU32, Ordering};

/// A word has bits for so many holders: 0 to 28 are real-time guests', 29 is the daemon's.
pub const MAX_HOLDERS: u32 = 30;

/// Both bits together open the gate, whoever holds it.
const OVERRIDE: u32 = 0xC000_0000;

/// Who holds a guest. The device passes when the set is empty or the override is set.
///
/// Holders come and go with one atomic operation each and need no lock: bits compose. They are the
/// daemon's alone to write. The override is set by the guest itself; it leaves the set as it is, so
/// that a holder may come or go meanwhile.
#[derive(Debug)]
#[repr(transparent)]
pub struct Holders(AtomicU32);

impl Default for Holders {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Holders {
    /// A device passes when the word is at least this, as a signed difference that wraps
    /// (`CU_STREAM_WAIT_VALUE_GEQ`): true for 0, and for every word with the override.
    pub const PASS: u32 = 0x8000_0001;
    /// The daemon's own bit.
    pub const DAEMON: u32 = MAX_HOLDERS - 1;

    /// Adds a holder: its bit's number, below [`MAX_HOLDERS`]; others are ignored.
    pub fn hold(&self, holder: u32) {
        self.add(holder);
    }

    /// Takes a holder away; nothing happens if it wasn't one.
    pub fn release(&self, holder: u32) {
        self.take(holder);
    }

    /// As [`hold`](Self::hold). True: it is the first one.
    pub(crate) fn add(&self, holder: u32) -> bool {
        let before = self.0.fetch_or(bit(holder), Ordering::SeqCst);
        before & !OVERRIDE == 0 && bit(holder) != 0
    }

    /// As [`release`](Self::release). True: it was the last one.
    pub(crate) fn take(&self, holder: u32) -> bool {
        let before = self.0.fetch_and(!bit(holder), Ordering::SeqCst);
        before & !OVERRIDE == bit(holder) && bit(holder) != 0
    }

    /// Lets everything pass until [`end_override`](Self::end_override), whoever holds.
    pub fn override_all(&self) {
        self.0.fetch_or(OVERRIDE, Ordering::SeqCst);
    }

    /// Ends [`override_all`](Self::override_all): who holds is heeded again.
    pub fn end_override(&self) {
        self.0.fetch_and(!OVERRIDE, Ordering::SeqCst);
    }

    /// Takes all holders away.
    pub fn clear(&self) {
        self.0.fetch_and(OVERRIDE, Ordering::SeqCst);
    }

    /// Whether the device stops at its next gate. May be out of date when it returns.
    pub fn is_closed(&self) -> bool {
        !passes(self.0.load(Ordering::Relaxed))
    }

    /// Whether this holder is one. May be out of date when it returns.
    pub fn has(&self, holder: u32) -> bool {
        self.0.load(Ordering::SeqCst) & bit(holder) != 0
    }

    /// Whether there is any holder, override or not.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !OVERRIDE != 0
    }

    /// Whether there is any holder besides this one, override or not.
    pub fn is_held_by_another(&self, holder: u32) -> bool {
        self.0.load(Ordering::Relaxed) & !OVERRIDE & !bit(holder) != 0
    }
}

fn bit(holder: u32) -> u32 {
    if holder < MAX_HOLDERS { 1 << holder } else { 0 }
}

/// What the device computes.
fn passes(word: u32) -> bool {
    word.wrapping_sub(Holders::PASS) as i32 >= 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_gate_is_closed_while_anybody_holds_and_nobody_overrides(
            steps in proptest::collection::vec((0..4, 0..MAX_HOLDERS), 0..40)
        ) {
            let word = Holders::default();
            let (mut set, mut is_overridden) = (std::collections::HashSet::new(), false);
            for (step, holder) in steps {
                match step {
                    0 => { word.hold(holder); set.insert(holder); }
                    1 => { word.release(holder); set.remove(&holder); }
                    2 => { word.override_all(); is_overridden = true; }
                    _ => { word.end_override(); is_overridden = false; }
                }
                let is_closed = !set.is_empty() && !is_overridden;
                prop_assert_eq!(word.is_closed(), is_closed, "{:?}", word);
                prop_assert_eq!(word.is_held(), !set.is_empty());
            }
        }
    }

    #[test]
    fn bits_that_are_nobodys_are_taken_away_with_all_others() {
        let word = Holders(AtomicU32::new(u32::MAX));
        word.clear();
        assert!(!word.is_held() && !word.is_closed());
        word.end_override();
        word.hold(3);
        assert!(word.is_held_by_another(Holders::DAEMON) && word.is_closed());
        word.hold(Holders::DAEMON);
        word.release(3);
        assert!(!word.is_held_by_another(Holders::DAEMON) && word.is_held());
    }

    #[test]
    fn a_number_without_a_bit_is_ignored() {
        let word = Holders::default();
        word.hold(MAX_HOLDERS);
        word.hold(u32::MAX);
        assert!(!word.is_held() && !word.is_closed());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn an_override_loses_no_holder_that_comes_or_goes() {
        loom::model(|| {
            let word = Arc::new(Holders::default());
            word.hold(0);
            let other = word.clone();
            let peer = thread::spawn(move || {
                other.release(0);
                other.hold(1);
            });
            word.override_all();
            word.end_override();
            peer.join().unwrap();
            assert!(!word.has(0) && word.has(1) && word.is_closed());
        });
    }

    #[test]
    fn the_bit_of_the_dead_is_cleared_while_others_come_and_go() {
        loom::model(|| {
            let word = Arc::new(Holders::default());
            word.hold(0); // and dies
            let other = word.clone();
            let peer = thread::spawn(move || {
                other.hold(1);
                other.release(1);
            });
            word.release(0); // the daemon's
            peer.join().unwrap();
            assert!(!word.is_closed());
        });
    }
}
