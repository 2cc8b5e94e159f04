//! Instances of both classes.

use super::api::Instance;
use crate::error::{Error, Result};
use reef::models::Network;
use reef::op::Operators;
use reef::{BeClient, ClientConfig, Command, Dispatcher, HostMemory, RtClient, Task};
use std::sync::Arc;
use std::time::Duration;

/// Launches that best-effort work submits at once, where the device has graphs: few, because what was
/// launched when it is preempted comes to nothing kernel by kernel.
const BE_GRAPH: usize = 8;

/// How often best-effort work that waits checks whether it is still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Commands on the slots of shared memory; none if the device can't copy from there.
fn slots<D: Operators>(
    (device, network): (&D, &Network<D>),
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
    /// On shared memory.
    slots: Vec<Task<D>>,
    client: RtClient<D>,
}

impl<D: Operators> RealTimeInstance<D> {
    pub(super) fn new(device: &D, dispatcher: &Dispatcher<D>, network: Network<D>) -> Result<Self> {
        let task = Task::new(network.graphs(usize::MAX)?)?;
        let (device, client) = (device.clone(), dispatcher.real_time()?);
        Ok(Self { device, network, task, slots: Vec::new(), client })
    }
}

impl<D: Operators> Instance for RealTimeInstance<D> {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(offset, bytes)?)
    }

    fn share(&mut self, memory: HostMemory, places: &[(usize, usize)]) -> Result<bool> {
        let commands = slots((&self.device, &self.network), memory, places, usize::MAX)?;
        self.slots = commands.into_iter().map(Task::new).collect::<reef::Result<_>>()?;
        Ok(!self.slots.is_empty())
    }

    fn run(
        &mut self,
        slot: Option<usize>,
        deadline: Option<Duration>,
        _gone: &dyn Fn() -> bool,
    ) -> Result<Option<Duration>> {
        let task = slot.map_or(&self.task, |slot| &self.slots[slot]);
        Ok(Some(self.client.submit_before(task, deadline)?.wait()?.delay))
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        Ok(self.network.read_staged(offset, bytes)?)
    }
}

/// Runs requests on a best-effort queue of its own, so that instances share the device.
#[derive(Debug)]
pub(super) struct BestEffortInstance<D: Operators> {
    // Before the network, whose memory its commands work on.
    client: BeClient<D>,
    device: D,
    network: Network<D>,
    commands: Arc<[Command<D>]>,
    /// On shared memory.
    slots: Vec<Arc<[Command<D>]>>,
}

impl<D: Operators> BestEffortInstance<D> {
    pub(super) fn new(device: &D, dispatcher: &Dispatcher<D>, network: Network<D>) -> Result<Self> {
        let commands = network.graphs(BE_GRAPH)?;
        let mut config = ClientConfig::default();
        if commands.iter().any(|command| matches!(command, Command::Graph(_))) {
            config.queue.window = 2; // graphs are many launches each: two keep the device busy
        }
        let (client, device) = (dispatcher.best_effort(config)?, device.clone());
        Ok(Self { client, device, network, commands, slots: Vec::new() })
    }
}

impl<D: Operators> Instance for BestEffortInstance<D> {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(offset, bytes)?)
    }

    fn share(&mut self, memory: HostMemory, places: &[(usize, usize)]) -> Result<bool> {
        self.slots = slots((&self.device, &self.network), memory, places, BE_GRAPH)?;
        Ok(!self.slots.is_empty())
    }

    fn run(
        &mut self,
        slot: Option<usize>,
        deadline: Option<Duration>,
        gone: &dyn Fn() -> bool,
    ) -> Result<Option<Duration>> {
        let commands = slot.map_or(&self.commands, |slot| &self.slots[slot]);
        let last = self.client.submit_before(commands, deadline)?;
        while !self.client.wait_for(last, POLL_INTERVAL)? {
            if gone() {
                return Err(Error::Unavailable("given up: nobody waits for it".into()));
            }
        }
        Ok(None)
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        Ok(self.network.read_staged(offset, bytes)?)
    }
}
