//! `reef bench networks`: how long whole inferences take on a device that has nothing else to do.

use super::device_bench::DeviceBench;
use crate::report::checks::check_time;
use crate::report::columns::{Column, as_table};
use crate::report::output::print;
use crate::report::progress::Progress;
use crate::report::results::{self, Results, print_files};
use crate::report::table::millis;
use crate::report::time;
use crate::workload::clients::BE_GRAPH;
use crate::workload::clock::{histogram, note};
use crate::workload::networks::{Loader, Sizes, check_all, read_scales};
use anyhow::Result;
use hdrhistogram::Histogram;
use reef::models::{Network, Scales};
use reef::op::Operators;
use reef::scheduler::RtOnly;
use reef::{Command, Dispatcher, PreemptLevel, Submitter, Task, VirtualQueue, queue::Config};
use serde_json::json;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Inferences before any is counted.
const WARM_UP: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    /// Models: names of `reef model list`, folders or ONNX files.
    #[arg(
        value_name = "MODEL",
        value_delimiter = ',',
        default_value = "resnet18,resnet50,resnet152,densenet121,densenet201,inception_v3"
    )]
    networks: Vec<String>,
    /// Time of each, such as 500ms or 2s.
    #[arg(long, value_parser = time::parse, default_value = "2s")]
    time: Duration,
    #[command(flatten)]
    sizes: Sizes,
    /// Files of `reef model calibrate`: numbers of 8 bits in the models that they are of.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    scales: Vec<PathBuf>,
    /// Commands that the best-effort loops keep launched. A device of another machine wants more.
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u64).range(1..=1024))]
    window: u64,
}

/// One network.
struct Row {
    name: String,
    launches: usize,
    /// Nanoseconds from the first command to the last on the device, and from submission to the
    /// end.
    device: Histogram<u64>,
    total: Histogram<u64>,
    /// Milliseconds of an inference in a closed best-effort loop, where nothing can stop it and
    /// where running blocks can be stopped.
    plain: f64,
    stoppable: f64,
}

static COLUMNS: [Column<Row>; 10] = [
    Column::new("network", "network", 0, |row| row.name.clone().into()),
    Column::new("launches", "launches", 0, |row| row.launches.into()),
    Column::new("device_p50_ms", "device p50 ms", 3, |row| millis(&row.device, 0.5).into()),
    Column::new("device_p99_ms", "p99", 3, |row| millis(&row.device, 0.99).into()),
    Column::new("total_p50_ms", "total p50 ms", 3, |row| millis(&row.total, 0.5).into()),
    Column::new("total_p99_ms", "p99", 3, |row| millis(&row.total, 0.99).into()),
    Column::new("best_effort_ms", "best effort ms", 3, |row| row.plain.into()),
    Column::new("stoppable_ms", "stoppable ms", 3, |row| row.stoppable.into()),
    Column::new("stoppable_ratio", "÷", 3, |row| (row.stoppable / row.plain).into()),
    Column::new("inferences", "inferences", 0, |row| row.total.len().into()),
];

impl DeviceBench for Args {
    fn check(&self) -> Result<()> {
        check_time(self.time)?;
        check_all(&self.networks, &self.sizes)?;
        read_scales(&self.scales, &self.networks, &self.sizes).map(drop)
    }

    fn measure<D: Operators>(&self, device: &D) -> Result<()> {
        let args = self;
        let progress = Progress::new(args.networks.len(), args.common.json);
        progress.expect(2 * args.networks.len(), args.time);
        let scales = args.scales.iter().map(Scales::load).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        for name in &args.networks {
            progress.begin(name);
            rows.push(measure(device, args, name, &scales)?);
        }
        progress.finish();
        let mut facts = json!({ "seconds": args.time.as_secs_f64(), "batch": 1 });
        for scales in &scales {
            facts["formats"][scales.network()] = scales.format().name().into();
        }
        let results = Results { bench: "networks", facts, columns: &COLUMNS, rows: &rows };
        results.save(&args.common, device)?;
        if args.common.json {
            let json = results.json(&args.common, device);
            return print(serde_json::to_string_pretty(&json)?);
        }
        print(format_args!("{} ({}), batch 1", args.common.device, device.info().name))?;
        for scales in &scales {
            print(format_args!("{} in {}", scales.network(), scales.format().name()))?;
        }
        print(as_table(&COLUMNS, &rows))?;
        print(
            "device  from the first command to the end of the last, copies of input and output included",
        )?;
        print("total   from submission until the dispatcher noted the end")?;
        print(
            "best effort, stoppable   an inference in a closed loop at level HostQueue and at the deepest",
        )?;
        print_files(None)
    }
}

/// Turns in which best-effort loops at the two levels are measured.
const TURNS: u32 = 5;

/// Cost of being stoppable: milliseconds of an inference without and with it. Each is the median of
/// a few turns, so that the device's clock is the same for both.
fn cost<D: Operators>(device: &D, network: &Network<D>, args: &Args) -> Result<[f64; 2]> {
    let commands = network.graphs(BE_GRAPH)?;
    let is_launched = |c: &&Command<D>| matches!(c, Command::Launch(_) | Command::Graph(_));
    let commands: Vec<_> = commands.iter().filter(is_launched).cloned().collect();
    let time = args.time / (2 * TURNS);
    let mut millis = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (millis, level) in millis.iter_mut().zip([PreemptLevel::HostQueue, device.info().level])
        {
            let config = Config::default().level(level).window(args.window);
            millis.push(loop_for(device, &commands, config, time)?);
        }
    }
    Ok(millis.map(|mut turns| {
        turns.sort_by(f64::total_cmp);
        turns[turns.len() / 2]
    }))
}

/// Milliseconds of an inference, several of them submitted ahead, for about `time`.
fn loop_for<D: Operators>(
    device: &D,
    commands: &[Command<D>],
    config: Config,
    time: Duration,
) -> Result<f64> {
    // Inferences that have not ended: a network that takes long is submitted much faster than it
    // ends, and the time would be that of a full queue.
    let most = 2 * config.window;
    let (mut submitter, queue) = VirtualQueue::enable(device, config)?;
    let infer = |submitter: &mut Submitter<D>| {
        let submit = |command: &Command<D>| submitter.submit_blocking(command.clone());
        commands.iter().map(submit).last().expect("a network has launches")
    };
    let first = infer(&mut submitter)?; // prepares graphs
    submitter.wait(first)?;
    let mut ahead = VecDeque::new();
    let (begin, mut inferences) = (Instant::now(), 0);
    while inferences == 0 || begin.elapsed() < time {
        ahead.push_back(infer(&mut submitter)?);
        inferences += 1;
        if ahead.len() as u64 == most
            && let Some(oldest) = ahead.pop_front()
        {
            submitter.wait(oldest)?;
        }
    }
    queue.finish()?;
    Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(inferences))
}

/// Inferences back to back, each as one graph where the device has graphs.
fn measure<D: Operators>(device: &D, args: &Args, name: &str, scales: &[Scales]) -> Result<Row> {
    let mut loader = Loader::new(device, &args.sizes).scales(scales.iter().cloned());
    let network = loader.network(name, None)?.network;
    let dispatcher = Dispatcher::start(device, RtOnly)?;
    let (mut client, task) = (dispatcher.real_time()?, Task::new(network.graphs(usize::MAX)?)?);
    let launches = network.launches().count();
    let [plain, stoppable] = cost(device, &network, args)?;
    let (device_times, total) = (histogram(), histogram());
    let mut row =
        Row { name: name.into(), launches, device: device_times, total, plain, stoppable };
    for _ in 0..WARM_UP {
        client.run(&task)?;
    }
    // A device of another machine gets an input that has changed, and no other.
    let input = vec![0.5; network.input_len()];
    let is_of_floats = network.stage_input(&input).is_ok();
    let end = device.clock() + args.time;
    while device.clock() < end || row.total.is_empty() {
        if is_of_floats {
            network.stage_input(&input)?;
        }
        let timing = client.run(&task)?;
        note(&mut row.device, timing.device);
        note(&mut row.total, timing.total);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::Device;
    use reef::command::HostFn;
    use reef::cpu::Cpu;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock, Weak};
    use std::thread;

    #[test]
    fn inferences_that_have_not_ended_are_bounded() {
        let device = Cpu::open(0, "units=1").unwrap();
        let config = Config::default().window(2);
        // An inference of one command, which is slow. The queue has a reference to its code for
        // each that has not ended.
        let references = Arc::new(OnceLock::<Weak<dyn Fn() + Send + Sync>>::new());
        let most = Arc::new(AtomicUsize::new(0));
        let (counted, noted) = (references.clone(), most.clone());
        let code: HostFn = Arc::new(move || {
            let now = counted.get().map_or(0, Weak::strong_count);
            noted.fetch_max(now, Ordering::Relaxed);
            // sleep: work that lasts longer than submitting it, so that inferences pile up
            thread::sleep(Duration::from_millis(2));
        });
        references.set(Arc::downgrade(&code)).unwrap();
        loop_for(&device, &[Command::Host(code)], config, Duration::from_millis(100)).unwrap();
        // The list of commands has one more, and the worker that runs the code another.
        let (most, allowed) = (most.load(Ordering::Relaxed), 2 * config.window as usize + 2);
        assert!((3..=allowed).contains(&most), "{most} of {allowed}");
    }
}
