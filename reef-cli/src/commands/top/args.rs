//! Which daemon `reef top` looks at, and how often.

use crate::remote::daemon::Place;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Seconds from one look to the next.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) interval: f64,
    /// Ends after so many intervals; prints lines, on a terminal too.
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// Prints JSON, an object for each interval.
    #[arg(long)]
    pub(crate) json: bool,
}
