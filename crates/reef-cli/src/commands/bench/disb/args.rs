//! Arguments of `reef bench disb`.

use super::config::Workload;
use super::measure::{Options, TaskSet};
use super::names;
use crate::commands::bench::policy::check_windows;
use crate::report::checks::check_time;
use crate::report::results;
use crate::report::time;
use crate::report::usage::Usage;
use crate::workload::baselines;
use crate::workload::networks::Sizes;
use anyhow::Result;
use reef::scheduler;
use std::path::PathBuf;
use std::time::Duration;

/// Longest lead: more would be a typing error.
const MAX_LEAD: Duration = Duration::from_secs(60);
/// Best-effort tasks without real-time ones.
pub(crate) const BE_ALONE: &str = "BE alone";
/// Real-time tasks without best-effort ones, under a daemon's scheduler.
const RT_ALONE: &str = "RT alone";
/// All tasks under a daemon's scheduler.
const ON_DAEMON: &str = "daemon";
/// Real-time tasks alone, under a scheduler of that name.
const RT_ONLY: &str = "rt-only";

/// Networks that the workload names stand for torchvision's: vgg19-imagenet and vgg for vgg19,
/// resnet152-imagenet for resnet152, resnet for resnet152, densenet201-imagenet and densenet for
/// densenet201, inceptionv3-imagenet and inception for inception_v3; bert and distilbert are built
/// as well. Others need --map.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Workload in DISB's form, that of REEF's sample for it, or that of REEF's artefact.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// Schedulers to run under; with several, best-effort tasks alone come first.
    #[arg(
        long = "schedulers",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "reef",
        conflicts_with = "baseline"
    )]
    pub(crate) scheduler: Vec<String>,
    /// Run under REEF and all of its baselines, each class alone first. On a daemon: each class
    /// alone, then all, under its scheduler.
    #[arg(long, value_enum)]
    pub(crate) baseline: Option<Baseline>,
    /// Time to run, such as 60s [default: the workload's].
    #[arg(long, value_parser = time::parse)]
    pub(crate) time: Option<Duration>,
    /// Replace a network: NAME=NETWORK, NAME=FILE.onnx or NAME=FOLDER.
    #[arg(long, value_name = "NAME=NETWORK", value_parser = names::replacement)]
    pub(crate) map: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Number of requests of each task before any is counted.
    #[arg(long, default_value_t = 100)]
    pub(crate) warm_ups: u32,
    /// Number of requests of each task that are measured alone.
    #[arg(long, default_value_t = 200)]
    pub(crate) alone: u32,
    /// Time from the start of all threads until the first request.
    #[arg(long, value_parser = time::parse, default_value = "5s")]
    pub(crate) lead: Duration,
    /// Hardware queue length of best-effort tasks [default: 2 where they are graphs, else 4].
    #[arg(long)]
    pub(crate) window: Option<u64>,
    /// Run against a daemon, on its models and device, with a process for each client.
    #[arg(long, conflicts_with_all = ["device", "scheduler", "size", "shape", "window"])]
    pub(crate) daemon: bool,
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long = "socket-dir", value_name = "DIR", requires = "daemon")]
    pub(crate) folder: Option<PathBuf>,
    /// Plays this client for a parent that says on stdin what to do.
    #[arg(long, hide = true, requires = "daemon", value_name = "ID")]
    pub(crate) as_client: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Baseline {
    All,
}

impl Args {
    pub(crate) fn options(&self, workload: &Workload) -> Options {
        Options {
            time: self.time.unwrap_or(workload.time),
            lead: self.lead,
            warm_ups: self.warm_ups,
            alone: self.alone,
            window: self.window,
            seed: self.common.seed,
        }
    }

    /// Runs by the names of their rows.
    pub(crate) fn plan(&self) -> Vec<(String, TaskSet)> {
        let tasks_to_run = |name: &str| match name {
            BE_ALONE => TaskSet::BestEffort,
            RT_ALONE | RT_ONLY => TaskSet::RealTime,
            _ => TaskSet::All,
        };
        let named = |name: &str| (name.to_owned(), tasks_to_run(name));
        match self.baseline {
            None if self.daemon => vec![named(ON_DAEMON)],
            Some(Baseline::All) if self.daemon => [BE_ALONE, RT_ALONE, ON_DAEMON].map(named).into(),
            None => {
                let be_alone = (self.scheduler.len() > 1).then_some(BE_ALONE);
                let schedulers = self.scheduler.iter().map(String::as_str);
                be_alone.into_iter().chain(schedulers).map(named).collect()
            }
            Some(Baseline::All) => {
                [BE_ALONE, RT_ONLY].into_iter().chain(baselines::BOTH).map(named).collect()
            }
        }
    }

    pub(crate) fn check_schedulers(&self) -> Result<(), Usage> {
        match self.scheduler.iter().find(|name| !scheduler::NAMES.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Usage(scheduler::no_scheduler(name))),
        }
    }

    /// Refuses numbers that can't be meant.
    pub(crate) fn check(&self) -> Result<()> {
        check_windows("--window", self.window.as_slice())?;
        self.time.map_or(Ok(()), check_time)?;
        if self.lead > MAX_LEAD {
            let (max, lead) = (time::show(MAX_LEAD), time::show(self.lead));
            return Err(Usage(format!("--lead must be at most {max}, got {lead}")).into());
        }
        if self.alone == 0 {
            return Err(Usage("--alone must be at least 1".into()).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(more: &[&str]) -> Vec<(String, TaskSet)> {
        let line = ["disb", "A.json"].iter().chain(more);
        Line::try_parse_from(line).unwrap().args.plan()
    }

    #[test]
    fn schedulers_are_compared_with_best_effort_tasks_alone() {
        let several = plan(&["--schedulers", "rt-only,reef"]);
        let want =
            [(BE_ALONE, TaskSet::BestEffort), (RT_ONLY, TaskSet::RealTime), ("reef", TaskSet::All)];
        assert_eq!(several, want.map(|(name, tasks_to_run)| (name.to_owned(), tasks_to_run)));
        assert_eq!(plan(&["--schedulers", "reset"]), [("reset".to_owned(), TaskSet::All)]);
    }
}
