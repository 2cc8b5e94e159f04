//! Reads an image of text: a network finds lines, one says which way up they are, one reads them.
//! `cargo run --release --features images --example ocr -- [--device NAME] IMAGE FOLDER [OUT]`
//!
//! FOLDER has the networks of the Python package rapidocr_onnxruntime, which `tools/ocr.sh`
//! fetches. The input of each inference (x) and its output (y) are written to the folder OUT, as
//! arrays of numpy.

mod common;

use reef::models::{Budget, Model, image::Image, npy, onnx};
use reef::op::Operators;
use reef::tensor::{Array, Element, Spec};
use reef::{VirtualQueue, queue::Config};
use std::{error::Error, fs, path::PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let (device, rest) = common::arguments()?;
    let mut args = rest.into_iter().map(PathBuf::from);
    let (Some(file), Some(folder)) = (args.next(), args.next()) else {
        println!("skipped: no image and no folder of networks is named");
        return Ok(());
    };
    reef::with_device(&device, Read { file, folder, out: args.next() })?
}

/// An image, the folder of the networks, and one for what goes in and comes out.
struct Read {
    file: PathBuf,
    folder: PathBuf,
    out: Option<PathBuf>,
}

impl reef::Visit for Read {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let [turns, reads] = ["ch_ppocr_mobile_v2.0_cls_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"];
        let alphabet = onnx::metadata(self.folder.join(reads), &Budget::default())?;
        let alphabet = alphabet.get("character").ok_or("the network has no alphabet")?;
        let networks = Networks(device, self.folder, self.out);
        let image = Image::read(self.file)?;
        for (at, (corner, size)) in lines(&networks, &image)?.into_iter().enumerate() {
            let line = image.part(corner, size)?;
            let turned = networks.run(turns, at, &line, [192, 48])?[1] > 0.9;
            let line = if turned { line.turned() } else { line };
            let columns = (size[0] * 48).div_ceil(size[1]).max(320);
            let steps = networks.run(reads, at, &line, [columns, 48])?;
            println!("{corner:?}: {}", text(&steps, alphabet));
        }
        Ok(())
    }
}

/// Corners and sizes of what the network takes for lines, the first one at the top.
fn lines<D: Operators>(
    networks: &Networks<D>,
    image: &Image,
) -> Result<Vec<([usize; 2], [usize; 2])>> {
    let (whole, sides) = (image.size(), image.size().map(|side| side.next_multiple_of(32)));
    let mut likely = networks.run("ch_PP-OCRv4_det_infer.onnx", 0, image, sides)?;
    let (columns, scale) = (sides[0], whole[1] as f32 / sides[1] as f32);
    let mut found = Vec::new();
    while let Some(first) = likely.iter().position(|&share| share > 0.3) {
        let (mut stack, mut low, mut high) = (vec![first], sides, [0; 2]);
        while let Some(at) = stack.pop() {
            likely[at] = 0.0;
            let place = [at % columns, at / columns];
            low = [0, 1].map(|k| low[k].min(place[k]));
            high = [0, 1].map(|k| high[k].max(place[k] + 1));
            stack.extend([at.saturating_sub(1), at + 1, at.saturating_sub(columns), at + columns]);
            stack.retain(|&at| likely.get(at).is_some_and(|&share| share > 0.3));
        }
        let [width, height] = [0, 1].map(|k| (high[k] - low[k]) as f32);
        let grow = 0.8 * width * height / (width + height); // what it finds is inside of the line
        let low = low.map(|low| ((low as f32 - grow) * scale).max(0.0) as usize);
        let size = |k: usize| whole[k].min(((high[k] as f32 + grow) * scale) as usize) - low[k];
        found.extend((height > 4.0).then(|| (low, [size(0), size(1)])));
    }
    Ok(found)
}

/// The likeliest sign of each step, once where it comes again; number 0 is none.
fn text(steps: &[f32], alphabet: &str) -> String {
    let signs: Vec<&str> = [""].into_iter().chain(alphabet.lines()).chain([" "]).collect();
    let best = |step: &[f32]| (0..step.len()).max_by(|&a, &b| step[a].total_cmp(&step[b]));
    let mut best: Vec<usize> = steps.chunks(signs.len()).filter_map(best).collect();
    best.dedup();
    best.into_iter().map(|sign| signs[sign]).collect()
}

/// A device, the folder of the networks, and one for what goes in and comes out.
struct Networks<D>(D, PathBuf, Option<PathBuf>);

impl<D: Operators> Networks<D> {
    /// Returns the output of a network for an image, which fills its columns from the left.
    fn run(&self, name: &str, at: usize, image: &Image, sides: [usize; 2]) -> Result<Vec<f32>> {
        let (Self(device, folder, out), [columns, rows]) = (self, sides);
        let [width, height] = image.size();
        let width = (width * rows).div_ceil(height).min(columns);
        let planes = image.resized([width, rows])?.planes([0.5; 3], [0.5; 3]);
        let padded = |row: &[f32]| [row, &vec![0.0; columns - width]].concat();
        let input = Array::F32(planes.chunks(width).flat_map(padded).collect());
        let spec = Spec { element: Element::F32, dims: vec![1, 3, rows, columns] };
        let network = Model::open(folder.join(name)).shape("x", &spec.dims).load(device)?;
        network.stage(0, &input)?;
        let (mut submitter, queue) = VirtualQueue::enable(device, Config::default())?;
        for command in network.inference().iter() {
            submitter.submit_blocking(command.clone())?;
        }
        queue.finish()?;
        let made = network.outputs().get(0).ok_or("no output")?.1.spec.clone();
        for (what, spec, array) in [("x", &spec, &input), ("y", &made, &network.output(0)?)] {
            let Some(out) = out else { break };
            fs::write(out.join(format!("{name}-{at}.{what}.npy")), npy::to_bytes(spec, array))?;
        }
        Ok(network.staged_output()?)
    }
}
