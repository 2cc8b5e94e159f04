//! Policies to compare: schedulers, with the length of the best-effort hardware queues.

use crate::report::usage::Usage;
use crate::workload::clients::BE_GRAPH;
use reef::scheduler::{self, LatencyTarget, Reef, Scheduler, WidthCounts};
use reef::{ClientConfig, PreemptLevel, did_you_mean, queue::Config};

/// Name that reads as every row, which no option is needed for.
const EVERY: &str = "all";

/// A scheduler as a row of a table.
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) scheduler: Box<dyn Scheduler>,
    /// Commands that the hardware has at once, if that is what makes it a policy.
    pub(crate) window: Option<u64>,
    /// Best-effort blocks run next to real-time kernels.
    pub(crate) pads: bool,
    /// The level of preemption that it is named after.
    pub(crate) level: Option<PreemptLevel>,
    /// Widths next to requests, if a target of latency decides these.
    pub(crate) widths: Option<WidthCounts>,
}

impl Policy {
    /// Policy of a scheduler that [`scheduler::by_name`] knows.
    pub(crate) fn named(name: &str) -> Self {
        let scheduler = scheduler::by_name(name).expect("a name from a list of ours");
        let (window, level, widths) = (None, None, None);
        Self { name: name.into(), scheduler, window, pads: false, level, widths }
    }

    /// One of [`BOTH`](crate::workload::baselines::BOTH), REEF as deep as the device goes.
    pub(crate) fn baseline(name: &str, deepest: PreemptLevel) -> Self {
        match name {
            "reef" => Self::reef(deepest, true),
            "reset" => Self::reef(deepest, false),
            name => Self::named(name),
        }
    }

    /// REEF as deep as `level`.
    pub(crate) fn reef(level: PreemptLevel, pad: bool) -> Self {
        let reef = if pad { Reef::default() } else { Reef::without_padding() };
        let scheduler: Box<dyn Scheduler> = Box::new(reef.level(level));
        let name = scheduler.name().into();
        Self { name, scheduler, window: None, pads: pad, level: None, widths: None }
    }

    /// REEF as deep as `level`, with a target of latency.
    pub(crate) fn target(level: PreemptLevel, ratio: f64) -> Result<Self, Usage> {
        let reef = Self::reef(level, true);
        let scheduler = LatencyTarget::new(reef.scheduler, ratio);
        let scheduler = scheduler.map_err(|error| Usage(format!("--slo: {error}")))?;
        Ok(Self {
            name: format!("target {ratio}"),
            widths: Some(scheduler.counts()),
            scheduler: Box::new(scheduler),
            ..Self::reef(level, true)
        })
    }

    /// Preemption at `level` without padding, under the name of the level.
    pub(crate) fn at(level: PreemptLevel) -> Self {
        Self { name: level.to_string(), level: Some(level), ..Self::reef(level, false) }
    }

    /// Preemption of the virtual queue alone, with `window` commands on the hardware.
    pub(crate) fn host_queue(window: u64) -> Self {
        let name = format!("{}/{window}", PreemptLevel::HostQueue);
        Self { name, window: Some(window), ..Self::at(PreemptLevel::HostQueue) }
    }

    /// Returns whether a name on the command line is its name. `DeviceQueue` is also
    /// `device-queue`, but `all` is not the level `All`, because it reads as every row.
    fn is_called(&self, typed: &str) -> bool {
        if typed == EVERY {
            return false;
        }
        let plain = |text: &str| text.replace('-', "").to_lowercase();
        plain(&self.name) == plain(typed)
    }

    /// Configuration of a best-effort client; `window` is for policies that leave it open.
    pub(crate) fn client(&self, window: u64) -> ClientConfig {
        let window = self.window.unwrap_or(window);
        let queue = Config::default().window(window).level(self.scheduler.level());
        ClientConfig::default().queue(queue)
    }
}

/// Lengths of hardware queues and graphs of best-effort networks.
#[derive(clap::Args)]
pub(crate) struct Lengths {
    /// Hardware queue length of a best-effort network.
    #[arg(long, default_value_t = 4)]
    pub(crate) window: u64,
    /// Launches of a best-effort network in one graph, on devices that have graphs; 1 for none, as
    /// always at level HostQueue.
    #[arg(long, default_value_t = BE_GRAPH)]
    pub(crate) graph: usize,
}

impl Lengths {
    /// Launches that a best-effort network hands over at once under this policy.
    pub(crate) fn graph(&self, policy: &Policy) -> usize {
        if policy.window.is_some() { 1 } else { self.graph }
    }

    /// Refuses a length that no queue can have.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        check_windows("--window", &[self.window])
    }
}

/// Help of `--window` next to `--windows`.
const OTHER_WINDOW: &str = "Hardware queue length of a best-effort network in all other rows";

/// Policies to compare, and lengths of queues.
#[derive(clap::Args)]
#[command(mut_arg("window", |window| window.help(OTHER_WINDOW)))]
pub(crate) struct Choice {
    /// Hardware queue lengths at level HostQueue, a row for each.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    windows: Vec<u64>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
    /// Rows to measure, named as they are printed, such as All,DeviceQueue,streams [default: every
    /// row that the device supports].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    schedulers: Vec<String>,
}

impl Choice {
    /// Refuses lengths that no queue can have.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        check_windows("--windows", &self.windows)?;
        self.lengths.check()
    }

    /// The chosen ones of `policies` and of HostQueue with each length, as far as the device
    /// supports them.
    pub(crate) fn of(
        &self,
        policies: impl IntoIterator<Item = Policy>,
        deepest: PreemptLevel,
    ) -> Result<Vec<Policy>, Usage> {
        let windows = self.windows.iter().map(|&window| Policy::host_queue(window));
        let all: Vec<_> = policies.into_iter().chain(windows).collect();
        self.check_names(&all)?;
        let is_named = |policy: &Policy| self.schedulers.iter().any(|name| policy.is_called(name));
        let wanted = |policy: &Policy| self.schedulers.is_empty() || is_named(policy);
        let fits = |policy: &Policy| policy.scheduler.level() <= deepest;
        Ok(all.into_iter().filter(|policy| wanted(policy) && fits(policy)).collect())
    }

    fn check_names(&self, policies: &[Policy]) -> Result<(), Usage> {
        let is_known = |name: &&String| policies.iter().any(|policy| policy.is_called(name));
        let Some(name) = self.schedulers.iter().find(|name| !is_known(name)) else {
            return Ok(());
        };
        let names: Vec<_> = policies.iter().map(|policy| policy.name.as_str()).collect();
        let hint = if *name == EVERY { "without --schedulers every row is measured; " } else { "" };
        let (have, meant) = (names.join(", "), did_you_mean(name, names));
        Err(Usage(format!("no scheduler {name:?} ({hint}have: {have}){meant}")))
    }
}

/// Refuses lengths that no queue can have.
pub(crate) fn check_windows(option: &str, windows: &[u64]) -> Result<(), Usage> {
    let most = Config::default().capacity as u64;
    match windows.iter().find(|&&window| window == 0 || window > most) {
        None => Ok(()),
        Some(wrong) => Err(Usage(format!("{option} must be from 1 to {most}, got {wrong}"))),
    }
}
