//! Arguments of `reef demo`.

use crate::report::{device, time};
use crate::workload::networks::Sizes;
use reef::PreemptLevel;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value = device::AUTO, help = device::HELP)]
    pub(crate) device: String,
    /// Deepest level at which REEF preempts.
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) level: Level,
    /// Network of the real-time client.
    #[arg(long = "rt-model", value_name = "MODEL", default_value = "resnet18")]
    pub(crate) rt: String,
    /// Networks of the best-effort clients [default: resnet50,densenet121,inception_v3,resnet18].
    #[arg(long = "be-model", value_name = "MODEL", value_delimiter = ',')]
    pub(crate) be: Vec<String>,
    /// Photo (JPEG or PNG) to classify.
    #[arg(long)]
    pub(crate) image: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Time of each measurement, such as 500ms or 5s [default: 3500ms]; requests next to long
    /// blocks are measured for half of it.
    #[arg(long, value_parser = time::parse)]
    pub(crate) time: Option<Duration>,
    /// Folder to write the plot and the trace to.
    #[arg(long, value_name = "DIR", default_value = "reef-demo")]
    pub(crate) out: PathBuf,
    /// Print JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Preemption level, as typed.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Level {
    HostQueue,
    DeviceQueue,
    All,
}

impl From<Level> for PreemptLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::HostQueue => Self::HostQueue,
            Level::DeviceQueue => Self::DeviceQueue,
            Level::All => Self::All,
        }
    }
}

/// The arguments with defaults filled in.
pub(crate) struct Chosen<'a> {
    pub(crate) args: &'a Args,
    pub(crate) be: Vec<String>,
    pub(crate) sizes: Sizes,
    pub(crate) time: Duration,
    /// The device is software: what isn't said on the command line is small.
    pub(crate) simulated: bool,
}

impl<'a> Chosen<'a> {
    pub(crate) fn of(args: &'a Args, simulated: bool) -> Self {
        let simulated = simulated && args.device.starts_with("hip");
        let (be, size, time) = if simulated {
            ("resnet18", Some(32), Duration::from_secs(6))
        } else {
            ("resnet50,densenet121,inception_v3,resnet18", None, Duration::from_millis(3500))
        };
        let be = if args.be.is_empty() {
            be.split(',').map(Into::into).collect()
        } else {
            args.be.clone()
        };
        let sizes = Sizes { size: args.sizes.size.or(size), ..args.sizes.clone() };
        Self { args, be, sizes, time: args.time.unwrap_or(time), simulated }
    }
}
