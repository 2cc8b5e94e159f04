//! Devices of a daemon, and `reef ctl drain`.

use crate::remote::daemon::{Daemon, DaemonAddress, segment};
use crate::report::output::print;
use crate::report::table::{Table, table};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest time to move models to other devices.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time of other requests.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Device, as `reef ctl status` calls it, such as cuda:1.
    device: String,
    #[command(flatten)]
    place: DaemonAddress,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A device as the daemon describes it.
#[derive(Deserialize, Serialize)]
pub(super) struct Device {
    name: String,
    device: String,
    units: u64,
    load: f64,
    lost: Option<String>,
    /// Best-effort queues whose work may use its memory for ever.
    #[serde(default)] // an older daemon does not say
    abandoned: u64,
    models: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Devices {
    devices: Vec<Device>,
}

/// Devices that the daemon has.
pub(super) fn devices(daemon: &Daemon) -> Result<Vec<Device>> {
    parse(&daemon.get("/reef/devices", TIMEOUT)?, daemon)
}

fn parse(answer: &[u8], daemon: &Daemon) -> Result<Vec<Device>> {
    let devices: Devices = serde_json::from_slice(answer)
        .with_context(|| format!("{}: the answer is not a list of devices", daemon.name()))?;
    Ok(devices.devices)
}

pub(super) fn as_table(devices: &[Device]) -> Table {
    let mut table = table(&["device", "units", "load", "models", "state", "name"]);
    for device in devices {
        let state = state(device);
        let (units, load) = (device.units.to_string(), format!("{:.2}", device.load));
        let models = device.models.len().to_string();
        table.add_row([&device.name, &units, &load, &models, &state, &device.device]);
    }
    table
}

fn state(device: &Device) -> String {
    match (&device.lost, device.abandoned) {
        (Some(why), _) => format!("out: {why}"),
        (None, 0) => "serves".into(),
        (None, queues) => format!("serves, keeps memory of {queues} abandoned"),
    }
}

pub(super) fn drain(args: &Args) -> Result<()> {
    let daemon = args.place.daemon()?;
    let path = format!("/reef/devices/{}/mark-lost", segment(&args.device));
    let devices = parse(&daemon.post(&path, DRAIN_TIMEOUT)?, &daemon)?;
    if args.json {
        return print(serde_json::to_string_pretty(&devices)?);
    }
    print(as_table(&devices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_names_a_loss_or_what_keeps_memory() {
        let read = |more: &str| -> Device {
            let fields =
                r#""name": "cuda:0", "device": "x", "units": 1, "load": 0.0, "models": []"#;
            serde_json::from_str(&format!("{{{fields}{more}}}")).unwrap()
        };
        assert_eq!(state(&read("")), "serves");
        assert_eq!(state(&read(r#", "lost": null, "abandoned": 0"#)), "serves");
        let kept = "serves, keeps memory of 2 abandoned";
        assert_eq!(state(&read(r#", "abandoned": 2"#)), kept);
        assert_eq!(state(&read(r#", "lost": "hung", "abandoned": 2"#)), "out: hung");
    }
}
