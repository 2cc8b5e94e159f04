//! Demand of a client.

/// Demand of a client for the device that it is placed on, as the client states it: it is not
/// measured. By default it takes no memory, keeps a whole device busy, and moves.
///
/// ```
/// use reef::cluster::Demand;
///
/// // 40 requests a second that take 5 ms each, and 1 GiB.
/// let demand = Demand::default().bytes(1 << 30).load(40.0 * 0.005);
/// assert!(demand.moves);
/// assert!(!demand.stays().moves, "its state can't be made anew");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Demand {
    /// Device memory that it takes for itself, in bytes.
    pub bytes: u64,
    /// The part of a device that it keeps busy, from 0 to 1.
    pub load: f64,
    /// It may be made anew on another device when its own is lost.
    pub moves: bool,
}

impl Default for Demand {
    fn default() -> Self {
        Self { bytes: 0, load: 1.0, moves: true }
    }
}

impl Demand {
    /// With this amount of device memory. [Replicas](crate::cluster::Replicas) that it shares count
    /// for themselves.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// Keeps this part of a device busy: for requests that come at a rate, the rate times the time
    /// of one alone.
    #[must_use]
    pub fn load(self, load: f64) -> Self {
        Self { load, ..self }
    }

    /// It has state on the device that can't be made anew: if the device is lost, it gets an error.
    #[must_use]
    pub fn stays(self) -> Self {
        Self { moves: false, ..self }
    }

    /// Returns the load in millionths; NaN counts as nothing.
    pub(super) fn millionths(&self) -> u64 {
        (self.load.clamp(0.0, 1.0) * 1e6) as u64
    }
}
