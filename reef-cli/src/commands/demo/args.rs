//! What `reef demo` shows.

use reef::PreemptLevel;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The device: cpu, cpu:0?units=4 and so on; `reef devices` lists what is there.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
    /// How deep REEF preempts.
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) level: Level,
    /// The real-time client's network.
    #[arg(long, default_value = "resnet18")]
    pub(crate) rt: String,
    /// The best-effort clients' networks [default: resnet50,densenet121,inception_v3,resnet18].
    #[arg(long, value_delimiter = ',')]
    pub(crate) be: Vec<String>,
    /// A photo (JPEG or PNG) that the real-time client looks at.
    #[arg(long)]
    pub(crate) image: Option<PathBuf>,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    pub(crate) size: Option<usize>,
    /// Seconds for each measurement [default: 4].
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Where the plot and the trace go.
    #[arg(long, default_value = "reef-demo")]
    pub(crate) out: PathBuf,
    /// Prints JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How deep to preempt, as typed.
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

/// What was asked for, completed.
pub(crate) struct Chosen<'a> {
    pub(crate) args: &'a Args,
    pub(crate) be: Vec<String>,
    pub(crate) size: Option<usize>,
    pub(crate) seconds: f64,
    /// The device is software: what isn't said on the command line is small.
    pub(crate) simulated: bool,
}

impl<'a> Chosen<'a> {
    pub(crate) fn of(args: &'a Args, simulated: bool) -> Self {
        let simulated = simulated && args.device.starts_with("hip");
        let (be, size, seconds) = match simulated {
            true => ("resnet18", Some(32), 6.0),
            false => ("resnet50,densenet121,inception_v3,resnet18", None, 4.0),
        };
        let be = match args.be.is_empty() {
            true => be.split(',').map(Into::into).collect(),
            false => args.be.clone(),
        };
        let (size, seconds) = (args.size.or(size), args.seconds.unwrap_or(seconds));
        Self { args, be, size, seconds, simulated }
    }
}
