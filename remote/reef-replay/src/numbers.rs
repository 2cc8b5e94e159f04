//! Numbers of templates, and how much memory all templates of a session take.

use std::sync::{Arc, Mutex};

/// Maximum number of templates of a session.
pub const MAX_TEMPLATES: usize = 256;

/// Maximum number of bytes of all templates of a session.
pub const MAX_TOTAL_LEN: usize = 64 << 20;

#[derive(Debug, Default)]
struct State {
    is_taken: Vec<bool>,
    /// Bytes that the server has under each number. It keeps them until the number is used again.
    held: Vec<usize>,
}

/// Numbers that the threads of a session share.
#[derive(Debug, Clone, Default)]
pub struct Numbers(Arc<Mutex<State>>);

impl Numbers {
    /// Takes a number for a template of this length, if there is one and the server has room.
    pub(crate) fn take(&self, bytes: usize) -> Option<u16> {
        let mut state = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.is_taken.resize(MAX_TEMPLATES, false);
        state.held.resize(MAX_TEMPLATES, 0);
        // A template that the server keeps for no use is replaced first.
        let free = (0..MAX_TEMPLATES).filter(|number| !state.is_taken[*number]);
        let number = free.max_by_key(|number| state.held[*number])?;
        let others = state.held.iter().sum::<usize>() - state.held[number];
        if others + bytes > MAX_TOTAL_LEN {
            return None;
        }
        (state.is_taken[number], state.held[number]) = (true, bytes);
        Some(number as u16)
    }

    /// Gives a number back.
    pub(crate) fn give(&self, number: u16) {
        let mut state = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.is_taken[usize::from(number)] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_run_out_and_come_back() {
        let numbers = Numbers::default();
        let taken: Vec<u16> = std::iter::from_fn(|| numbers.take(1)).collect();
        assert_eq!(taken.len(), MAX_TEMPLATES);
        numbers.give(7);
        assert_eq!((numbers.take(9), numbers.take(1)), (Some(7), None));
        let numbers = Numbers::default();
        let [a, b] = [MAX_TOTAL_LEN / 2, MAX_TOTAL_LEN / 2].map(|len| numbers.take(len).unwrap());
        assert_eq!(numbers.take(1), None, "the server has no room");
        numbers.give(a);
        assert_eq!(numbers.take(2), Some(a), "what it keeps for no use is replaced");
        numbers.give(b);
        assert_eq!(numbers.take(MAX_TOTAL_LEN), None, "the other one is in use");
    }
}
