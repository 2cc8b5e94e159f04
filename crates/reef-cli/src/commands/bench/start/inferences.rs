//! Inferences of a network whose output shows whether each was done.
//!
//! Two images take turns. Each has a place for its output, which is cleared once it has been
//! checked: an inference that did not run leaves it cleared, and a launch that did not run leaves
//! what belongs to the other image.

use anyhow::Result;
use reef::Command;
use reef::models::{Network, Seeded};
use reef::op::Operators;
use std::sync::Arc;

/// Logits of two runs that differ by more than this share of the largest are of other images.
const TOLERANCE: f32 = 1e-3;
/// Images, and places for what they give.
pub(super) const IMAGES: usize = 2;

pub(super) struct Inferences<D: Operators> {
    device: D,
    /// Both images, then both places.
    host: D::Buffer,
    /// Bytes from one image to the next, and from one place to the next.
    sizes: [usize; 2],
    /// Bytes of what an image gives.
    given: usize,
    /// Expected output of each image.
    want: [Vec<f32>; IMAGES],
}

/// The commands of one inference of one image.
type ImageTask<D> = Arc<[Command<D>]>;

impl<D: Operators> Inferences<D> {
    /// Runs each image once by `run`; returns what they gave, and one task for each image with
    /// up to `graph` launches in a graph.
    ///
    /// # Errors
    ///
    /// The device's; images that give the same.
    pub(super) fn new(
        device: &D,
        network: &Network<D>,
        graph: usize,
        mut run: impl FnMut(&[Command<D>]) -> Result<()>,
    ) -> Result<(Self, Vec<ImageTask<D>>)> {
        let sizes =
            [network.inputs(), network.outputs()].map(|ports| ports.bytes().next_multiple_of(64));
        let host = device.alloc_host(IMAGES * sizes.iter().sum::<usize>())?;
        let (device, given) = (device.clone(), network.outputs().bytes());
        let mut inferences = Self { device, host, sizes, given, want: Default::default() };
        let mut tasks = Vec::new();
        for image in 0..IMAGES {
            let [from, to] = inferences.places(image);
            let input = Seeded(image as u64 + 1).inputs(network.inputs());
            inferences.device.write(&inferences.host, from, &input)?;
            let task = network.graphs_on(&inferences.host, (from, to), graph)?;
            run(&task)?;
            inferences.want[image] = inferences.output(image)?;
            tasks.push(task);
        }
        let [first, second] = &inferences.want;
        anyhow::ensure!(!are_close(first, second), "two images give the same logits");
        inferences.clear()?;
        Ok((inferences, tasks))
    }

    /// First bytes of an image and of its place.
    fn places(&self, image: usize) -> [usize; 2] {
        let [input, output] = self.sizes;
        [image * input, IMAGES * input + image * output]
    }

    fn output(&self, image: usize) -> Result<Vec<f32>> {
        let mut bytes = vec![0; self.given];
        self.device.read(&self.host, self.places(image)[1], &mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|&word| f32::from_ne_bytes(word)).collect())
    }

    /// Forgets what was done.
    ///
    /// # Errors
    ///
    /// The device's.
    pub(super) fn clear(&self) -> Result<()> {
        (0..IMAGES).try_for_each(|image| self.clear_one(image))
    }

    fn clear_one(&self, image: usize) -> Result<()> {
        let nothing = bytes(&vec![f32::NAN; self.want[image].len()]);
        Ok(self.device.write(&self.host, self.places(image)[1], &nothing)?)
    }

    /// Returns whether the inference of `image` since the last call gave the expected output.
    ///
    /// # Errors
    ///
    /// The device's.
    pub(super) fn take_right(&self, image: usize) -> Result<bool> {
        let right = are_close(&self.output(image)?, &self.want[image]);
        self.clear_one(image)?;
        Ok(right)
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// NaN is close to nothing.
fn are_close(have: &[f32], want: &[f32]) -> bool {
    let most = want.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    have.iter().zip(want).all(|(a, b)| (a - b).abs() <= TOLERANCE * most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::cpu::Cpu;
    use reef::models::Model;
    use reef::{Device, VirtualQueue, queue::Config};

    fn run(device: &Cpu, commands: &[Command<Cpu>]) -> Result<()> {
        let (mut submitter, queue) = VirtualQueue::enable(device, Config::default())?;
        for command in commands {
            submitter.submit_blocking(command.clone())?;
        }
        Ok(queue.finish()?)
    }

    #[test]
    fn an_inference_or_a_launch_that_did_not_run_shows() {
        let device = Cpu::open(0, "units=2").unwrap();
        let network = Model::open("resnet18").input_size(32).load(&device).unwrap();
        let (inferences, tasks) =
            Inferences::new(&device, &network, 1, |commands| run(&device, commands)).unwrap();
        for (image, task) in tasks.iter().enumerate() {
            assert!(!inferences.take_right(image).unwrap(), "nothing has run");
            run(&device, task).unwrap();
            assert!(inferences.take_right(image).unwrap());
            assert!(!inferences.take_right(image).unwrap(), "nothing has run since");
        }
        for lost in [0, 1, tasks[0].len() / 2, tasks[0].len() - 1] {
            run(&device, &tasks[1]).unwrap();
            let mut some = tasks[0].to_vec();
            some.remove(lost);
            run(&device, &some).unwrap();
            assert!(!inferences.take_right(0).unwrap(), "without command {lost}");
        }
    }
}
