//! One task's requests, in the six phases that DISB measures.
//!
//! Copies to and from the device are part of an inference here, so `copyInput` and `copyOutput`
//! take no time of their own; the image is in memory, so `prepareInput` takes none either.

use super::requests::Phases;
use super::task_loop::Launch;
use crate::workload::networks::NamedNetwork;
use anyhow::Result;
use reef::op::Operators;
use reef::{BeClient, ClientConfig, Command, Device, Dispatcher, RtClient, Task};
use std::sync::Arc;
use std::time::Duration;

/// Commands that a client submits.
pub(crate) struct Work<D: Operators> {
    pub(crate) network: NamedNetwork<D>,
    pub(crate) image: Vec<u8>,
}

/// A task with its place in a dispatcher.
pub(crate) struct Client<'a, D: Operators> {
    device: &'a D,
    work: &'a Work<D>,
    assignment: Assignment<D>,
}

enum Assignment<D: Device> {
    RealTime(RtClient<D>, Task<D>),
    BestEffort(BeClient<D>, Arc<[Command<D>]>),
}

impl<'a, D: Operators> Client<'a, D> {
    pub(crate) fn real_time(
        device: &'a D,
        dispatcher: &Dispatcher<D>,
        work: &'a Work<D>,
        graph: usize,
    ) -> Result<Self> {
        let task = Task::new(work.network.network.graphs(graph)?)?;
        Ok(Self { device, work, assignment: Assignment::RealTime(dispatcher.real_time()?, task) })
    }

    pub(crate) fn best_effort(
        device: &'a D,
        dispatcher: &Dispatcher<D>,
        work: &'a Work<D>,
        graph: usize,
        config: impl FnOnce(&[Command<D>]) -> ClientConfig,
    ) -> Result<Self> {
        let commands = work.network.network.graphs(graph)?;
        let config = config(&commands);
        Ok(Self {
            device,
            work,
            assignment: Assignment::BestEffort(dispatcher.best_effort(config)?, commands),
        })
    }
}

impl<D: Operators> Launch for Client<'_, D> {
    fn clock(&self) -> Duration {
        self.device.clock()
    }

    fn request(&mut self, until: Duration) -> Result<Option<Phases>> {
        let clock = || self.device.clock();
        let network = &self.work.network.network;
        let begin = clock();
        network.stage_bytes(0, &self.work.image)?;
        let staged = clock();
        match &mut self.assignment {
            Assignment::RealTime(client, task) => drop(client.run(task)?),
            Assignment::BestEffort(client, commands) => {
                let last = client.submit(commands)?;
                while client.wait_timeout(last, Duration::from_millis(50)).transpose()?.is_none() {
                    if clock() > until {
                        return Ok(None);
                    }
                }
            }
        }
        let inferred = clock();
        network.read_staged(0, &mut vec![0; network.outputs().bytes()])?;
        Ok(Some(Phases {
            preprocess: staged - begin,
            infer: inferred - staged,
            postprocess: clock() - inferred,
        }))
    }
}
