//! `reef devices`: the devices of this machine, and what each can do.

use crate::report::output::print;
use crate::report::table::table;
use anyhow::Result;
use reef::op::Operators;
use reef::{DeviceInfo, Visit, with_device};
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let devices = reef::devices();
    if args.json {
        let rows: Vec<_> = devices
            .iter()
            .map(|(backend, found)| match found {
                Ok(devices) => json!({ "backend": backend, "devices": devices, "error": null }),
                Err(error) => {
                    json!({ "backend": backend, "devices": [], "error": error.to_string() })
                }
            })
            .collect();
        return print(serde_json::to_string_pretty(&rows)?);
    }
    let mut rows = table(&["device", "units", "memory", "level", "features", "name"]);
    let mut without = Vec::new();
    for (backend, found) in devices {
        match found {
            Ok(names) => {
                for (ordinal, name) in names.into_iter().enumerate() {
                    let device = format!("{backend}:{ordinal}");
                    rows.add_row(row(device, name));
                }
            }
            Err(error) => without.push(format!("{backend}: none ({error})")),
        }
    }
    print(rows)?;
    without.into_iter().try_for_each(print)?;
    for (backend, path) in reef::kernel_compilers() {
        print(format_args!("{backend} kernels can be compiled with {path}"))?;
    }
    Ok(())
}

/// A device's row; only its name if it cannot be opened.
fn row(device: String, name: String) -> [String; 6] {
    let none = || "–".to_owned();
    match with_device(&device, Info) {
        Ok(info) => {
            let memory = info.memory.map_or_else(none, gibibytes);
            let features = if info.features.is_empty() { none() } else { info.features.join(", ") };
            [device, info.units.to_string(), memory, info.level.to_string(), features, name]
        }
        Err(error) => [device, none(), none(), none(), format!("not usable: {error}"), name],
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Opens a device and asks for its facts.
struct Info;

impl Visit for Info {
    type Output = DeviceInfo;

    fn visit<D: Operators>(self, device: D) -> DeviceInfo {
        device.info()
    }
}
