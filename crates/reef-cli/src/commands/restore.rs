//! `reef restore`: finishes a run from its snapshot, or starts a program from its files.

use super::run::command::run_from;
use super::run::note::Note;
#[cfg(feature = "daemon")]
use super::suspend;
#[cfg(feature = "daemon")]
use crate::remote::daemon::DaemonAddress;
use crate::report::device::resolve;
use crate::report::usage::Usage;
use crate::workload::stopping::{Stop, StopArgs};
use anyhow::{Context, Result};
use reef_snapshot::{FILE, Snapshot};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of `reef run --checkpoint` or `reef checkpoint`.
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Device of a run, of the same backend [default: the run's].
    #[arg(long)]
    device: Option<String>,
    #[command(flatten)]
    stop: StopArgs,
    #[cfg(feature = "daemon")]
    #[command(flatten)]
    place: DaemonAddress,
    /// Print JSON about a program; a run prints what it was told to.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(mut args: Args) -> Result<()> {
    let is_missing = || args.from.join(FILE).try_exists().is_ok_and(|is_there| !is_there);
    if args.from.is_file() || is_missing() {
        if args.from.join("description").exists() {
            return program(&args);
        }
        let of = "must be a folder of `reef run --checkpoint` or `reef checkpoint`";
        return Err(Usage(format!("{}: {of}", args.from.display())).into());
    }
    let snapshot = Snapshot::open(&args.from)?;
    #[cfg(feature = "daemon")]
    if args.place.is_given() {
        let text = "--socket-dir, --socket, --url: the folder has a run, and they are for programs";
        return Err(Usage(text.into()).into());
    }
    if let Some(folder) = &mut args.stop.checkpoint {
        // Names are of the run's folder afterwards.
        *folder = std::path::absolute(&*folder).with_context(|| folder.display().to_string())?;
    }
    let mut note = Note::read(&args.from, &snapshot)?;
    note.args.json |= args.json;
    if let Some(device) = &args.device {
        note.args.device = resolve(device)?;
    }
    let stop = Stop::begin(&args.stop)?;
    let run = note.args.clone();
    run_from(&run, &stop, Some((snapshot, note)))
}

/// Starts a program.
fn program(args: &Args) -> Result<()> {
    if args.device.is_some() || args.stop.checkpoint.is_some() {
        let text = "--device, --checkpoint: the folder has a program, and they are for runs";
        return Err(Usage(text.into()).into());
    }
    #[cfg(feature = "daemon")]
    return suspend::restore(&args.from, &args.place, args.json);
    #[cfg(not(feature = "daemon"))]
    Err(Usage("restoring a program is not in this build: build it with feature `daemon`".into())
        .into())
}
