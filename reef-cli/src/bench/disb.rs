//! `reef bench disb`: the workloads of DISB, run as DISB runs them, under REEF and its baselines.

mod client;
mod config;
mod daemon;
mod load;
mod measure;
mod names;
mod part;
mod record;
mod report;

use super::policy::{Policy, check_windows};
use crate::networks::{Loader, Named, check_all};
use crate::progress::Progress;
use crate::results::Place;
use crate::{Usage, results};
use anyhow::Result;
use client::Work;
use config::Workload;
use daemon::Clients;
use measure::{Bench, Options, Who};
use record::Record;
use reef::models::{measured, profile::Profiles};
use reef::op::Operators;
use reef::{PreemptLevel, scheduler};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Best-effort tasks without real-time ones.
const BE_ALONE: &str = "BE alone";
/// Real-time tasks without best-effort ones, under a daemon's scheduler.
const RT_ALONE: &str = "RT alone";
/// All tasks under a daemon's scheduler.
const ON_DAEMON: &str = "daemon";
/// What `--baseline all` compares, beside each class alone.
const BASELINES: [&str; 6] = ["rt-only", "sequential", "streams", "wait-based", "reset", "reef"];

/// Networks that the workload names stand for torchvision's: vgg19-imagenet and vgg for vgg19,
/// resnet152-imagenet for resnet152, resnet for resnet152, densenet201-imagenet and densenet for
/// densenet201, inceptionv3-imagenet and inception for inception_v3. Others need --map.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A workload: DISB's form, that of REEF's sample for it, or that of REEF's artefact.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    common: results::Common,
    /// Under these schedulers.
    #[arg(long, value_delimiter = ',', default_value = "reef", conflicts_with = "baseline")]
    scheduler: Vec<String>,
    /// Under REEF and all of its baselines, each class alone first. On a daemon: each class alone, then
    /// all, under the scheduler that it has.
    #[arg(long, value_enum)]
    baseline: Option<Baseline>,
    /// Seconds, instead of the workload's.
    #[arg(long)]
    seconds: Option<f64>,
    /// Another network in the place of one: NAME=NETWORK, or NAME=FILE.onnx, or NAME=FOLDER.
    #[arg(long, value_name = "NAME=NETWORK", value_parser = names::replacement)]
    map: Vec<(String, String)>,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    size: Option<usize>,
    /// Requests of each task before any is counted.
    #[arg(long, default_value_t = 100)]
    warm_ups: u32,
    /// Requests of each task that are measured alone.
    #[arg(long, default_value_t = 200)]
    alone: u32,
    /// Seconds from the start of all threads until the first request.
    #[arg(long, default_value_t = 5.0)]
    lead: f64,
    /// Hardware queue length of best-effort tasks.
    #[arg(long, default_value_t = 4)]
    window: u64,
    /// Against a running daemon, whose models and device it uses, with a process for each client.
    #[arg(long, conflicts_with_all = ["device", "scheduler", "size", "window"])]
    daemon: bool,
    /// Folder of the daemon's sockets [default: $XDG_RUNTIME_DIR/reef].
    #[arg(long, requires = "daemon")]
    folder: Option<PathBuf>,
    /// Plays this client for a parent that says on stdin what to do.
    #[arg(long, hide = true, requires = "daemon", value_name = "ID")]
    as_client: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Baseline {
    All,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.as_client.is_some() {
        return daemon::play();
    }
    check_windows("--window", &[args.window])?;
    let workload = config::load(&args.file)?;
    if let Some(seconds) = args.seconds {
        results::check_seconds(seconds)?;
    }
    if !(0.0..=60.0).contains(&args.lead) {
        return Err(Usage(format!("--lead must be in 0..=60, got {}", args.lead)).into());
    }
    if args.alone == 0 {
        return Err(Usage("--alone must be at least 1".into()).into());
    }
    let networks = names::networks(&workload, &args.map, args.daemon)?;
    if args.daemon {
        return on_daemon(args, &workload, &networks);
    }
    args.check_schedulers()?;
    let all: Vec<_> = networks.values().cloned().collect();
    check_all(&all, args.size)?;
    reef::with_device(&args.common.device, Disb { args, workload, networks })?
}

/// Runs it against a daemon.
fn on_daemon(args: &Args, workload: &Workload, models: &BTreeMap<String, String>) -> Result<()> {
    args.common.make_folder()?;
    let (plan, options) = (args.plan(), args.options(workload));
    let progress = Progress::new(3 * workload.tasks.len() + plan.len(), args.common.json);
    let begins = |step: &str| progress.begin(step);
    let folder = reef_serve::folder(args.folder.as_deref());
    let mut clients = Clients::connect(workload, models, options, &folder, &args.file, begins)?;
    let alone = clients.alone(begins)?;
    let place = Place {
        title: format!("daemon in {}, a process for each client", folder.display()),
        facts: json!({ "daemon": folder }),
    };
    let mut record = Record::new(args, workload, models, place, alone);
    for (name, who) in plan {
        progress.begin(&name);
        let run = clients.run(&name, who, &record.alone)?;
        record.add(run)?;
    }
    progress.finish();
    record.show()
}

/// The bench, on whichever device was named.
struct Disb<'a> {
    args: &'a Args,
    workload: Workload,
    /// The network for each name in the workload.
    networks: BTreeMap<String, String>,
}

impl reef::Visit for Disb<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let Self { args, workload, networks } = &self;
        let deepest = device.info().level;
        args.common.make_folder()?;
        let (plan, options) = (args.plan(), args.options(workload));
        let progress = Progress::new(3 * workload.tasks.len() + plan.len(), args.common.json);
        let works = self.works(&device, &progress)?;
        let bench = Bench { device: &device, workload, works, options };
        let alone = bench.alone(policy("reef", deepest), |step| progress.begin(step))?;
        let place = Place::of(&args.common, &device);
        let mut record = Record::new(args, workload, networks, place, alone);
        for (name, who) in plan {
            progress.begin(&name);
            let scheduler = if name == BE_ALONE { "streams" } else { &name };
            let run = bench.run(policy(scheduler, deepest), &name, who, &record.alone)?;
            record.add(run)?;
        }
        progress.finish();
        record.show()
    }
}

impl Disb<'_> {
    /// An instance of its network for each task, with measured kernels.
    fn works<D: Operators>(&self, device: &D, progress: &Progress) -> Result<Vec<Work<D>>> {
        let mut loader = Loader::new(device, self.args.size);
        let mut profiles: BTreeMap<String, Profiles> = BTreeMap::new();
        let mut works = Vec::new();
        for task in &self.workload.tasks {
            let name = &self.networks[&task.model];
            progress.begin(&format!("loading {name} for {}", task.id));
            let Named { network, name } = loader.network(name, None)?;
            if !profiles.contains_key(&name) {
                profiles.insert(name.clone(), measured(device, &network)?);
            }
            let network = network.with_profiles(&profiles[&name]);
            let picture = loader.noise(network.input_len());
            works.push(Work { network: Named { network, name }, picture });
        }
        Ok(works)
    }
}

impl Args {
    fn options(&self, workload: &Workload) -> Options {
        Options {
            time: self.seconds.map_or(workload.time, Duration::from_secs_f64),
            lead: Duration::from_secs_f64(self.lead),
            warm_ups: self.warm_ups,
            alone: self.alone,
            window: self.window,
            seed: self.common.seed,
        }
    }

    /// What runs, by the names of its rows.
    fn plan(&self) -> Vec<(String, Who)> {
        let who = |name: &str| match name {
            BE_ALONE => Who::BestEffort,
            RT_ALONE | "rt-only" => Who::RealTime,
            _ => Who::All,
        };
        let named = |name: &str| (name.to_owned(), who(name));
        match self.baseline {
            None if self.daemon => vec![named(ON_DAEMON)],
            Some(Baseline::All) if self.daemon => [BE_ALONE, RT_ALONE, ON_DAEMON].map(named).into(),
            None => self.scheduler.iter().map(|name| named(name)).collect(),
            Some(Baseline::All) => [BE_ALONE].into_iter().chain(BASELINES).map(named).collect(),
        }
    }

    fn check_schedulers(&self) -> Result<(), Usage> {
        match self.scheduler.iter().find(|name| !scheduler::NAMES.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let have = scheduler::NAMES.join(", ");
                Err(Usage(format!("no scheduler {name:?} (have: {have})")))
            }
        }
    }
}

/// A scheduler by its name; REEF as deep as the device goes.
fn policy(name: &str, deepest: PreemptLevel) -> Policy {
    match name {
        "reef" => Policy::reef(deepest, true),
        "reset" => Policy::reef(deepest, false),
        name => Policy::named(name),
    }
}
