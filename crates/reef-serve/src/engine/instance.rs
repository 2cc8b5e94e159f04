//! Instances of both classes.

use super::api::{Instance, Run, RunTiming};
use super::busy::RunningCount;
use super::shared::SharedCommands;
use crate::error::{Error, Result};
use reef::models::Network;
use reef::op::Operators;
use reef::{BeClient, ClientConfig, Command, Dispatcher, HostMemory, RtClient, Task};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Launches that best-effort work submits at once if the device has graphs. The number is small
/// because launches that are preempted before they start come to nothing one by one.
const MAX_BE_GRAPH: usize = 8;

/// Interval at which a request on the device checks that a client still waits for it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the commands for each slot of shared memory; none if the device cannot copy from there.
fn slots<D: Operators>(
    device: &D,
    network: &Network<D>,
    memory: HostMemory,
    slots: &[(usize, usize)],
    max: usize,
) -> Result<Vec<Arc<[Command<D>]>>> {
    let host = match device.adopt_host(memory) {
        Err(reef::Error::Unsupported { .. }) => return Ok(Vec::new()),
        host => host?,
    };
    slots.iter().map(|&slot| Ok(network.graphs_on(&host, slot, max)?)).collect()
}

/// Runs each request as one real-time task.
#[derive(Debug)]
pub(super) struct RealTimeInstance<D: Operators> {
    device: D,
    network: Network<D>,
    task: Task<D>,
    /// Tasks on slots of shared memory.
    slots: Vec<Task<D>>,
    shared: SharedCommands<D>,
    client: RtClient<D>,
}

impl<D: Operators> RealTimeInstance<D> {
    pub(super) fn new(device: &D, dispatcher: &Dispatcher<D>, network: Network<D>) -> Result<Self> {
        let task = Task::new(network.graphs(usize::MAX)?)?;
        let (device, client) = (device.clone(), dispatcher.real_time()?);
        client.prepare(&task)?; // else the first request would wait for the driver
        let shared = SharedCommands::new(usize::MAX);
        Ok(Self { device, network, task, slots: Vec::new(), shared, client })
    }
}

impl<D: Operators> Instance for RealTimeInstance<D> {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(offset, bytes)?)
    }

    fn share(&mut self, memory: HostMemory, offsets: &[(usize, usize)]) -> Result<bool> {
        let commands = slots(&self.device, &self.network, memory, offsets, usize::MAX)?;
        self.slots = commands.into_iter().map(Task::new).collect::<reef::Result<_>>()?;
        self.slots.iter().try_for_each(|task| self.client.prepare(task))?;
        Ok(!self.slots.is_empty())
    }

    fn run(&mut self, run: Run<'_>) -> Result<RunTiming> {
        let made;
        let task = match run.slot {
            Some(slot) => &self.slots[slot],
            None if run.shared.is_empty() => &self.task,
            None => {
                made = Task::new(self.shared.commands(&self.network, run.shared)?)?;
                &made
            }
        };
        let limit = Instant::now().checked_add(run.time);
        self.client.charge(run.account);
        let ticket = self.client.submit_before(task, Some(run.time))?;
        let early = run.notice.filter(|notice| notice.after < run.time);
        let early = early.and_then(|notice| notice.wait_or_tell(|time| ticket.wait_timeout(time)));
        let timing = loop {
            if let Some(result) = early {
                break result?;
            }
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            if let Some(result) =
                ticket.wait_timeout(left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL))
            {
                break result?;
            }
            if left.is_some_and(|left| left.is_zero()) || (run.gone)() {
                ticket.cancel();
                let _ = ticket.wait(); // what is launched ends, and is charged
                return Err(Error::Deadline(format!(
                    "timed out after {:?} on the device",
                    run.time
                )));
            }
        };
        Ok(RunTiming { delay: Some(timing.delay), device: timing.device })
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        Ok(self.network.read_staged(offset, bytes)?)
    }
}

/// Runs requests on a best-effort queue of its own, so that instances share the device.
#[derive(Debug)]
pub(super) struct BestEffortInstance<D: Operators> {
    // Before the network, because its commands use the network's memory.
    client: BeClient<D>,
    device: D,
    network: Network<D>,
    commands: Arc<[Command<D>]>,
    /// Commands on slots of shared memory.
    slots: Vec<Arc<[Command<D>]>>,
    shared: SharedCommands<D>,
    running: Arc<RunningCount>,
}

impl<D: Operators> BestEffortInstance<D> {
    pub(super) fn new(
        device: &D,
        dispatcher: &Dispatcher<D>,
        mut config: ClientConfig,
        network: Network<D>,
        running: Arc<RunningCount>,
    ) -> Result<Self> {
        let commands = network.graphs(MAX_BE_GRAPH)?;
        config.queue = config.queue.window_for(&commands);
        let (client, device) = (dispatcher.best_effort(config)?, device.clone());
        let (slots, shared) = (Vec::new(), SharedCommands::new(MAX_BE_GRAPH));
        Ok(Self { client, device, network, commands, slots, shared, running })
    }
}

impl<D: Operators> Instance for BestEffortInstance<D> {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(offset, bytes)?)
    }

    fn share(&mut self, memory: HostMemory, offsets: &[(usize, usize)]) -> Result<bool> {
        self.slots = slots(&self.device, &self.network, memory, offsets, MAX_BE_GRAPH)?;
        Ok(!self.slots.is_empty())
    }

    fn run(&mut self, run: Run<'_>) -> Result<RunTiming> {
        let made;
        let commands = match run.slot {
            Some(slot) => &*self.slots[slot],
            None if run.shared.is_empty() => &*self.commands,
            None => {
                made = self.shared.commands(&self.network, run.shared)?;
                &*made
            }
        };
        let _running = self.running.begin();
        let (before, began) = (self.client.served(), Instant::now());
        let last = self.client.submit_before(commands, Some(run.time))?;
        while self.client.wait_timeout(last, POLL_INTERVAL).transpose()?.is_none() {
            if (run.gone)() {
                return Err(Error::Unavailable("cancelled: the client disconnected".into()));
            }
        }
        let accounted = self.client.served().saturating_sub(before);
        // The dispatcher accounts at its passes, so it may have missed short work.
        let device = if accounted.is_zero() { began.elapsed() } else { accounted };
        Ok(RunTiming { delay: None, device })
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        Ok(self.network.read_staged(offset, bytes)?)
    }
}
