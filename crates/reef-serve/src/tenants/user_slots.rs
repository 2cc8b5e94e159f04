//! Slots for users of this machine, each of which is taken until its guard is dropped.

use parking_lot::Mutex;
use reef_guest::slots::{Full, SlotShares, Slots, Standing, Timeouts};
use std::sync::Arc;
use std::time::Instant;

#[derive(Clone, Debug)]
pub(crate) struct UserSlots(Arc<Mutex<Slots<u32, ()>>>);

/// Slot of a user, until this is dropped.
#[derive(Debug)]
pub(crate) struct UserSlot {
    slots: UserSlots,
    number: u64,
}

impl UserSlots {
    pub(crate) fn new(shares: SlotShares) -> Self {
        Self(Arc::new(Mutex::new(Slots::new(shares))))
    }

    /// Takes a slot for a user.
    ///
    /// # Errors
    ///
    /// The share that is full.
    pub(crate) fn enter(&self, uid: u32) -> Result<UserSlot, Full> {
        let (standing, now) = (Standing::of_user(uid), Instant::now());
        let entered = self.0.lock().enter(uid, standing, Timeouts::WORKING, (), now);
        let number = entered.map_err(|(full, ())| full)?;
        Ok(UserSlot { slots: self.clone(), number })
    }

    /// Number of slots that are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for UserSlot {
    fn drop(&mut self) {
        self.slots.0.lock().remove(self.number);
    }
}
