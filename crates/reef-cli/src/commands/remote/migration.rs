//! `reef remote migrate|snapshot|restore`: sessions in other processes.

use crate::report::checks::check_server;
use crate::report::output::print;
use anyhow::{Result, anyhow};
use reef_remote_worker::{Destination, MigrationReport, SessionName, migrate, restore, snapshot};
use serde_json::json;
use std::path::PathBuf;

/// Another server.
#[derive(clap::Args)]
struct To {
    /// Address of the server: HOST:PORT, tls:HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// File with a token of that server: the session belongs to its tenant there.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) of authorities for tls: addresses.
    #[arg(long, value_name = "FILE")]
    remote_ca: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Session of this machine.
#[derive(clap::Args)]
struct Session {
    /// Process number of the session's worker, or SERVER.NUMBER if it has none, as `reef remote ps`
    /// says.
    #[arg(value_name = "SESSION")]
    name: SessionName,
}

#[derive(clap::Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    session: Session,
    #[command(flatten)]
    to: To,
}

#[derive(clap::Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    session: Session,
    /// Folder for the snapshot.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// End the session; its program waits up to 30 s for `reef remote restore`.
    #[arg(long)]
    end: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Restore {
    /// Folder of the snapshot.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    to: To,
}

impl To {
    fn place(&self) -> Result<Destination> {
        check_server("--to", &self.to)?;
        let mut place = Destination::new(&self.to);
        (place.token, place.ca) = (self.token_file.clone(), self.remote_ca.clone());
        Ok(place)
    }
}

fn say(what: &str, migrated: &MigrationReport, is_json: bool) -> Result<()> {
    let millis = migrated.pause.as_secs_f64() * 1e3;
    let MigrationReport { memory, delta, is_client_told, .. } = migrated;
    if is_json {
        return print(json!({
            "pause_ms": millis,
            "memory_bytes": memory,
            "pause_bytes": delta,
            "client_told": is_client_told,
        }));
    }
    let size = format!("{memory} bytes of memory, {delta} of them");
    print(format_args!("{what}: {size} in a pause of {millis:.1} ms"))?;
    if !is_client_told {
        print("the program has no connection: the server must run until it comes back")?;
    }
    Ok(())
}

pub(crate) fn run_migrate(command: &Migrate) -> Result<()> {
    let Migrate { session, to } = command;
    let migrated = migrate(session.name, &to.place()?).map_err(|e| anyhow!(e))?;
    say("moved", &migrated, to.json)
}

pub(crate) fn run_snapshot(command: &Snapshot) -> Result<()> {
    let Snapshot { session, out, end, json } = command;
    let migrated = snapshot(session.name, out, *end).map_err(|e| anyhow!(e))?;
    say("written", &migrated, *json)
}

pub(crate) fn run_restore(command: &Restore) -> Result<()> {
    let bytes = restore(&command.folder, &command.to.place()?).map_err(|e| anyhow!(e))?;
    if command.to.json {
        print(json!({ "memory_bytes": bytes }))
    } else {
        print(format_args!("restored: {bytes} bytes of memory"))
    }
}
