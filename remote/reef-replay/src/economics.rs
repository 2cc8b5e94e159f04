//! Limits of recording and replaying where they save nothing.
//!
//! A template that saves less than half of its bytes is dropped, and its sequence is not made a
//! template again. So is one whose operations diverge at the same place three times in a row, until
//! the sequence repeats anew. A thread in which nothing repeats is not recorded for longer and
//! longer pauses.

use std::collections::VecDeque;

/// Uses after which a template is judged.
const USES: u32 = 8;
/// Divergences at one place after which a template is dropped.
const MAX_MISSES: u32 = 3;
/// Bytes that a sequence must have as frames to become a template.
pub(crate) const MIN_FRAMES_LEN: usize = 128;
/// Sequences that are not made templates again.
const MAX_REFUSED: usize = 64;
/// Segments without a repetition after which a pause begins.
const MAX_FRUITLESS: u32 = 2048;
/// Upper bound of a pause, in segments.
const MAX_PAUSE: u32 = 1 << 20;

/// Account of a template.
#[derive(Debug, Default)]
pub(crate) struct Account {
    uses: u32,
    /// Bytes that its operations would have taken as frames, and those that they took.
    plain: usize,
    taken: usize,
    /// Place of the last divergence, and how often it was the same one.
    missed_at: usize,
    misses: u32,
}

impl Account {
    /// Adds a use. Returns whether the template is worth its bytes.
    pub(crate) fn used(&mut self, plain: usize, taken: usize) -> bool {
        (self.uses, self.plain) = (self.uses + 1, self.plain + plain);
        self.taken += taken;
        if self.uses < USES {
            return true;
        }
        let is_worth = self.taken * 2 <= self.plain;
        (self.uses, self.plain, self.taken) = (0, 0, 0);
        is_worth
    }

    /// Notes that a sequence came to its end, or to a wait.
    pub(crate) fn reset_misses(&mut self) {
        self.misses = 0;
    }

    /// Notes a divergence. Returns whether it is one too many.
    pub(crate) fn missed(&mut self, at: usize) -> bool {
        self.misses = if self.missed_at == at { self.misses + 1 } else { 1 };
        self.missed_at = at;
        self.misses >= MAX_MISSES
    }
}

/// Account of a thread.
#[derive(Debug, Default)]
pub(crate) struct Economics {
    refused: VecDeque<u64>,
    fruitless: u32,
    /// Segments that are left of a pause, and the length of the last pause.
    pause: u32,
    last_pause: u32,
}

impl Economics {
    /// Refuses a sequence for good.
    pub(crate) fn refuse(&mut self, hash: u64) {
        self.refused.push_back(hash);
        if self.refused.len() > MAX_REFUSED {
            self.refused.pop_front();
        }
    }

    pub(crate) fn is_refused(&self, hash: u64) -> bool {
        self.refused.contains(&hash)
    }

    /// Begins a segment. Returns whether it is recorded.
    pub(crate) fn records(&mut self) -> bool {
        self.pause = self.pause.saturating_sub(1);
        self.pause == 0
    }

    /// Ends a segment that was recorded or replayed. Returns whether a pause begins.
    pub(crate) fn ended(&mut self, repeats: bool) -> bool {
        self.fruitless = if repeats { 0 } else { self.fruitless + 1 };
        if repeats {
            self.last_pause = 0;
        }
        if self.fruitless < MAX_FRUITLESS {
            return false;
        }
        self.fruitless = 0;
        self.last_pause = (self.last_pause * 2).clamp(MAX_FRUITLESS, MAX_PAUSE);
        self.pause = self.last_pause;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_that_saves_less_than_half_is_dropped() {
        let mut account = Account::default();
        let worth: Vec<bool> = (0..16).map(|_| account.used(100, 50)).collect();
        assert_eq!(worth, [true; 16]);
        let worth: Vec<bool> = (0..8).map(|_| account.used(100, 51)).collect();
        assert_eq!(worth, [true, true, true, true, true, true, true, false]);
    }

    #[test]
    fn third_divergence_in_a_row_at_one_place_is_too_many() {
        let mut account = Account::default();
        let missed: Vec<bool> = [4, 4, 5, 4, 4, 4].map(|at| account.missed(at)).into();
        assert_eq!(missed, [false, false, false, false, false, true]);
        account.reset_misses();
        assert!(!account.missed(4));
    }

    #[test]
    fn pauses_grow_until_something_repeats() {
        let mut economics = Economics::default();
        let mut pauses = Vec::new();
        for _ in 0..3 {
            while !economics.ended(false) {
                assert!(economics.records());
            }
            pauses.push((0..).take_while(|_| !economics.records()).count());
        }
        assert_eq!(pauses, [2047, 4095, 8191]);
        economics.ended(true);
        while !economics.ended(false) {}
        assert_eq!((0..).take_while(|_| !economics.records()).count(), 2047);
    }
}
