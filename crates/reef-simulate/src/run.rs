//! All devices of a fleet, on some threads.

use crate::arrivals::{NEVER, Source};
use crate::class::Class;
use crate::device::events::{Costs, Device};
use crate::device::gates::Gates;
use crate::device::inference::Inference;
use crate::device::queues::BeQueue;
use crate::device::tasks::RtClient;
use crate::error::Error;
use crate::fleet::{Client, Fleet};
use crate::placement::{Placed, Placement, place};
use crate::profile::in_range;
use crate::totals::Totals;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reef_core::did_you_mean;
use reef_core::scheduler::{NAMES, Scheduler, Streams, by_name};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Devices that a thread takes at a time.
const CHUNK: usize = 16;

/// Seconds of all devices and clients: more nanoseconds than a count can hold.
const MAX_SECONDS: f64 = 1e10;

/// Name of the gates of unmodified programs, with their shares and targets, in place of a
/// scheduler.
pub const GUESTS: &str = "guests";

/// Options of a simulation.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of a scheduler that [`by_name`] finds, or [`GUESTS`].
    pub scheduler: String,
    /// Policy that places clients.
    pub placement: Placement,
    /// Simulated time.
    pub seconds: f64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Threads to use; the result doesn't depend on it.
    pub threads: usize,
}

/// Simulates a fleet.
///
/// # Errors
///
/// A scheduler that there isn't, a time, a number of threads or a fleet that makes no sense.
pub fn simulate(fleet: &Fleet, options: &Options) -> Result<Totals, Error> {
    fleet.check()?;
    in_range("seconds", options.seconds, 1e-6, 1e8)?;
    in_range("threads", options.threads as f64, 1.0, 256.0)?;
    let all = fleet.devices() as u64 + fleet.count();
    if all as f64 * options.seconds > MAX_SECONDS {
        let seconds = options.seconds;
        return Error::invalid(format!(
            "{all} GPUs and clients for {seconds} s: {MAX_SECONDS:e} s in all at most"
        ));
    }
    if options.scheduler.contains('@') {
        let name = &options.scheduler;
        return Error::invalid(format!("scheduler {name:?}: profiles have no widths for a target"));
    }
    if options.scheduler != GUESTS && by_name(&options.scheduler).is_none() {
        let names = || NAMES.into_iter().chain([GUESTS]);
        let (name, have) = (&options.scheduler, names().collect::<Vec<_>>().join(", "));
        let meant = did_you_mean(name, names());
        return Error::invalid(format!("no scheduler {name:?} (have: {have}){meant}"));
    }
    let placed = place(fleet, options.placement);
    let next = AtomicUsize::new(0);
    let work = || run_devices(fleet, options, &placed, &next);
    let mut totals = Totals::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(part) => totals.add(&part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    Ok(totals)
}

fn run_devices(
    fleet: &Fleet,
    options: &Options,
    placed: &[Vec<Placed>],
    next: &AtomicUsize,
) -> Totals {
    let (mut totals, mut alone) = (Totals::default(), Totals::default());
    loop {
        let first = next.fetch_add(CHUNK, Ordering::Relaxed);
        if first >= placed.len() {
            return totals;
        }
        let last = placed.len().min(first + CHUNK);
        for (number, clients) in (first..last).zip(&placed[first..last]) {
            if !clients.is_empty() {
                run_device(fleet, options, number, clients, &mut totals, &mut alone);
            }
        }
    }
}

/// Runs a device; in `alone` without its real-time clients, under streams, where nothing is ever
/// stopped.
fn run_device(
    fleet: &Fleet,
    options: &Options,
    number: usize,
    placed: &[Placed],
    totals: &mut Totals,
    alone: &mut Totals,
) {
    let (clients, queues) = clients(fleet, placed);
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    rng.set_stream(number as u64);
    let end = (options.seconds * 1e9) as u64;
    let run = |scheduler: Box<dyn Scheduler>, clients, queues, gates, totals: &mut Totals| {
        let costs = Costs::new(&fleet.profile.device, scheduler.level());
        Device::new(scheduler, costs, rng.clone(), clients, queues, gates).run(end, totals);
    };
    if !queues.is_empty() {
        let before = alone.be_work;
        run(Box::new(Streams), Vec::new(), queues.clone(), None, alone);
        totals.be_work_alone += alone.be_work - before;
    }
    if options.scheduler == GUESTS {
        let gates = Some(gates(fleet, placed));
        return run(Box::new(Streams), clients, queues, gates, totals);
    }
    let scheduler = by_name(&options.scheduler).expect("its name was looked up before");
    run(scheduler, clients, queues, None, totals);
}

/// The gates of a device, in the order of [`clients`].
fn gates(fleet: &Fleet, placed: &[Placed]) -> Gates {
    let of = |class| {
        let all = placed.iter().map(|&(at, _)| &fleet.clients[at as usize]);
        all.filter(move |client| client.class == class)
    };
    let slos: Vec<_> = of(Class::Rt).map(Client::target).collect();
    let allowances: Vec<_> = of(Class::Be).map(Client::allowance).collect();
    Gates::new(&fleet.profile.device, &slos, &allowances)
}

fn clients(fleet: &Fleet, placed: &[Placed]) -> (Vec<RtClient>, Vec<BeQueue>) {
    let (mut clients, mut queues) = (Vec::new(), Vec::new());
    for &(at, number) in placed {
        let client = &fleet.clients[at as usize];
        let inference = Inference::new(&fleet.profile.networks[&client.network]);
        let source = Source::new(&client.arrivals, fleet.times(client), number, client.count);
        let deadline = client.deadline_ms.map_or(NEVER, |ms| (ms * 1e6) as u64);
        let (priority, next) = (client.priority, 0);
        match client.class {
            Class::Rt => {
                clients.push(RtClient { inference, source, deadline, priority, next });
            }
            Class::Be => queues.push(BeQueue::new(inference, source)),
        }
    }
    (clients, queues)
}
