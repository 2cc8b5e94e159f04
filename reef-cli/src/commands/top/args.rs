//! Which daemon `reef top` looks at, and how often.

use crate::remote::daemon::Place;
use crate::report::time;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Time from one look to the next, such as 200ms.
    #[arg(long, value_parser = time::parse, default_value = "1s")]
    pub(crate) interval: Duration,
    /// End after this many intervals; print lines, on a terminal too.
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// Print JSON, an object for each interval.
    #[arg(long)]
    pub(crate) json: bool,
}
