//! `reef ctl status`: whether a daemon serves, on which devices, and what.

use super::{devices, models};
use crate::remote::daemon::{DaemonAddress, Error};
use crate::report::output::{print, printable};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest time of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: DaemonAddress,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let daemon = args.place.daemon()?;
    let server: Value = serde_json::from_slice(&daemon.get("/v2", TIMEOUT)?).unwrap_or_default();
    let ready = match daemon.get("/v2/health/ready", TIMEOUT) {
        Ok(_) => None,
        Err(Error::Refused(status, why)) => Some(format!("{status} {why}").trim().to_owned()),
        Err(error) => return Err(error.into()),
    };
    let (devices, models) = (devices::devices(&daemon)?, models::index(&daemon)?);
    let (name, version) = (daemon.name(), server["version"].as_str().unwrap_or("?"));
    if args.json {
        let facts = json!({
            "daemon": name, "version": version, "ready": ready.is_none(),
            "devices": devices, "models": models,
        });
        print(serde_json::to_string_pretty(&facts)?)?;
    } else {
        let state = if ready.is_none() { "ready" } else { "not ready" };
        print(printable(&format!("{name}: {state}, version {version}\n")))?;
        print(format_args!("{}\n", devices::as_table(&devices)))?;
        print(models::as_table(&models))?;
    }
    match ready {
        None => Ok(()),
        Some(why) => bail!("{name}: not ready: {why}"),
    }
}
