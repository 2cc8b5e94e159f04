//! `reef bench pad`: what best-effort work keeps beside real-time work that never pauses.
//!
//! Real-time requests follow each other without a gap, so whatever best-effort work gets done runs
//! beside them: kernel by kernel, or narrow, so many blocks at a time.

mod report;

use super::pair::{Arrivals, Bench, Row};
use super::policy::{Lengths, Policy};
use crate::networks::{Named, Networks, Picture, check, networks};
use crate::progress::Progress;
use crate::results;
use anyhow::Result;
use reef::op::Operators;
use reef::{Colocation, Device, DeviceName};
use std::time::Duration;

/// Names of the rows that others are compared with.
const RT_ALONE: &str = "rt-only (alone)";
const BE_ALONE: &str = "BE alone";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: results::Common,
    /// The real-time client's network.
    #[arg(long, default_value = "resnet50")]
    rt: String,
    /// The best-effort client's network.
    #[arg(long, default_value = "resnet152")]
    be: String,
    /// Also with so many best-effort blocks at a time, on devices that have the option `beside`.
    #[arg(long, value_name = "BLOCKS", value_delimiter = ',')]
    beside: Vec<u32>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Rows and columns of all pictures, instead of the networks' own.
    #[arg(long)]
    size: Option<usize>,
    #[command(flatten)]
    lengths: Lengths,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    results::check_seconds(args.seconds)?;
    args.lengths.check()?;
    check(&args.rt, std::slice::from_ref(&args.be), args.picture())?;
    for &blocks in &args.beside {
        reef::with_device(&args.narrow(blocks)?, Open)?; // knows the option, or says that it doesn't
    }
    reef::with_device(&args.common.device, Pad(args))?
}

impl Args {
    fn picture(&self) -> Picture<'static> {
        Picture { file: None, size: self.size }
    }

    /// The device with so many blocks at a time.
    fn narrow(&self, blocks: u32) -> Result<String> {
        let DeviceName { backend, ordinal, options } = DeviceName::parse(&self.common.device)?;
        let others = options
            .split('&')
            .filter(|option| !option.is_empty() && !option.starts_with("beside="));
        let options: Vec<_> =
            others.map(str::to_owned).chain([format!("beside={blocks}")]).collect();
        Ok(format!("{backend}:{ordinal}?{}", options.join("&")))
    }
}

/// Opens a device and lets go of it.
struct Open;

impl reef::Visit for Open {
    type Output = ();

    fn visit<D: Operators>(self, _: D) {}
}

/// The bench, on whichever device was named.
struct Pad<'a>(&'a Args);

impl reef::Visit for Pad<'_> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let args = self.0;
        args.common.make_folder()?;
        let policies = policies(&device);
        let steps = 3 + 2 + policies.len() + 4 * args.beside.len();
        let progress = Progress::new(steps, args.common.json);
        let mut rows = alone_and_both(args, &device, policies, &progress)?;
        report::results(args, &rows).save(&args.common, &device)?;
        for &blocks in &args.beside {
            let alone = (rows[1].alone, rows[0].alone_rate);
            let narrow = Narrow { args, blocks, progress: &progress };
            let row = reef::with_device(&args.narrow(blocks)?, narrow)??;
            rows.push(row.beside(alone.0, alone.1));
            report::results(args, &rows).save(&args.common, &device)?;
        }
        progress.finish();
        report::show(args, &device, &rows)
    }
}

/// What is compared, by how best-effort blocks come beside real-time ones.
fn policies<D: Device>(device: &D) -> Vec<Policy> {
    let level = device.info().level;
    let named = |name: String, pad| Policy { name, ..Policy::reef(level, pad) };
    let own = match device.colocation() {
        Colocation::Padded => Some("padded".into()),
        Colocation::Capped(blocks) => Some(format!("narrow {blocks}")),
        Colocation::Never => None,
    };
    let own = own.map(|name| named(name, true));
    let none = named("none".into(), false);
    [none].into_iter().chain(own).chain([Policy::named("streams")]).collect()
}

/// Loads and profiles both networks, in three steps.
fn bench<'a, D: Operators>(
    args: &'a Args,
    device: &'a D,
    progress: &Progress,
) -> Result<Bench<'a, D>> {
    let be = std::slice::from_ref(&args.be);
    let networks = networks(device, &args.rt, be, args.picture(), progress)?;
    progress.begin("measuring kernels");
    let Networks { rt, be } = networks.profiled(device)?;
    let be: Named<D> = be.into_iter().next().expect("one was asked for");
    let time = Duration::from_secs_f64(args.seconds);
    Ok(Bench { device, rt, be, time, lengths: &args.lengths })
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
    let mut rows = vec![be.beside(None, rate), rt.beside(times, rate)];
    for policy in policies {
        progress.begin(&policy.name);
        rows.push(bench.both(&Arrivals::Closed, policy)?.beside(times, rate));
        report::results(args, &rows).save(&args.common, device)?;
    }
    Ok(rows)
}

/// One row on a device that was opened with so many blocks.
struct Narrow<'a> {
    args: &'a Args,
    blocks: u32,
    progress: &'a Progress,
}

impl reef::Visit for Narrow<'_> {
    type Output = Result<Row>;

    fn visit<D: Operators>(self, device: D) -> Result<Row> {
        let bench = bench(self.args, &device, self.progress)?;
        let name = format!("narrow {}", self.blocks);
        self.progress.begin(&name);
        let policy = Policy { name, ..Policy::reef(device.info().level, true) };
        bench.both(&Arrivals::Closed, policy)
    }
}
