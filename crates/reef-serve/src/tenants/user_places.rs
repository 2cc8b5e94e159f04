//! Places for users of this machine, each of which is taken until its guard is dropped.

use parking_lot::Mutex;
use reef_guest::places::{Full, Parts, Places, Standing, Timeouts};
use std::sync::Arc;
use std::time::Instant;

/// Places for users.
#[derive(Clone, Debug)]
pub(crate) struct UserPlaces(Arc<Mutex<Places<u32, ()>>>);

/// Place of a user, until this is dropped.
#[derive(Debug)]
pub(crate) struct UserPlace {
    places: UserPlaces,
    number: u64,
}

impl UserPlaces {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(Mutex::new(Places::new(parts))))
    }

    /// Takes a place for a user.
    ///
    /// # Errors
    ///
    /// The part that is full.
    pub(crate) fn enter(&self, uid: u32) -> Result<UserPlace, Full> {
        let (standing, now) = (Standing::of_user(uid), Instant::now());
        let entered = self.0.lock().enter(uid, standing, Timeouts::WORKING, (), now);
        let number = entered.map_err(|(full, ())| full)?;
        Ok(UserPlace { places: self.clone(), number })
    }

    /// Number of places that are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for UserPlace {
    fn drop(&mut self) {
        self.places.0.lock().remove(self.number);
    }
}
