//! Requests at a period, each with the parts of its time.

use super::args::Args;
use super::daemon::Daemon;
use super::library::Library;
use super::way::{Side, Way};
use crate::workload::clock::{histogram, note};
use crate::workload::networks::WEIGHTS;
use anyhow::Result;
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef_serve::Client;
use std::thread;
use std::time::{Duration, Instant};

/// Requests of each turn before any is counted.
pub(super) const WARM_UP: u32 = 20;

/// Times of one request.
#[derive(Default)]
struct Times {
    latency: Duration,
    /// The input into memory that the device reads.
    copy_in: Duration,
    way_in: Duration,
    infer: Duration,
    delay: Duration,
    way_out: Duration,
}

/// All requests by one way, in nanoseconds.
pub(super) struct Row {
    pub(super) way: Way,
    pub(super) latency: Histogram<u64>,
    pub(super) copy_in: Histogram<u64>,
    pub(super) way_in: Histogram<u64>,
    pub(super) infer: Histogram<u64>,
    pub(super) delay: Histogram<u64>,
    pub(super) way_out: Histogram<u64>,
    /// Rest of the latency: checks and notes of the daemon, and the output's copy.
    pub(super) rest: Histogram<u64>,
    /// Difference of its p50 and p99 to the library's, in milliseconds.
    pub(super) more: Option<[f64; 2]>,
}

impl Row {
    pub(super) fn new(way: Way) -> Self {
        let [latency, copy_in, way_in, infer, delay, way_out, rest] = [(); 7].map(|()| histogram());
        Self { way, latency, copy_in, way_in, infer, delay, way_out, rest, more: None }
    }

    fn note(&mut self, times: &Times) {
        let Times { latency, copy_in, way_in, infer, delay, way_out } = *times;
        note(&mut self.latency, latency);
        note(&mut self.copy_in, copy_in);
        note(&mut self.way_in, way_in);
        note(&mut self.infer, infer);
        note(&mut self.delay, delay);
        note(&mut self.way_out, way_out);
        note(&mut self.rest, latency.saturating_sub(copy_in + way_in + infer + way_out));
    }
}

/// The library and the daemons that are compared.
pub(super) struct Bench<'a, D: Operators> {
    args: &'a Args,
    library: Library<D>,
    clients: [Client; 2],
    input: Vec<f32>,
    output: Vec<f32>,
    /// They end after their clients.
    _daemons: [Daemon; 2],
}

impl<'a, D: Operators> Bench<'a, D> {
    pub(super) fn new(args: &'a Args, device: &D) -> Result<Self> {
        let library = Library::new(device, args)?;
        let spin = Some(args.spin);
        let inputs = library.network.inputs();
        let start = |name, spin| Daemon::start(args, inputs, name, spin);
        let daemons = [start("defaults", None)?, start("spinning", spin)?];
        let clients = [daemons[0].client(None)?, daemons[1].client(spin)?];
        let input = WEIGHTS.input(library.network.input_len());
        let output = vec![0.0; library.network.output_len()];
        Ok(Self { args, library, clients, input, output, _daemons: daemons })
    }

    /// One turn of one way.
    pub(super) fn turn(&mut self, row: &mut Row) -> Result<()> {
        let mut due = Instant::now();
        for n in 0..WARM_UP + self.args.requests {
            let times = match row.way.side {
                Side::Library => self.in_process(row.way.is_staged)?,
                Side::Daemon => self.by_daemon(0, row.way.is_staged)?,
                Side::Spinning => self.by_daemon(1, row.way.is_staged)?,
            };
            if n >= WARM_UP {
                row.note(&times);
            }
            due = (due + self.args.period).max(Instant::now());
            thread::sleep(due - Instant::now());
        }
        Ok(())
    }

    fn in_process(&mut self, is_staged: bool) -> Result<Times> {
        let Self { library, input, .. } = self;
        if is_staged {
            library.network.stage_input(input)?;
        }
        let begin = Instant::now();
        if !is_staged {
            library.network.stage_input(input)?;
        }
        let copy_in = begin.elapsed();
        let delay = library.run()?;
        let infer = begin.elapsed() - copy_in;
        library.read()?;
        Ok(Times { latency: begin.elapsed(), copy_in, infer, delay, ..Times::default() })
    }

    fn by_daemon(&mut self, client: usize, is_staged: bool) -> Result<Times> {
        let Self { clients, input, output, .. } = self;
        let client = &mut clients[client];
        if is_staged {
            client.stage(input)?;
        }
        let begin = Instant::now();
        if is_staged {
            client.submit_staged()?;
        } else {
            client.submit(input)?;
        }
        let copy_in = begin.elapsed();
        let timing = client.receive(output)?;
        let latency = begin.elapsed();
        let reef_serve::Timing { infer, delay, way_in, way_out, .. } = timing;
        Ok(Times { latency, copy_in, way_in, infer, delay, way_out })
    }
}
