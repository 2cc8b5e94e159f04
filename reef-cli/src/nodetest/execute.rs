//! A network of tensors on a device, undisturbed and preempted.

use anyhow::{Result, ensure};
use reef::models::{Network, TensorModel, TensorWeights};
use reef::op::Operators;
use reef::tensor::Array;
use reef::{Config, PreemptLevel, VirtualQueue};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a network of tensors once.
pub(crate) fn once<D: Operators>(
    device: &D,
    model: &TensorModel,
    inputs: &[Array],
) -> Result<Vec<Array>> {
    let network = instance(device, model, inputs)?;
    let (mut submitter, queue) = VirtualQueue::enable(device, Config::default())?;
    for command in network.inference().iter() {
        submitter.submit_blocking(command.clone())?;
    }
    queue.finish()?;
    outputs(&network, model)
}

fn instance<D: Operators>(device: &D, model: &TensorModel, inputs: &[Array]) -> Result<Network<D>> {
    let weights = TensorWeights::upload(device, model)?;
    let network = Network::of_tensors(device, model, &weights)?;
    for (index, array) in inputs.iter().enumerate() {
        network.stage(index, array)?;
    }
    Ok(network)
}

fn outputs<D: Operators>(network: &Network<D>, model: &TensorModel) -> Result<Vec<Array>> {
    (0..model.outputs.len()).map(|index| Ok(network.output(index)?)).collect()
}

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
