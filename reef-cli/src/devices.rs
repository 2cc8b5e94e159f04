//! `reef devices`.

use anyhow::Result;
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let devices = reef::devices();
    if args.json {
        let rows: Vec<_> = devices
            .iter()
            .map(|(backend, found)| match found {
                Ok(devices) => json!({ "backend": backend, "devices": devices }),
                Err(error) => json!({ "backend": backend, "error": error.to_string() }),
            })
            .collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    for (backend, found) in devices {
        match found {
            Ok(devices) => devices
                .iter()
                .enumerate()
                .for_each(|(ordinal, device)| println!("{backend}:{ordinal}  {device}")),
            Err(error) => println!("{backend}    none: {error}"),
        }
    }
    for (backend, path) in reef::kernel_compilers() {
        println!("{backend} kernels can be compiled with {path}");
    }
    Ok(())
}
