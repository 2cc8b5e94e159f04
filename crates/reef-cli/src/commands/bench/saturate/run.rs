//! Measures each row of `reef bench saturate`.

use super::args::{Args, name_of};
use super::report;
use crate::commands::bench::colocate::arrivals::Arrivals;
use crate::commands::bench::colocate::measure::{BE_ALONE, Bench, RT_ALONE, RT_SINGLY, Row};
use crate::commands::bench::device_bench::DeviceBench;
use crate::commands::bench::policy::Policy;
use crate::commands::bench::sides::Sides;
use crate::report::class::ClassName;
use crate::report::progress::Progress;
use crate::workload::networks::{NamedNetwork, Networks, networks};
use anyhow::Result;
use reef::op::Operators;
use reef::{Colocation, Device, Error, PreemptLevel};

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        self.sides.check()?;
        self.lengths.check()?;
        self.slo
            .iter()
            .try_for_each(|&ratio| Policy::target(PreemptLevel::All, ratio).map(drop))?;
        // Fails if the device does not have these options.
        self.colocated_blocks
            .iter()
            .try_for_each(|&width| Ok(reef::with_device(&self.narrow(width)?, Open)?))
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let args = self;
        let mut policies = policies(device)?;
        for &ratio in &args.slo {
            policies.push(Policy::target(device.info().level, ratio)?);
        }
        if let Some(side) = args.side {
            return measure_alone(args, device, side);
        }
        let singly = usize::from(is_split(device));
        let steps = 3 + 2 + singly + policies.len() + 4 * args.colocated_blocks.len();
        let progress = Progress::new(steps, args.common.json);
        progress.expect(2 + singly + policies.len() + args.colocated_blocks.len(), args.sides.time);
        let mut rows = alone_and_both(args, device, policies, &progress)?;
        report::results(args, &rows).save(&args.common, device)?;
        for &width in &args.colocated_blocks {
            let alone = (rows[1].alone, rows[0].alone_rate);
            let narrow = Narrow { args, width, progress: &progress };
            let row = reef::with_device(&args.narrow(width)?, narrow)??;
            rows.push(row.with_alone(alone.0, alone.1));
            report::results(args, &rows).save(&args.common, device)?;
        }
        progress.finish();
        report::show(args, device, &rows)
    }
}

/// Opens a device and closes it.
struct Open;

impl reef::Visit for Open {
    type Output = ();

    fn visit<D: Operators>(self, _: D) {}
}

/// Returns whether a network that is one graph otherwise is launched kernel by kernel to be padded.
fn is_split<D: Device>(device: &D) -> bool {
    let has_graphs = !matches!(device.graph(&[]), Err(Error::Unsupported { .. }));
    device.colocation() == Colocation::Padded && has_graphs
}

/// Policies to compare: ways to run best-effort blocks next to real-time kernels.
fn policies<D: Device>(device: &D) -> Result<Vec<Policy>> {
    let level = device.info().level;
    let named = |name: String, pad| Policy { name, ..Policy::reef(level, pad) };
    let own = match device.colocation() {
        Colocation::Padded => Some("padded".into()),
        Colocation::Capped(caps) if caps.is_adaptive() => Some("adaptive".into()),
        Colocation::Capped(caps) => Some(name_of(caps.long)),
        Colocation::Never => None,
    };
    let own = own.map(|name| named(name, true));
    let none = named("none".into(), false);
    let rivals = ["streams", "stream-priority"].map(Policy::named);
    Ok([none].into_iter().chain(own).chain(rivals).collect())
}

/// Loads and profiles both networks, in three steps.
fn bench<'a, D: Operators>(
    args: &'a Args,
    device: &'a D,
    progress: &Progress,
) -> Result<Bench<'a, D>> {
    let Sides { rt, .. } = &args.sides;
    let networks = networks(device, rt, args.sides.best_effort(), args.sides.image(), progress)?;
    progress.begin("measuring kernels");
    let Networks { rt, be } = networks.profiled(device)?;
    let be: NamedNetwork<D> = be.into_iter().next().expect("one was asked for");
    let time = args.sides.time;
    Ok(Bench { device, rt, be, time, lengths: &args.lengths })
}

/// Measures one class, without the other one on this device.
fn measure_alone<D: Operators>(args: &Args, device: &D, side: ClassName) -> Result<()> {
    let progress = Progress::new(4, args.common.json);
    progress.expect(1, args.sides.time);
    let bench = bench(args, device, &progress)?;
    progress.begin(if side == ClassName::Rt { RT_ALONE } else { BE_ALONE });
    let row = match side {
        ClassName::Rt => bench.rt_alone(&Arrivals::Closed)?,
        ClassName::Be => bench.be_alone()?,
    };
    let (rate, times) = (row.be_rate, Some(row.quantiles()));
    progress.finish();
    report::show(args, device, &[row.with_alone(times, rate)])
}

/// Best-effort work alone, real-time work alone, then both under each policy.
fn alone_and_both<D: Operators>(
    args: &Args,
    device: &D,
    policies: Vec<Policy>,
    progress: &Progress,
) -> Result<Vec<Row>> {
    let bench = bench(args, device, progress)?;
    progress.begin(BE_ALONE);
    let be = bench.be_alone()?;
    progress.begin(RT_ALONE);
    let rt = bench.rt_alone(&Arrivals::Closed)?;
    let (rate, times) = (be.be_rate, Some(rt.quantiles()));
    let mut rows = vec![be.with_alone(None, rate), rt.with_alone(times, rate)];
    if is_split(device) {
        progress.begin(RT_SINGLY);
        rows.push(bench.rt_singly(&Arrivals::Closed)?.with_alone(times, rate));
    }
    for policy in policies {
        progress.begin(&policy.name);
        rows.push(bench.run_both(&Arrivals::Closed, policy)?.with_alone(times, rate));
        report::results(args, &rows).save(&args.common, device)?;
    }
    Ok(rows)
}

/// One row on a device that was opened with this width.
struct Narrow<'a> {
    args: &'a Args,
    width: u32,
    progress: &'a Progress,
}

impl reef::Visit for Narrow<'_> {
    type Output = Result<Row>;

    fn visit<D: Operators>(self, device: D) -> Result<Row> {
        let bench = bench(self.args, &device, self.progress)?;
        let name = name_of(self.width);
        self.progress.begin(&name);
        let policy = Policy { name, ..Policy::reef(device.info().level, true) };
        bench.run_both(&Arrivals::Closed, policy)
    }
}
