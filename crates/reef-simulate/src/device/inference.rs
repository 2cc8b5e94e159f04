//! Inference of a network on a device.

use crate::arrivals::{exponential, normal};
use crate::profile::{NetworkProfile, Peak, Service};
use rand_chacha::ChaCha8Rng;

/// 99th percentile of the normal distribution.
const NORMAL_99: f64 = 2.326_347_9;

/// A network, as the event loop uses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inference {
    /// Nanoseconds alone on the device.
    pub(crate) alone: f64,
    pub(crate) sensitivity: f64,
    pub(crate) pressure: f64,
    service: Service,
    /// Standard deviation of the logarithm of the time alone.
    spread: f64,
    /// The first part of each inference.
    pub(crate) peak: Option<Peak>,
    /// Nanoseconds of a kernel alone outside of the peak, and in it. Zero: nothing runs on.
    pub(crate) kernels: [f64; 2],
}

impl Inference {
    pub(crate) fn new(network: &NetworkProfile) -> Self {
        let NetworkProfile { alone_us, service, sensitivity, pressure, tail, peak, kernel_us } =
            *network;
        let spread = libm::log(tail) / NORMAL_99;
        let kernels = [kernel_us, peak.map_or(0.0, |peak| peak.kernel_us)].map(|time| time * 1e3);
        Self { alone: alone_us * 1e3, sensitivity, pressure, service, spread, peak, kernels }
    }

    /// Nanoseconds that the next one takes alone.
    pub(crate) fn work(&self, rng: &mut ChaCha8Rng) -> f64 {
        match self.service {
            Service::Fixed if self.spread == 0.0 => self.alone,
            Service::Fixed => self.alone * libm::exp(self.spread * normal(rng)),
            Service::Exponential => exponential(rng, self.alone),
        }
    }

    /// Returns the factor by which others of this pressure in all make it longer.
    pub(crate) fn slowdown(&self, pressure: f64) -> f64 {
        1.0 + self.sensitivity * pressure
    }
}
