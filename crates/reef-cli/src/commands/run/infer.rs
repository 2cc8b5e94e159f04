//! One inference for each image.

use super::args::Args;
use crate::report::progress::Progress;
use anyhow::Result;
use reef::models::Model;
use reef::op::Operators;
use reef::{Seq, VirtualQueue, queue::Config};
use std::time::Duration;

/// Output of the network for one image.
pub(crate) struct Prediction {
    pub(crate) logits: Vec<f32>,
    /// Time from the submission of the first command until the last has finished.
    pub(crate) time: Duration,
}

/// One inference for each image, on whichever device was named.
pub(crate) struct Run<'a> {
    pub(crate) args: &'a Args,
    pub(crate) model: Model,
    pub(crate) images: &'a [Vec<f32>],
}

impl reef::Visit for Run<'_> {
    type Output = Result<Vec<Prediction>>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let Self { args, model, images } = self;
        let progress = Progress::new(1 + images.len(), args.json);
        progress.begin(&format!("loading {}", args.model));
        let network = model.load(&device)?;
        drop(model);
        let inference = network.inference();
        let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default())?;
        let mut seen = Vec::new();
        for (file, image) in args.images.iter().zip(images) {
            progress.begin(&file.display().to_string());
            network.stage_input(image)?;
            let begin = device.clock();
            let mut last = Seq(0);
            for command in inference.iter() {
                last = submitter.submit_blocking(command.clone())?;
            }
            submitter.wait(last)?;
            let time = device.clock() - begin;
            seen.push(Prediction { logits: network.staged_output()?, time });
        }
        queue.finish()?;
        progress.finish();
        Ok(seen)
    }
}
