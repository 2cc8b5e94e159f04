//! Measures under each scheduler and shows what came of it.

use super::args::{Args, Chosen};
use super::blocks::{BLOCK, Blocks, Classes, Start};
use super::measure::Bench;
use super::report::{self, Results};
use super::spans;
use crate::report::checks::{check_time, make_folder};
use crate::report::device::resolve;
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::report::time;
use crate::workload::baselines;
use crate::workload::networks::{Image, check, networks};
use anyhow::{Context, Result};
use reef::PreemptLevel;
use reef::op::Operators;
use reef::scheduler::{self, Reef, Scheduler};
use std::time::Duration;

/// Runs the demo, smaller if the device is `simulated` and nothing else was asked for.
pub(crate) fn run(mut args: Args, simulated: bool) -> Result<()> {
    args.device = resolve(&args.device)?;
    let args = &args;
    let chosen = Chosen::of(args, simulated);
    check_time(chosen.time)?;
    reef::with_device(&args.device, Demo(chosen))?
}

/// The demo, on whichever device was named.
struct Demo<'a>(Chosen<'a>);

impl reef::Visit for Demo<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let Chosen { args, be, sizes, time, .. } = &self.0;
        let level = args.level.into();
        device.preemptor(level)?; // a level too deep is an error before anything long begins
        let image = Image { file: args.image.as_deref(), sizes };
        check(&args.rt, be, image)?;
        make_folder(&args.out)?;
        let (starts, plans) = (starts(level), plans(level));
        let progress = Progress::new(3 + be.len() + starts.len() + plans.len(), args.json);
        progress.expect(plans.len() + starts.len().div_ceil(2), *time);
        let starts = measure_starts(&device, starts, *time / 2, &progress)?;
        let networks = networks(&device, &args.rt, be, image, &progress)?;
        progress.begin("measuring kernels");
        let mut bench = Bench::new(&device, networks, *time)?;
        let mut outcomes = Vec::new();
        for plan in plans {
            progress.begin(&plan.name);
            outcomes.push((plan.name, bench.measure(plan.scheduler, plan.rt)?));
        }
        progress.finish();
        let results =
            Results { chosen: &self.0, starts: &starts, bench: &bench, outcomes: &outcomes };
        finish(&results, &device)
    }
}

/// Requests next to long blocks, under each of these.
fn measure_starts<D: Operators>(
    device: &D,
    plans: Vec<(String, Box<dyn Scheduler>, Classes)>,
    time: Duration,
    progress: &Progress,
) -> Result<Vec<Start>> {
    progress.begin(&format!("calibrating blocks of {}", time::show(BLOCK)));
    let blocks = Blocks::new(device, time)?;
    let measure = |(name, scheduler, classes): (String, _, _)| {
        progress.begin(&format!("blocks of {}, {name}", time::show(BLOCK)));
        blocks.measure(&name, scheduler, classes)
    };
    plans.into_iter().map(measure).collect()
}

/// Measurements next to long blocks: each class alone, the baselines, REEF at each level.
fn starts(deepest: PreemptLevel) -> Vec<(String, Box<dyn Scheduler>, Classes)> {
    let named = |name: &str, scheduler: &str, classes| {
        let scheduler = scheduler::by_name(scheduler).expect("a name from this list");
        (name.to_owned(), scheduler, classes)
    };
    let mut plans = vec![
        named(report::IDLE, "reef", Classes::RealTime),
        named(report::BE_ALONE, baselines::BE_ALONE, Classes::BestEffort),
    ];
    let rivals = ["streams", report::RIVAL, "wait-based"];
    plans.extend(rivals.map(|name| named(name, name, Classes::Both)));
    let levels = [PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All];
    for level in levels.into_iter().filter(|&level| level <= deepest) {
        let name = format!("{}{level}", report::LEVEL);
        plans.push((name, Box::new(Reef::without_padding().level(level)), Classes::Both));
    }
    plans
}

/// One measurement.
struct Plan {
    name: String,
    scheduler: Box<dyn Scheduler>,
    rt: bool,
}

/// Measurements of networks in order: each class alone, the baselines, REEF.
fn plans(level: PreemptLevel) -> Vec<Plan> {
    let named = |name: &str| match name {
        "reef" => Box::new(Reef::default().level(level)),
        _ => scheduler::by_name(name).expect("a name from this list"),
    };
    let be_alone =
        Plan { name: report::BE_ALONE.into(), scheduler: named(baselines::BE_ALONE), rt: false };
    let both = |name: &str| Plan { name: name.into(), scheduler: named(name), rt: true };
    let mut plans = vec![both(report::RT_ALONE), be_alone];
    plans.extend(baselines::BOTH.map(both));
    plans
}

fn finish<D: Operators>(results: &Results<'_, D>, device: &D) -> Result<()> {
    let args = results.chosen.args;
    let [plot, trace] = ["latency.svg", "trace.json"].map(|name| args.out.join(name));
    results.plot(&plot, device).with_context(|| plot.display().to_string())?;
    let spans = results.bench.trace();
    if !spans.is_empty() {
        spans::write(&trace, &device.info().name, spans)
            .with_context(|| trace.display().to_string())?;
    }
    if args.json {
        return print(serde_json::to_string_pretty(&results.json())?);
    }
    print(results.header(device))?;
    print(format_args!("{}\n", results.starts_table()))?;
    print(results.networks())?;
    print(format_args!("{}\n", results.schedulers()))?;
    print(format_args!("plot   {}", plot.display()))?;
    print(match spans.len() {
        0 => "trace  none: the device does not show its blocks\n".into(),
        blocks => {
            format!("trace  {} ({blocks} blocks; open it in ui.perfetto.dev)\n", trace.display())
        }
    })?;
    print(results.sentence())
}
