//! Runs a workload of `reef bench disb`: here, or against a daemon.

use super::args::{Args, BE_ALONE};
use super::client::Work;
use super::config::{self, Workload};
use super::daemon::child;
use super::daemon::clients::Clients;
use super::measure::Bench;
use super::names;
use super::record::Record;
use crate::commands::bench::policy::Policy;
use crate::report::output::count;
use crate::report::progress::Progress;
use crate::report::results::BenchTarget;
use crate::workload::baselines;
use crate::workload::networks::{Loader, NamedNetwork, check_all};
use anyhow::Result;
use reef::models::{measured, profile::Profiles};
use reef::op::Operators;
use serde_json::json;
use std::collections::BTreeMap;

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.as_client.is_some() {
        return child::run();
    }
    args.check()?;
    let workload = config::load(&args.file)?;
    let networks = names::networks(&workload, &args.map, args.daemon)?;
    if args.daemon {
        return on_daemon(args, &workload, &networks);
    }
    args.check_schedulers()?;
    let all: Vec<_> = networks.values().cloned().collect();
    check_all(&all, &args.sizes)?;
    reef::with_device(&args.common.device, Disb { args, workload, networks })?
}

/// Runs it against a daemon.
fn on_daemon(args: &Args, workload: &Workload, models: &BTreeMap<String, String>) -> Result<()> {
    args.common.make_folder()?;
    let (plan, options) = (args.plan(), args.options(workload));
    let progress = Progress::new(3 * workload.tasks.len() + plan.len(), args.common.json);
    expect(&progress, args, workload, plan.len());
    let begins = |step: &str| progress.begin(step);
    let folder = reef_serve::folder(args.folder.as_deref());
    let mut clients = Clients::connect(workload, models, options, &folder, &args.file, begins)?;
    let alone = clients.measure_alone(begins)?;
    let place = BenchTarget {
        title: format!("daemon in {}, a process for each client", folder.display()),
        facts: json!({ "daemon": folder.display().to_string() }),
    };
    let mut record = Record::new(args, workload, models, place, alone);
    for (name, tasks_to_run) in plan {
        progress.begin(&name);
        let run = clients.run(&name, tasks_to_run, &record.alone)?;
        record.add(run)?;
    }
    progress.finish();
    record.show()
}

/// Says how long it takes: the runs by their time, and what comes before them by its requests.
fn expect(progress: &Progress, args: &Args, workload: &Workload, runs: usize) {
    let options = args.options(workload);
    progress.expect(runs, options.lead + options.time);
    if !args.common.json {
        let requests = options.warm_ups.saturating_add(options.alone);
        let tasks = count(workload.tasks.len(), "task");
        note!("reef: and {requests} requests of each of {tasks} alone (--warm-ups and --alone)");
    }
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
        expect(&progress, args, workload, plan.len());
        let works = self.works(&device, &progress)?;
        let bench = Bench { device: &device, workload, works, options };
        let alone =
            bench.measure_alone(Policy::baseline("reef", deepest), |step| progress.begin(step))?;
        let place = BenchTarget::of(&args.common, &device);
        let mut record = Record::new(args, workload, networks, place, alone);
        for (name, tasks_to_run) in plan {
            progress.begin(&name);
            let scheduler = if name == BE_ALONE { baselines::BE_ALONE } else { &name };
            let run = bench.run(
                Policy::baseline(scheduler, deepest),
                &name,
                tasks_to_run,
                &record.alone,
            )?;
            record.add(run)?;
        }
        progress.finish();
        record.show()
    }
}

impl Disb<'_> {
    /// An instance of its network for each task, with measured kernels.
    fn works<D: Operators>(&self, device: &D, progress: &Progress) -> Result<Vec<Work<D>>> {
        let mut loader = Loader::new(device, &self.args.sizes);
        let mut profiles: BTreeMap<String, Profiles> = BTreeMap::new();
        let mut works = Vec::new();
        for task in &self.workload.tasks {
            let name = &self.networks[&task.model];
            progress.begin(&format!("loading {name} for {}", task.id));
            let NamedNetwork { network, name } = loader.network(name, None)?;
            if !profiles.contains_key(&name) {
                profiles.insert(name.clone(), measured(device, &network)?);
            }
            let network = network.with_profiles(&profiles[&name]);
            let image = loader.noise(&network);
            works.push(Work { network: NamedNetwork { network, name }, image });
        }
        Ok(works)
    }
}
