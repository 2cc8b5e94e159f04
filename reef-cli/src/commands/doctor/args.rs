//! Arguments of `reef doctor`.

use super::finding::Check;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Checks that must be ok; others only must not be wrong.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CHECK")]
    pub(crate) need: Vec<Check>,
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef].
    #[arg(long)]
    pub(crate) folder: Option<PathBuf>,
    /// Library that takes the driver's place [default: $REEF_SHIM, or next to this program].
    #[arg(long)]
    pub(crate) shim: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
