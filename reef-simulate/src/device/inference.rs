//! Inference of a network on a device.

use crate::arrivals::exponential;
use crate::profile::{NetworkProfile, Service};
use rand_chacha::ChaCha8Rng;

/// A network, as the event loop uses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inference {
    /// Nanoseconds alone on the device.
    pub(crate) alone: f64,
    pub(crate) sensitivity: f64,
    pub(crate) pressure: f64,
    service: Service,
}

impl Inference {
    pub(crate) fn new(network: &NetworkProfile) -> Self {
        let NetworkProfile { alone_us, service, sensitivity, pressure } = *network;
        Self { alone: alone_us * 1e3, sensitivity, pressure, service }
    }

    /// Nanoseconds that the next one takes alone.
    pub(crate) fn work(&self, rng: &mut ChaCha8Rng) -> f64 {
        match self.service {
            Service::Fixed => self.alone,
            Service::Exponential => exponential(rng, self.alone),
        }
    }

    /// Returns the factor by which others of this pressure in all make it longer.
    pub(crate) fn slowdown(&self, pressure: f64) -> f64 {
        1.0 + self.sensitivity * pressure
    }
}
