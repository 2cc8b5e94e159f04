//! Budgets that a dispatcher has granted.

use crate::fault::{Fault, Result};
use parking_lot::Mutex;
use reef::Rate;
use std::sync::Arc;

/// Share of a device that best-effort work keeps, and shares of clients with a budget.
#[derive(Debug)]
pub(crate) struct Shares {
    reserve: f64,
    granted: Mutex<f64>,
}

/// A granted budget, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Grant {
    shares: Arc<Shares>,
    share: f64,
}

impl Shares {
    /// # Errors
    ///
    /// `Invalid` if the reserve is not a share of less than 1.
    pub(crate) fn new(reserve: f64) -> Result<Arc<Self>> {
        if !(0.0..1.0).contains(&reserve) {
            let text = format!("reserve must be at least 0 and less than 1, got {reserve}");
            return Err(Fault::invalid(text));
        }
        Ok(Arc::new(Self { reserve, granted: Mutex::new(0.0) }))
    }

    /// Grants a budget.
    ///
    /// # Errors
    ///
    /// `Busy` if there is not as much left.
    pub(crate) fn grant(self: &Arc<Self>, rate: Rate) -> Result<Grant> {
        let (share, mut granted) = (rate.share(), self.granted.lock());
        let left = (1.0 - self.reserve - *granted).max(0.0);
        if share > left + 1e-9 {
            return Err(Fault::busy(format!(
                "a budget of {rate} is {:.1} % of the device, of which {:.1} % are left",
                100.0 * share,
                100.0 * left
            )));
        }
        *granted += share;
        Ok(Grant { shares: self.clone(), share })
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        *self.shares.granted.lock() -= self.share;
    }
}
