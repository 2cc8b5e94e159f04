//! A network of tensors on a device, preempted.

use crate::workload::tensors::{instance, outputs};
use anyhow::{Result, ensure};
use reef::models::TensorModel;
use reef::op::Operators;
use reef::tensor::Array;
use reef::{Config, PreemptLevel, VirtualQueue};
use std::thread;
use std::time::{Duration, Instant};

/// How long a preempted network may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs it again and again, preempted at random times at level All; gives the outputs of each run, and how many
/// preemptions there were.
pub(crate) fn preempted<D: Operators>(
    device: &D,
    model: &TensorModel,
    inputs: &[Array],
    random: &mut Random,
) -> Result<(Vec<Array>, u64)> {
    let network = instance(device, model, inputs)?;
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(PreemptLevel::All))?;
    let mut last = submitter.submitted();
    for command in network.inference().iter() {
        last = submitter.submit_blocking(command.clone())?;
    }
    let (begin, mut preemptions) = (Instant::now(), 0);
    while !submitter.wait_for(last, Duration::from_micros(random.below(200)))? {
        ensure!(begin.elapsed() < LIMIT, "it took more than {LIMIT:?}");
        queue.preempt(true)?;
        preemptions += 1;
        thread::sleep(Duration::from_micros(random.below(50)));
        queue.restore()?;
    }
    queue.finish()?;
    Ok((outputs(&network, model)?, preemptions))
}

/// Numbers from a seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % most
    }
}
