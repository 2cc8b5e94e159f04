//! `reef remote end`: the end of a session, as its operator wants.

use crate::remote::daemon::{Daemon, Error};
use crate::remote::servers::socket;
use crate::report::output::print;
use crate::report::usage::Usage;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// Longest time of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Session, as `reef remote ps` names it.
    session: String,
    /// Folder of the servers' control sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let session = &args.session;
    let parts = session
        .split_once('.')
        .and_then(|(server, id)| Some((server.parse::<u32>().ok()?, id.parse::<u64>().ok()?)));
    let Some((server, id)) = parts else {
        bail!(Usage(format!(
            "session: must be SERVER.NUMBER as in `reef remote ps`, got {session:?}"
        )));
    };
    let daemon = Daemon::at_socket(args.socket_dir.as_deref(), &socket(server))?;
    match daemon.post(&format!("/sessions/{id}/end"), TIMEOUT) {
        Ok(_) => print(format_args!("session {session} ends")),
        Err(Error::Absent(..)) => bail!("no server {server} of this user runs here"),
        Err(Error::Refused(_, why)) => bail!("{why}"),
        Err(error) => Err(error.into()),
    }
}
