//! Word that a best-effort guest's device waits on: a set of holders, and an override.

use super::atomic::{AtomicU32, Ordering};

/// Number of holders that a word has bits for: 0 to 28 for real-time guests, 29 for the daemon.
pub const MAX_HOLDERS: u32 = 30;

/// Both bits together open the gate, whatever its holders are.
const OVERRIDE: u32 = 0xC000_0000;

/// Set of holders of a guest. The device passes when the set is empty or the override is set.
///
/// A holder is added or removed by one atomic operation, without a lock. Only the daemon writes
/// holders. The guest itself sets the override, which leaves the set as it is, so holders may be
/// added or removed at the same time.
#[derive(Debug)]
#[repr(transparent)]
pub struct Holders(AtomicU32);

impl Default for Holders {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Holders {
    /// Threshold of the device's wait: it passes when the word is at least this, as a signed
    /// difference that wraps (`CU_STREAM_WAIT_VALUE_GEQ`). That is true for 0, and for every word
    /// with the override.
    pub const PASS: u32 = 0x8000_0001;
    /// Bit of the daemon.
    pub const DAEMON: u32 = MAX_HOLDERS - 1;

    /// Adds a holder by the number of its bit. Numbers from [`MAX_HOLDERS`] on are ignored.
    pub fn hold(&self, holder: u32) {
        self.add(holder);
    }

    /// Removes a holder. Nothing happens if it wasn't one.
    pub fn release(&self, holder: u32) {
        self.take(holder);
    }

    /// Adds a holder, as [`hold`](Self::hold) does. Returns true if it is the first one.
    pub(crate) fn add(&self, holder: u32) -> bool {
        let before = self.0.fetch_or(bit(holder), Ordering::SeqCst);
        before & !OVERRIDE == 0 && bit(holder) != 0
    }

    /// Removes a holder, as [`release`](Self::release) does. Returns true if it was the last one.
    pub(crate) fn take(&self, holder: u32) -> bool {
        let before = self.0.fetch_and(!bit(holder), Ordering::SeqCst);
        before & !OVERRIDE == bit(holder) && bit(holder) != 0
    }

    /// Lets everything pass until [`end_override`](Self::end_override), whatever the holders are.
    pub fn override_all(&self) {
        self.0.fetch_or(OVERRIDE, Ordering::SeqCst);
    }

    /// Ends [`override_all`](Self::override_all): holders apply again.
    pub fn end_override(&self) {
        self.0.fetch_and(!OVERRIDE, Ordering::SeqCst);
    }

    /// Removes all holders.
    pub fn clear(&self) {
        self.0.fetch_and(OVERRIDE, Ordering::SeqCst);
    }

    /// Returns whether the device stops at its next gate. May be out of date when it returns.
    pub fn is_closed(&self) -> bool {
        !passes(self.0.load(Ordering::Relaxed))
    }

    /// Returns whether the set has this holder. May be out of date when it returns.
    pub fn has(&self, holder: u32) -> bool {
        self.0.load(Ordering::SeqCst) & bit(holder) != 0
    }

    /// Returns whether there is a holder, with or without the override.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !OVERRIDE != 0
    }

    /// Returns whether there is a holder other than this one, with or without the override.
    pub fn is_held_by_another(&self, holder: u32) -> bool {
        self.0.load(Ordering::Relaxed) & !OVERRIDE & !bit(holder) != 0
    }
}

fn bit(holder: u32) -> u32 {
    if holder < MAX_HOLDERS { 1 << holder } else { 0 }
}

/// Returns the result of the device's comparison.
fn passes(word: u32) -> bool {
    word.wrapping_sub(Holders::PASS) as i32 >= 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gate_is_closed_while_held_and_not_overridden(
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
    fn clear_removes_bits_without_a_holder_too() {
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
    fn holder_number_without_a_bit_is_ignored() {
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
    fn override_loses_no_concurrent_change_of_holders() {
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
    fn bit_of_a_dead_holder_is_cleared_during_other_changes() {
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
