//! One inference of a network of tensors: arrays in, arrays out.

use anyhow::Result;
use reef::models::{Network, Weights};
use reef::op::Operators;
use reef::tensor::Array;
use reef::{Command, Seq, VirtualQueue, queue::Config};
use std::collections::BTreeMap;
use std::time::Duration;

/// Values by the names of inputs.
pub(crate) type InputArrays = BTreeMap<String, (Vec<usize>, Array)>;

/// Reads the sizes of an input from the command line: `x=1,3,224,224`.
pub(crate) fn shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let sizes = |list: &str| list.split(',').map(|size| size.parse().ok()).collect::<Option<_>>();
    let read = text.split_once('=').and_then(|(name, list)| Some((name.to_owned(), sizes(list)?)));
    read.ok_or_else(|| format!("must be NAME=1,3,224,224, got {text:?}"))
}

/// A network on a device, with these inputs.
pub(crate) fn instance<D: Operators>(weights: &Weights<D>, inputs: &[Array]) -> Result<Network<D>> {
    let network = weights.network()?;
    for (index, array) in inputs.iter().enumerate() {
        network.stage(index, array)?;
    }
    Ok(network)
}

/// Outputs of the last inference.
pub(crate) fn outputs<D: Operators>(network: &Network<D>) -> Result<Vec<Array>> {
    (0..network.outputs().len()).map(|index| Ok(network.output(index)?)).collect()
}

/// Runs commands on a queue of their own: how long that takes, from the first submission on.
pub(crate) fn run_once<D: Operators>(device: &D, commands: &[Command<D>]) -> Result<Duration> {
    let (mut submitter, queue) = VirtualQueue::enable(device, Config::default())?;
    let begin = device.clock();
    let mut last = Seq(0);
    for command in commands {
        last = submitter.submit_blocking(command.clone())?;
    }
    submitter.wait(last)?;
    let time = device.clock() - begin;
    queue.finish()?;
    Ok(time)
}
