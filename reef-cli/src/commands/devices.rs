//! `reef devices`.

use crate::report::output::print;
use anyhow::Result;
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
    for (backend, found) in devices {
        match found {
            Ok(devices) => {
                for (ordinal, device) in devices.iter().enumerate() {
                    print(format_args!("{backend}:{ordinal}  {device}"))?;
                }
            }
            Err(error) => print(format_args!("{backend}    none: {error}"))?,
        }
    }
    for (backend, path) in reef::kernel_compilers() {
        print(format_args!("{backend} kernels can be compiled with {path}"))?;
    }
    Ok(())
}
