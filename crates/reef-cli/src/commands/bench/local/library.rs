//! The network in this process, as the daemon has it.

use super::args::Args;
use crate::workload::networks::Loader;
use anyhow::Result;
use reef::models::Network;
use reef::op::Operators;
use reef::scheduler::Reef;
use reef::{Dispatcher, RtClient, Task};
use std::time::Duration;

/// A network with a real-time client of its own.
pub(super) struct Library<D: Operators> {
    client: RtClient<D>,
    task: Task<D>,
    pub(super) network: Network<D>,
    output: Vec<u8>,
    _dispatcher: Dispatcher<D>,
}

impl<D: Operators> Library<D> {
    pub(super) fn new(device: &D, args: &Args) -> Result<Self> {
        let sizes = args.sizes();
        let network = Loader::new(device, &sizes).network(&args.network, None)?.network;
        let dispatcher = Dispatcher::start(device, Reef::default())?;
        let (client, task) = (dispatcher.real_time()?, Task::new(network.graphs(usize::MAX)?)?);
        let output = vec![0; network.outputs().bytes()];
        Ok(Self { client, task, network, output, _dispatcher: dispatcher })
    }

    /// Runs what is staged. Returns how long it took until it could start.
    pub(super) fn run(&mut self) -> Result<Duration> {
        Ok(self.client.run(&self.task)?.delay)
    }

    /// Copies the output.
    pub(super) fn read(&mut self) -> Result<()> {
        Ok(self.network.read_staged(0, &mut self.output)?)
    }
}
