//! `reef remote migrate|snapshot|restore`: sessions of unmodified programs.

use crate::report::usage::Usage;
use anyhow::{Result, anyhow};
use reef_remote_worker::{Carried, Place, migrate, restore, snapshot};
use std::path::PathBuf;

/// Another server.
#[derive(clap::Args)]
pub(crate) struct To {
    /// Address of the server: HOST:PORT, tls:HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// File with the server's token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) of authorities for tls: addresses.
    #[arg(long, value_name = "FILE")]
    remote_ca: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Migrate {
    /// Process number of the session's worker on this machine.
    session: u32,
    #[command(flatten)]
    to: To,
}

#[derive(clap::Args)]
pub(crate) struct Snapshot {
    /// Process number of the session's worker on this machine.
    session: u32,
    /// Folder for the snapshot.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// End the session; its program waits up to 30 s for `reef remote restore`.
    #[arg(long)]
    end: bool,
}

#[derive(clap::Args)]
pub(crate) struct Restore {
    /// Folder of the snapshot.
    folder: PathBuf,
    #[command(flatten)]
    to: To,
}

impl To {
    fn place(self) -> Result<Place> {
        if self.to.is_empty() {
            anyhow::bail!(Usage("--to: must be an address".into()));
        }
        let mut place = Place::new(&self.to);
        (place.token, place.ca) = (self.token_file, self.remote_ca);
        Ok(place)
    }
}

fn say(what: &str, carried: &Carried) {
    let pause = carried.pause.as_secs_f64() * 1e3;
    println!(
        "{what}: {} bytes of memory, {} in a pause of {pause:.1} ms",
        carried.memory, carried.delta
    );
}

pub(crate) fn run_migrate(command: Migrate) -> Result<()> {
    let carried = migrate(command.session, &command.to.place()?).map_err(|e| anyhow!(e))?;
    say("moved", &carried);
    Ok(())
}

pub(crate) fn run_snapshot(command: &Snapshot) -> Result<()> {
    let Snapshot { session, out, end } = command;
    let carried = snapshot(*session, out, *end).map_err(|e| anyhow!(e))?;
    say("written", &carried);
    Ok(())
}

pub(crate) fn run_restore(command: Restore) -> Result<()> {
    let bytes = restore(&command.folder, &command.to.place()?).map_err(|e| anyhow!(e))?;
    println!("restored: {bytes} bytes of memory");
    Ok(())
}
