//! One inference, the five best classes:
//! `cargo run --release --features images --example infer -- [--device NAME] [IMAGE [NETWORK]]`
//!
//! The network is a name, a folder that `reef model import` made, an ONNX file, or weights for
//! ResNet-50 (.param or .safetensors). Without an image (or for `-`) it looks at made-up pixels,
//! and without a file its weights are made up too: then the classes are the same everywhere but
//! mean nothing.

mod common;

use reef::models::image::Transform;
use reef::models::{self, Model, Seeded};
use reef::op::Operators;
use reef::{VirtualQueue, queue::Config};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let (device, rest) = common::arguments()?;
    let mut args = rest.into_iter();
    let image_file = args.next().filter(|file| file != "-");
    let what = args.next().unwrap_or("resnet50".into());
    let model = open(&what)?;
    let input = match image_file {
        Some(file) => Transform::of_model(&what, &model)?.read(file)?,
        None => Seeded(1).input(model.input_len()),
    };
    Ok(reef::with_device(&device, Infer { model, input })??)
}

struct Infer {
    model: Model,
    input: Vec<f32>,
}

impl reef::Visit for Infer {
    type Output = models::Result<()>;

    fn visit<D: Operators>(self, device: D) -> models::Result<()> {
        let network = self.model.load(&device)?;
        let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default())?;
        network.stage_input(&self.input)?;
        let begin = device.clock();
        for command in network.inference().iter() {
            submitter.submit_blocking(command.clone())?;
        }
        queue.finish()?;
        println!("{} took {:?}", self.model.name(), device.clock() - begin);

        let mut logits: Vec<_> = network.staged_output()?.into_iter().enumerate().collect();
        logits.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        for (class, logit) in logits.iter().take(5) {
            println!("class {class:>3}  logit {logit:.3}");
        }
        Ok(())
    }
}

/// A network, or ResNet-50 with the weights of a file.
fn open(what: &str) -> models::Result<Model> {
    match what.rsplit('.').next() {
        Some("param" | "safetensors") => Model::open("resnet50").weights(what).read(),
        _ => Model::open(what).read(),
    }
}
