//! Measures under each scheduler and shows what came of it.

use super::args::{Args, Chosen};
use super::measure::{Bench, Outcome};
use super::{report, spans};
use crate::report::checks::{check_time, make_folder};
use crate::report::device::resolve;
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::workload::baselines;
use crate::workload::networks::{Picture, check, networks};
use anyhow::{Context, Result};
use reef::PreemptLevel;
use reef::op::Operators;
use reef::scheduler::{self, Reef, Scheduler};

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
        let Chosen { args, be, size, time, .. } = &self.0;
        let level = args.level.into();
        device.preemptor(level)?; // a level too deep is an error before anything long begins
        let picture = Picture { file: args.image.as_deref(), size: *size };
        check(&args.rt, be, picture)?;
        make_folder(&args.out)?;
        let plans = plans(level);
        let progress = Progress::new(2 + be.len() + plans.len(), args.json);
        let networks = networks(&device, &args.rt, be, picture, &progress)?;
        progress.begin("measuring kernels");
        let mut bench = Bench::new(&device, networks, *time)?;
        let mut outcomes = Vec::new();
        for plan in plans {
            progress.begin(&plan.name);
            outcomes.push((plan.name, bench.measure(plan.scheduler, plan.rt)?));
        }
        progress.finish();
        finish(&self.0, &device, &bench, &outcomes)
    }
}

/// One measurement.
struct Plan {
    name: String,
    scheduler: Box<dyn Scheduler>,
    rt: bool,
}

/// Measurements in order: each class alone, the baselines, REEF, the other levels.
fn plans(level: PreemptLevel) -> Vec<Plan> {
    let named = |name: &str| match name {
        "reef" => Box::new(Reef::default().level(level)),
        _ => scheduler::by_name(name).expect("a name from this list"),
    };
    let be_alone =
        Plan { name: report::BE_ALONE.into(), scheduler: named(baselines::BE_ALONE), rt: false };
    let both = |name: &str| Plan { name: name.into(), scheduler: named(name), rt: true };
    let at = |level: PreemptLevel| Plan {
        name: format!("{}{level}", report::LEVEL),
        scheduler: Box::new(Reef::without_padding().level(level)),
        rt: true,
    };
    let mut plans = vec![both(report::RT_ALONE), be_alone];
    plans.extend(baselines::BOTH.map(both));
    plans.extend([PreemptLevel::HostQueue, PreemptLevel::DeviceQueue, PreemptLevel::All].map(at));
    plans
}

fn finish<D: Operators>(
    chosen: &Chosen<'_>,
    device: &D,
    bench: &Bench<'_, D>,
    outcomes: &[(String, Outcome)],
) -> Result<()> {
    let args = chosen.args;
    let [plot, trace] = ["latency.svg", "trace.json"].map(|name| args.out.join(name));
    report::plot(&plot, outcomes).with_context(|| plot.display().to_string())?;
    let spans = bench.trace();
    spans::write(&trace, &device.info().name, spans)
        .with_context(|| trace.display().to_string())?;
    if args.json {
        return print(serde_json::to_string_pretty(&report::json(bench, outcomes))?);
    }
    print(report::header(chosen, device, bench))?;
    print(format_args!("{}\n", report::schedulers(bench, outcomes)))?;
    print(format_args!("{}\n", report::levels(outcomes)))?;
    print(format_args!("latency plot  {}", plot.display()))?;
    print(format_args!(
        "trace         {} ({} blocks; open it in ui.perfetto.dev)",
        trace.display(),
        spans.len()
    ))
}
