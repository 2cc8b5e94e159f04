//! Measures how long the launches of a network take on a device.

use super::network::Network;
use crate::errors::error::Result;
use crate::files::profile::{Latencies, Profiles};
use reef_core::dkp::Profile;
use reef_core::{Launch, Priority, Stopwatch};
use reef_op::Operators;
use std::time::Duration;

/// Times each launch is measured; the least counts, as the others were disturbed.
const REPEATS: usize = 3;

/// Runs each launch of `network` alone on an idle device and notes its time.
///
/// The time of a round of `n` blocks per unit is derived from the whole: all rounds of a launch are
/// taken to be equal.
///
/// # Errors
///
/// Returns an error of the device.
pub fn measure<D: Operators>(device: &D, network: &Network<D>) -> Result<Latencies> {
    measure_with(device, network, |_| {})
}

/// As [`measure`]; tells `begins` the name of each launch before it is measured.
///
/// # Errors
///
/// Returns the errors of [`measure`].
pub fn measure_with<D: Operators>(
    device: &D,
    network: &Network<D>,
    mut begins: impl FnMut(&str),
) -> Result<Latencies> {
    let mut stopwatch = Stopwatch::new(device, device.queue(Priority::RealTime, None)?)?;
    let mut latencies = Latencies::default();
    let mut total = Duration::ZERO;
    for (launch, name) in network.launches().zip(network.step_names()) {
        begins(&name.launch);
        let least = stopwatch.min_time(REPEATS, [launch])?;
        total += least;
        latencies.insert(&name.launch, &profile(device, launch, least));
    }
    latencies.micros = total.as_micros() as u32;
    Ok(latencies)
}

/// As [`measure`], ready to be attached.
///
/// # Errors
///
/// Returns the errors of [`measure`].
pub fn measured<D: Operators>(device: &D, network: &Network<D>) -> Result<Profiles> {
    Ok(measure(device, network)?.profiles())
}

fn profile<D: Operators>(device: &D, launch: &Launch<D>, whole: Duration) -> Profile {
    let micros = whole.as_micros().max(1) as u32;
    let rounds = launch.blocks().div_ceil(device.info().units).max(1);
    Profile {
        blocks: launch.blocks(),
        resources: device.resources(launch),
        micros,
        round_micros: vec![micros.div_ceil(rounds)],
    }
}
