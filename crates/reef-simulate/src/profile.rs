//! Measured profiles of a device and of networks on it.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Measured numbers of one kind of device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Costs of stopping and restoring.
    pub device: DeviceProfile,
    /// Networks by name.
    pub networks: BTreeMap<String, NetworkProfile>,
}

/// Costs of stopping and restoring best-effort work on a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceProfile {
    /// Delay of a real-time task for each best-effort queue that had to be stopped, in µs.
    #[serde(default)]
    pub stop_us: f64,
    /// Time until a preemption at level `All` is confirmed, in µs.
    #[serde(default)]
    pub quiesce_us: f64,
    /// Time until a preemption at a shallower level is confirmed, which waits for what runs, in µs.
    #[serde(default)]
    pub run_out_us: f64,
    /// Time from a restore until best-effort work makes progress, in µs.
    #[serde(default)]
    pub resume_us: f64,
    /// Part of its throughput that best-effort work keeps while it is capped: 0 if the device
    /// doesn't cap.
    #[serde(default)]
    pub capped_kept: f64,
    /// Part of their pressure that networks exert while they are capped.
    #[serde(default)]
    pub capped_pressure: f64,
    /// Period of the windows of unmodified programs, in µs: `guests.colocate_period_us`.
    #[serde(default = "period")]
    pub period_us: f64,
    /// Time from the opening of a gate until its program makes progress, in µs.
    #[serde(default)]
    pub open_us: f64,
    /// Time for which a program runs on after its gate has closed, in µs.
    #[serde(default)]
    pub run_on_us: f64,
    /// Time that the gate before each kernel of a program costs while it runs in windows, in µs.
    #[serde(default)]
    pub gate_us: f64,
}

/// Measured numbers of a network.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkProfile {
    /// Time of one inference alone on the device, in µs.
    pub alone_us: f64,
    /// Distribution of the times of inferences.
    #[serde(default)]
    pub service: Service,
    /// Slowdown next to work of pressure 1: 0.3 is 1.3 times as long.
    #[serde(default)]
    pub sensitivity: f64,
    /// Slowdown of others, as a factor to their sensitivity.
    #[serde(default = "one")]
    pub pressure: f64,
    /// 99th percentile of the time alone, as a multiple of the median. Of `fixed` alone.
    #[serde(default = "one")]
    pub tail: f64,
    /// First part of each inference, if it slows others more than the rest.
    #[serde(default)]
    pub peak: Option<Peak>,
    /// Mean time of a kernel alone, in µs. One that has begun ends, though the gate has closed.
    #[serde(default)]
    pub kernel_us: f64,
}

/// Part of each inference that slows others more than the rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// Part of the time of an inference.
    pub part: f64,
    /// Pressure in that part.
    pub pressure: f64,
    /// Mean time of a kernel alone in that part, in µs.
    #[serde(default)]
    pub kernel_us: f64,
}

/// Distribution of the times of inferences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// All alike.
    #[default]
    Fixed,
    /// Exponential, with the given mean.
    Exponential,
}

fn period() -> f64 {
    1000.0
}

fn one() -> f64 {
    1.0
}

impl Profile {
    /// Checks that all numbers make sense.
    ///
    /// # Errors
    ///
    /// The first number that doesn't, by name.
    pub fn check(&self) -> Result<(), Error> {
        self.device.check()?;
        for (name, network) in &self.networks {
            let NetworkProfile { alone_us, sensitivity, pressure, tail, peak, kernel_us, .. } =
                network;
            in_range(&format!("networks.{name}.alone_us"), *alone_us, 0.001, 1e9)?;
            in_range(&format!("networks.{name}.sensitivity"), *sensitivity, 0.0, 1e3)?;
            in_range(&format!("networks.{name}.pressure"), *pressure, 0.0, 1e3)?;
            in_range(&format!("networks.{name}.tail"), *tail, 1.0, 100.0)?;
            in_range(&format!("networks.{name}.kernel_us"), *kernel_us, 0.0, 1e9)?;
            let Some(Peak { part, pressure, kernel_us }) = peak else { continue };
            in_range(&format!("networks.{name}.peak.part"), *part, 0.0, 1.0)?;
            in_range(&format!("networks.{name}.peak.pressure"), *pressure, 0.0, 1e3)?;
            in_range(&format!("networks.{name}.peak.kernel_us"), *kernel_us, 0.0, 1e9)?;
        }
        Ok(())
    }
}

impl DeviceProfile {
    fn check(&self) -> Result<(), Error> {
        in_range("device.stop_us", self.stop_us, 0.0, 1e9)?;
        in_range("device.quiesce_us", self.quiesce_us, 0.0, 1e9)?;
        in_range("device.run_out_us", self.run_out_us, 0.0, 1e9)?;
        in_range("device.resume_us", self.resume_us, 0.0, 1e9)?;
        in_range("device.capped_kept", self.capped_kept, 0.0, 1.0)?;
        in_range("device.capped_pressure", self.capped_pressure, 0.0, 1e3)?;
        in_range("device.period_us", self.period_us, 100.0, 1e6)?;
        in_range("device.open_us", self.open_us, 0.0, 1e6)?;
        in_range("device.run_on_us", self.run_on_us, 0.0, 1e6)?;
        in_range("device.gate_us", self.gate_us, 0.0, 1e6)
    }
}

/// Checks that a number is in a range, both ends included; NaN is in none.
pub(crate) fn in_range(name: &str, value: f64, min: f64, max: f64) -> Result<(), Error> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Error::invalid(format!("{name} must be from {min} to {max}, got {value}"))
}
