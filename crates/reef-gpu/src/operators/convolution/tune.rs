//! The fastest plan for a convolution, measured on the device when it was opened with `tune=on`,
//! and kept on disk.
//!
//! The model in `tile.rs` was fitted to one GPU. Measuring takes some milliseconds for each shape,
//! the first time that a network has it.

use super::tiled::{by_tiles, family, scratch_of};
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::hal::cache::{Cache, Key};
use crate::hal::calls::Vendor;
use crate::launch::queue::hardware_queue::Queue;
use crate::operators::element::Element;
use crate::operators::pack;
use crate::operators::site::BoundOp;
use crate::operators::tiles::slabs::{ImplicitGemm, Shape};
use crate::operators::tiles::tile::{Plan, Tile};
use crate::tuning::{Choice, TunedPlans, Tuning, tell};
use reef_core::{Command, Device, Event, Launch, Priority, Queue as _, Result, Seq};
use reef_op::rounding::Rounded;
use reef_op::{Conv2d, Op, Operands, Storage, Tensor};
use std::time::Duration;

/// Runs of a candidate in one measurement; launched one by one, short ones would wait for the host.
const RUNS: usize = 16;
/// Measurements of a candidate, of which the shortest counts; the first one loads code.
const ROUNDS: usize = 4;

/// The fastest plan for the kernels that `op` has if these of its numbers are rounded: from memory,
/// from disk or measured now.
///
/// # Errors
///
/// An error of the device, while measuring.
pub(super) fn tuned_plan<V: Vendor>(
    plans: &TunedPlans,
    gpu: &Gpu<V>,
    op: &Conv2d,
    gemm: &ImplicitGemm,
    rounded: Rounded,
    tiles: &[Tile],
) -> Result<Plan> {
    let shape = gemm.shape(op);
    let text = format!("{} of {} tiles {op:?}", family(gpu, op, gemm, rounded), tiles.len());
    let make = || measure(&Bench::new(gpu, op, rounded)?, gemm, tiles, &shape);
    let choice = plans.get_or_measure(&text, || load_or_measure(gpu, &text, make))?;
    let candidate = |plan: &Plan| name(plan, tiles) == choice;
    let found = Plan::candidates(tiles, &shape, gpu.facts()).find(candidate);
    Ok(found.unwrap_or_else(|| Plan::new(tiles, &shape, gpu.facts())))
}

fn name(plan: &Plan, tiles: &[Tile]) -> Choice {
    let tile = tiles.iter().position(|tile| *tile == plan.tile);
    (tile.unwrap_or(0) as u8, plan.splits as u8)
}

/// The choice on disk, or what `make` gives.
fn load_or_measure<V: Vendor>(
    gpu: &Gpu<V>,
    shape: &str,
    make: impl FnOnce() -> Result<Choice>,
) -> Result<Choice> {
    let key = Key::of(["tune", env!("CARGO_PKG_VERSION"), V::NAME, &gpu.facts().name, shape]);
    let bytes =
        Cache::of_user().get_or_make(key, || make().map(|(tile, splits)| vec![tile, splits]))?;
    Ok((bytes.first().copied().unwrap_or(0), bytes.get(1).copied().unwrap_or(1)))
}

/// Tries every candidate.
fn measure<V: Vendor>(
    bench: &Bench<'_, V>,
    gemm: &ImplicitGemm,
    tiles: &[Tile],
    shape: &Shape,
) -> Result<Choice> {
    let mut best = (Duration::MAX, (0, 1));
    let plans: Vec<_> = Plan::candidates(tiles, shape, bench.gpu.facts()).collect();
    let text = in_words(bench.conv);
    let tell = |done| tell(Tuning { shape: &text, done, plans: plans.len() });
    for (done, plan) in plans.iter().enumerate() {
        tell(done);
        let time = bench.time(gemm, plan)?;
        best = best.min((time, name(plan, tiles)));
    }
    tell(plans.len());
    Ok(best.1)
}

/// Describes the convolution: `3x3, 64 channels of 56x56 to 128`.
fn in_words(op: &Conv2d) -> String {
    let ([rows, columns], Tensor { channels, height, width, .. }) = (op.window.size, op.input);
    format!("{rows}x{columns}, {channels} channels of {height}x{width} to {}", op.output.channels)
}

/// One convolution with memory of its own.
struct Bench<'a, V: Vendor> {
    gpu: &'a Gpu<V>,
    op: Op,
    conv: &'a Conv2d,
    rounded: Rounded,
    input: Buffer<V>,
    residual: Option<Buffer<V>>,
    output: Buffer<V>,
    constants: Buffer<V>,
}

impl<'a, V: Vendor> Bench<'a, V> {
    fn new(gpu: &'a Gpu<V>, conv: &'a Conv2d, rounded: Rounded) -> Result<Self> {
        let op = Op::Conv2d(*conv);
        let room = |tensor: &Tensor| gpu.alloc(tensor.storage_elements() * size_of::<f32>());
        let [_, bytes] = pack::layout(&op, Element::of(gpu))?;
        Ok(Self {
            gpu,
            op,
            conv,
            rounded,
            input: room(&conv.input)?,
            residual: conv.residual.then(|| room(&conv.output)).transpose()?,
            output: room(&conv.output)?,
            constants: gpu.alloc(bytes)?,
        })
    }

    /// Time of one run.
    fn time(&self, gemm: &ImplicitGemm, plan: &Plan) -> Result<Duration> {
        let scratch = scratch_of(self.gpu, self.conv, gemm, plan);
        let memory = self.gpu.alloc(scratch.bytes)?;
        let launches = self.launches(gemm, plan, &memory)?;
        let commands: Vec<_> = std::iter::repeat_n(launches, RUNS).flatten().collect();
        let mut queue = self.gpu.queue(Priority::RealTime, None)?;
        let mut best = Duration::MAX;
        for round in 0..ROUNDS {
            best = best.min(self.run(&mut queue, 3 * round as u64, &commands)?);
        }
        Ok(best / RUNS as u32)
    }

    fn launches(
        &self,
        gemm: &ImplicitGemm,
        plan: &Plan,
        memory: &Buffer<V>,
    ) -> Result<Vec<Launch<Gpu<V>>>> {
        let storage = |buffer| Storage { buffer, offset: 0 };
        let operands = Operands {
            input: storage(&self.input),
            residual: self.residual.as_ref().map(storage),
            output: storage(&self.output),
            constants: Some(&self.constants),
            scratch: Some(storage(memory)),
            rounded: self.rounded,
        };
        by_tiles(&BoundOp::new(self.gpu, &self.op, &operands)?, self.conv, gemm, plan)
    }

    /// Runs the launches between two events, as one graph where there are some.
    fn run(&self, queue: &mut Queue<V>, seq: u64, launches: &[Launch<Gpu<V>>]) -> Result<Duration> {
        let events = [self.gpu.event()?, self.gpu.event()?];
        let commands: Vec<_> = launches.iter().cloned().map(Command::Launch).collect();
        let graph = self.gpu.facts().graphs.then(|| self.gpu.graph(&commands)).transpose()?;
        queue.record(Seq(seq), &events[0])?;
        match &graph {
            Some(graph) => queue.launch_graph(Seq(seq + 1), graph, None)?,
            None => launches.iter().try_for_each(|l| queue.launch(Seq(seq + 1), l, None))?,
        }
        queue.record(Seq(seq + 2), &events[1])?;
        while queue.completed()? < Seq(seq + 3) {
            std::hint::spin_loop();
        }
        let [begin, end] = events.map(|event| event.reached().unwrap_or_default());
        Ok(end.saturating_sub(begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::{Options, Precision};
    use crate::operators::tiles::tile::WARPS;
    use reef_op::{Layout, Window};

    /// The kernels that are timed for a convolution of this number of channels.
    fn timed(channels: usize, rounded: Rounded) -> Vec<String> {
        let options = Options { precision: Some(Precision::Tf32), ..Options::default() };
        let gpu = Gpu::new(Fake::with_tensor_cores(132), options).unwrap();
        let tensor = |channels| Tensor::new(Layout::Native, [1, channels, 6, 6]);
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        let (input, output) = (tensor(channels), tensor(8));
        let conv = Conv2d { relu: true, ..Conv2d::new(input, output, window) };
        let gemm = ImplicitGemm::new(&conv, Element::Tf32).unwrap();
        let plan = Plan { tile: WARPS[0], splits: 1 };
        let bench = Bench::new(&gpu, &conv, rounded).unwrap();
        let memory = gpu.alloc(scratch_of(&gpu, &conv, &gemm, &plan).bytes).unwrap();
        let launches = bench.launches(&gemm, &plan, &memory).unwrap();
        launches.iter().map(|launch| launch.kernel().name().to_owned()).collect()
    }

    #[test]
    fn timed_kernels_are_those_that_run() {
        let rounded = Rounded { input: true, output: true };
        assert_eq!(timed(8, rounded), ["conv_rounded_32x32"]);
        assert_eq!(timed(8, Rounded::default()), ["conv_tf32_32x32"]);
        let converted = timed(3, Rounded::default());
        assert_eq!(converted.last().unwrap(), "conv_rounded_32x32", "rounded on the way");
    }
}
