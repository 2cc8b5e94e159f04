//! Charges of one reader, and its last refusal.

use super::budget::{Budget, Charge, Exhausted};
use std::cell::RefCell;

/// The budget of one reader, which remembers that it refused something: readers of text say what is
/// wrong in words, and these would not tell a file that is broken from one that is too large.
#[derive(Debug)]
pub(crate) struct Ledger {
    budget: Budget,
    refused: RefCell<Option<Exhausted>>,
}

impl Ledger {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), refused: RefCell::default() }
    }

    /// Takes `bytes` until the charge is dropped.
    pub(crate) fn charge(&self, bytes: u64) -> Result<Charge, Exhausted> {
        self.budget.charge(bytes).inspect_err(|why| self.note(why))
    }

    /// Takes `bytes` for as long as the budget is there.
    pub(crate) fn keep(&self, bytes: u64) -> Result<(), Exhausted> {
        self.budget.take(bytes).inspect_err(|why| self.note(why))
    }

    /// The system had no memory.
    pub(super) fn refused_by_system(&self, asked: u64) -> Exhausted {
        let why = Exhausted::System { asked };
        self.note(&why);
        why
    }

    /// Last refusal, if there was one.
    pub(crate) fn refusal(&self) -> Option<Exhausted> {
        self.refused.borrow().clone()
    }

    fn note(&self, why: &Exhausted) {
        *self.refused.borrow_mut() = Some(why.clone());
    }
}
