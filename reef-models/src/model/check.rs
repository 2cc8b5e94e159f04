//! Rules for every schedule of operations, beyond those for every graph.
//!
//! Shapes and storages agree, windows fit, and each step reads only channels that were written
//! before, so that a file can neither reach beyond its memory nor see what another network left in
//! it.

use super::image_model::{ImageModel, Layer};
use super::tensor::Constants;
use crate::graph::problem::Fault;
use crate::graph::problem::Problem;
use crate::graph::schedule::Step;
use reef_op::{Conv2d, Layout, Op, Pool2d, Tensor, Window};
use std::ops::Range;

/// Elements of the largest storage: kernels count in 31 bits.
const MAX_ELEMENTS: usize = 1 << 31;

/// Rows and columns of the largest window.
const MAX_WINDOW: usize = 1 << 16;

type Check = Result<(), Problem>;

impl ImageModel {
    /// Checks the graph and all operations. A fault says where, in terms of the JSON form.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let graph = self.graph();
        graph.validate()?;
        if graph.given.len() != 1 {
            return Err(("args".into(), Problem::Inputs(graph.given.len())));
        }
        let mut written = Written::new(self);
        for (k, (step, layer)) in graph.steps.iter().zip(self.layers()).enumerate() {
            let constants = check_constants(&layer.constants);
            constants.map_err(|problem| (format!("kernels[{k}].constants"), problem))?;
            let done = self.check_step(step, layer).and_then(|()| written.step(step, &layer.op));
            done.map_err(|problem| (format!("kernels[{k}].op"), problem))?;
        }
        self.check_ends()
    }

    fn check_step(&self, step: &Step, layer: &Layer) -> Check {
        let op = &layer.op;
        let operands = [(step.reads[0], op.input()), (step.writes, op.output())];
        for (storage, tensor) in operands.into_iter().chain(second(step, op)) {
            self.check_tensor(storage, tensor)?;
        }
        ensure(step.reads.len() == 1 + usize::from(op.second().is_some()), || {
            format!("{} storages are read", step.reads.len())
        })?;
        check_op(op)
    }

    fn check_tensor(&self, storage: usize, tensor: &Tensor) -> Check {
        let Tensor { batch, channels, height, width, first, of, .. } = *tensor;
        let all = [batch, of, height, width].into_iter().try_fold(1usize, usize::checked_mul);
        let fits = all.is_some_and(|all| all > 0 && all < MAX_ELEMENTS) && channels > 0;
        ensure(fits && first.checked_add(channels).is_some_and(|end| end <= of), || {
            format!("{tensor:?} is out of range")
        })?;
        let elements = self.graph().storages[storage].elements;
        ensure(all == Some(elements), || {
            format!("storage {storage} has {elements} elements, {tensor:?} is in it")
        })
    }

    /// Input and output are dense and row-major.
    fn check_ends(&self) -> Result<(), Fault> {
        let graph = self.graph();
        let mut inputs = graph.steps.iter().zip(self.layers());
        let reads_input = |(step, _): &(&Step, &Layer)| step.reads[0] == graph.given[0];
        let first = inputs.next().filter(reads_input);
        let dense = |tensor: &Tensor| tensor.layout == Layout::Nchw && tensor.channels == tensor.of;
        let others = inputs.filter(reads_input).all(|(_, layer)| layer.op.input() == self.input());
        let mut seconds =
            graph.steps.iter().zip(self.layers()).filter_map(|(s, l)| second(s, &l.op));
        let seconds = seconds.all(|(at, tensor)| at != graph.given[0] || tensor == self.input());
        let last = graph.steps.len() - 1;
        let fault = |k: usize, what: &str| (format!("kernels[{k}].op"), Problem::Op(what.into()));
        if first.is_none() || !others || !seconds || !dense(self.input()) {
            return Err(fault(0, "the first step reads the whole input, which is row-major"));
        }
        if dense(self.output()) {
            Ok(())
        } else {
            Err(fault(last, "the last step writes the whole output, which is row-major"))
        }
    }
}

fn check_constants(constants: &Constants) -> Check {
    let norm = match constants {
        Constants::Conv { norm, .. } => norm.as_ref(),
        Constants::Norm(norm) => Some(norm),
        Constants::None | Constants::Biased { .. } => None,
    };
    match norm {
        Some(norm) if !is_epsilon(norm.epsilon) => Err(Problem::Epsilon(norm.epsilon.to_string())),
        _ => Ok(()),
    }
}

/// Returns whether a variance may be increased by it.
pub(crate) fn is_epsilon(epsilon: f64) -> bool {
    epsilon >= 0.0 && epsilon.is_finite()
}

/// The residual or factor of a step, and its storage.
fn second<'a>(step: &Step, op: &'a Op) -> Option<(usize, &'a Tensor)> {
    step.reads.get(1).copied().zip(op.second())
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Problem::Op(what())) }
}

fn check_op(op: &Op) -> Check {
    let (from, to) = (op.input(), op.output());
    ensure(from.batch == to.batch, || format!("{} images become {}", from.batch, to.batch))?;
    match op {
        Op::Conv2d(Conv2d { window, groups, .. }) => {
            let whole = |channels: usize| channels.is_multiple_of(*groups);
            ensure(*groups > 0 && whole(from.channels) && whole(to.channels), || {
                format!("{} and {} channels in {groups} groups", from.channels, to.channels)
            })?;
            check_window(window, from, to)?;
            check_weights([to.channels, from.channels / groups, window.size[0], window.size[1]])
        }
        Op::Pool2d(Pool2d { window, .. }) => {
            same_channels(from, to)?;
            let covers = (0..2).all(|i| window.padding[i] < window.size[i]);
            ensure(covers, || format!("{window:?} sees nothing but padding"))?;
            check_window(window, from, to)
        }
        Op::ScaleShift(_) | Op::Activate(_) => same_shape(from, to),
        Op::Multiply(op) => {
            same_shape(from, to)?;
            let (of, by) = (from.shape(), op.factor.shape());
            ensure(by == of || by == [of[0], of[1], 1, 1], || format!("{of:?} times {by:?}"))
        }
        Op::Linear(_) => {
            let pixels = [from.height, from.width, to.height, to.width];
            ensure(pixels == [1; 4], || format!("rows and columns {pixels:?} of a linear layer"))?;
            check_weights([to.channels, from.channels, 1, 1])
        }
    }
}

fn check_weights(sizes: [usize; 4]) -> Check {
    let all = sizes.into_iter().try_fold(1usize, usize::checked_mul);
    ensure(all.is_some_and(|all| all < MAX_ELEMENTS), || format!("weights of {sizes:?}"))
}

fn same_channels(from: &Tensor, to: &Tensor) -> Check {
    let [from, to] = [from.channels, to.channels];
    ensure(from == to, || format!("{from} channels become {to}"))
}

fn same_shape(from: &Tensor, to: &Tensor) -> Check {
    same_channels(from, to)?;
    ensure(from.shape() == to.shape(), || format!("{from:?} becomes {to:?}"))
}

fn check_window(window: &Window, from: &Tensor, to: &Tensor) -> Check {
    let over = [from.height, from.width];
    let sane = |i: usize| {
        let Window { size, stride, padding } = window;
        let bounded = [size[i], stride[i], padding[i]].into_iter().all(|n| n <= MAX_WINDOW);
        bounded && size[i] > 0 && stride[i] > 0 && size[i] <= over[i] + 2 * padding[i]
    };
    ensure(sane(0) && sane(1), || format!("{window:?} over {over:?}"))?;
    let (have, want) = ([to.height, to.width], window.over(over));
    ensure(have == want, || format!("{have:?} rows and columns, the window gives {want:?}"))
}

/// Channels of each storage that hold something.
struct Written {
    /// Sorted, not touching each other.
    channels: Vec<Vec<Range<usize>>>,
}

impl Written {
    fn new(model: &ImageModel) -> Self {
        let mut channels = vec![Vec::new(); model.graph().storages.len()];
        channels[model.graph().given[0]].push(0..usize::MAX);
        Self { channels }
    }

    fn step(&mut self, step: &Step, op: &Op) -> Check {
        let input = (step.reads[0], op.input());
        for (storage, tensor) in [input].into_iter().chain(second(step, op)) {
            let wanted = tensor.first..tensor.first + tensor.channels;
            let holds = |part: &Range<usize>| part.start <= wanted.start && wanted.end <= part.end;
            ensure(self.channels[storage].iter().any(holds), || {
                format!("channels {wanted:?} of storage {storage} are read before they are written")
            })?;
        }
        let Tensor { first, channels, .. } = *op.output();
        self.note(step.writes, first..first + channels);
        Ok(())
    }

    fn note(&mut self, storage: usize, new: Range<usize>) {
        let parts = &mut self.channels[storage];
        let touching = |part: &Range<usize>| part.start <= new.end && new.start <= part.end;
        let all = parts.iter().filter(|part| touching(part)).cloned();
        let whole = all.fold(new.clone(), |a, b| a.start.min(b.start)..a.end.max(b.end));
        parts.retain(|part| !touching(part));
        parts.push(whole);
    }
}
