//! Lanes of both classes.

use super::Lane;
use crate::{Error, Result};
use reef::models::Network;
use reef::op::Operators;
use reef::{BestEffort, ClientConfig, Command, Dispatcher, RtClient, Task};
use std::sync::Arc;
use std::time::Duration;

/// Launches that best-effort work hands over at once, where the device has graphs: few, because what was
/// launched when it is preempted comes to nothing kernel by kernel.
const BE_GRAPH: usize = 8;

/// How often best-effort work that waits looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Runs each request as one real-time task.
#[derive(Debug)]
pub(super) struct RealTimeLane<D: Operators> {
    network: Network<D>,
    task: Task<D>,
    client: RtClient<D>,
}

impl<D: Operators> RealTimeLane<D> {
    pub(super) fn new(dispatcher: &Dispatcher<D>, network: Network<D>) -> Result<Self> {
        let task = Task::new(network.graphs(usize::MAX)?)?;
        Ok(Self { network, task, client: dispatcher.real_time()? })
    }
}

impl<D: Operators> Lane for RealTimeLane<D> {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(offset, bytes)?)
    }

    fn run(
        &mut self,
        deadline: Option<Duration>,
        _gone: &dyn Fn() -> bool,
    ) -> Result<Option<Duration>> {
        Ok(Some(self.client.submit_before(&self.task, deadline)?.wait()?.delay))
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        Ok(self.network.read_staged(offset, bytes)?)
    }
}

/// Runs requests on a best-effort queue of its own, so that lanes share the device.
#[derive(Debug)]
pub(super) struct BestEffortLane<D: Operators> {
    // Before the network, whose memory its commands work on.
    client: BestEffort<D>,
    network: Network<D>,
    commands: Arc<[Command<D>]>,
}

impl<D: Operators> BestEffortLane<D> {
    pub(super) fn new(dispatcher: &Dispatcher<D>, network: Network<D>) -> Result<Self> {
        let commands = network.graphs(BE_GRAPH)?;
        let mut config = ClientConfig::default();
        if commands.iter().any(|command| matches!(command, Command::Graph(_))) {
            config.queue.window = 2; // graphs are many launches each: two keep the device busy
        }
        Ok(Self { client: dispatcher.best_effort(config)?, network, commands })
    }
}

impl<D: Operators> Lane for BestEffortLane<D> {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.network.stage_bytes(offset, bytes)?)
    }

    fn run(
        &mut self,
        deadline: Option<Duration>,
        gone: &dyn Fn() -> bool,
    ) -> Result<Option<Duration>> {
        let last = self.client.submit_before(&self.commands, deadline)?;
        while !self.client.wait_for(last, LOOK)? {
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
