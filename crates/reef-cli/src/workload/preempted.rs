//! Inferences that are preempted at random times, which must change no bit of what they give.

use super::tensors::run_once;
use crate::report::output::{count, print};
use anyhow::{Result, ensure};
use reef::models::Network;
use reef::op::Operators;
use reef::tensor::Array;
use reef::{Command, PreemptLevel, VirtualQueue, queue::Config};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time of a preempted network.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Time after which it runs twice as long between preemptions: a device that is a program is slow
/// to begin again.
const DOUBLING_INTERVAL: Duration = Duration::from_secs(5);
/// Number of times that the timeout doubles at most.
const MAX_DOUBLINGS: u64 = 16;
/// Longest time between the first preemptions.
const MAX_FIRST_MICROS: u64 = 200;
/// Inferences that are preempted.
const TURNS: usize = 3;

/// Outputs of an inference, its time, and the number of other clients' preemptions that changed no
/// bit of the outputs, if any were asked for.
pub(crate) type Timed = (Vec<Array>, Duration, Option<u64>);

/// Runs a network once, as `made` reads it, and with a `seed` others that are preempted at random
/// times from it on. `fresh` as for [`unchanged`].
pub(crate) fn also_preempted<D: Operators>(
    device: &D,
    seed: Option<u64>,
    fresh: impl Fn() -> Result<Network<D>>,
    made: impl Fn(&Network<D>) -> Result<Vec<Array>>,
) -> Result<Timed> {
    let network = fresh()?;
    let time = run_once(device, &network.inference())?;
    let have = made(&network)?;
    let again = |seed| unchanged(device, &have, fresh, made, &mut Random(seed));
    let preemptions = seed.map(again).transpose()?;
    Ok((have, time, preemptions))
}

/// Prints that preemptions changed nothing, if any were asked for.
pub(crate) fn say(preemptions: Option<u64>) -> Result<()> {
    let said = preemptions
        .map(|number| format!("{} changed no bit", count(number as usize, "preemption")));
    said.map_or(Ok(()), print)
}

/// Runs networks that are preempted at random times at level All, and gives how many preemptions
/// there were. What each gives, as `made` reads it, must be `undisturbed` bit by bit.
///
/// `fresh` makes a network with its inputs in place, in memory of its own: what another inference
/// left there would hide that this one lost a block.
fn unchanged<D: Operators>(
    device: &D,
    undisturbed: &[Array],
    fresh: impl Fn() -> Result<Network<D>>,
    made: impl Fn(&Network<D>) -> Result<Vec<Array>>,
    random: &mut Random,
) -> Result<u64> {
    let mut all = 0;
    for _ in 0..TURNS {
        let network = fresh()?;
        all += preempted(device, &network.inference(), random)?;
        let same = same_bits(&made(&network)?, undisturbed);
        ensure!(same, "it gave other bits when it was preempted");
    }
    Ok(all)
}

/// Runs commands once, preempted at random times at level All; gives how many preemptions there
/// were.
pub(crate) fn preempted<D: Operators>(
    device: &D,
    commands: &[Command<D>],
    random: &mut Random,
) -> Result<u64> {
    let (mut submitter, queue) =
        VirtualQueue::enable(device, Config::default().level(PreemptLevel::All))?;
    let mut last = submitter.submitted();
    for command in commands {
        last = submitter.submit_blocking(command.clone())?;
    }
    let (begin, mut preemptions) = (Instant::now(), 0);
    let times = || (begin.elapsed().as_secs() / DOUBLING_INTERVAL.as_secs()).min(MAX_DOUBLINGS);
    let most = || MAX_FIRST_MICROS << times();
    while submitter
        .wait_timeout(last, Duration::from_micros(random.below(most())))
        .transpose()?
        .is_none()
    {
        ensure!(begin.elapsed() < TIMEOUT, "it took more than {TIMEOUT:?}");
        queue.preempt(true)?;
        preemptions += 1;
        thread::sleep(Duration::from_micros(random.below(50)));
        queue.restore()?;
    }
    queue.finish()?;
    Ok(preemptions)
}

/// Returns whether arrays are equal, with NaN and the sign of zero compared by bits.
pub(crate) fn same_bits(a: &[Array], b: &[Array]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_le_bytes() == b.to_le_bytes())
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
