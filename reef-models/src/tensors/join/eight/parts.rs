//! The steps that a convolution between numbers of 8 bits is made of.

use super::formula::{
    Requantized, Written, bounds, is_sum, moved, numbers, requantized, takes_off, written,
};
use crate::model::ports::Port;
use crate::tensors::join::padding::zeros_around;
use crate::tensors::join::readers::Readers;
use crate::tensors::step::TensorStep;
use crate::tensors::windows::convolution;
use reef_op::tensor::{Domain, Eight, Element, Formula, Kind, Spec, TensorOp};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Storages of weights, and of the bias and of factors of integers if there are such.
pub(in crate::tensors) type Constants = (usize, Option<usize>, Option<usize>);

/// Steps of a network, and what they read of each other.
pub(super) struct Parts<'a> {
    steps: &'a [TensorStep],
    makers: HashMap<usize, usize>,
    readers: Readers,
}

/// A convolution, and the steps that it is made of.
pub(super) struct Found {
    /// The step that makes values of numbers, or takes off their zero point.
    pub(super) values: usize,
    /// Steps from that one up to the last one.
    parts: Vec<usize>,
    /// Rows and columns of zeros, before and after.
    edges: [[usize; 2]; 2],
    pub(super) constants: Constants,
    /// The constants as steps see them.
    specs: Vec<Spec>,
    /// Without padding and zero points.
    pub(super) eight: Eight,
    /// The input's and the output's zero point in the file.
    zeros: [i16; 2],
}

/// Way from sums to numbers.
struct Ending {
    /// The step that makes sums.
    sums: usize,
    /// The step that adds a bias to sums of integers.
    between: Option<usize>,
    /// Storages of the bias and of factors, and how they are seen.
    bias: Option<(usize, Spec)>,
    factors: Option<(usize, Spec)>,
    /// Value of the integer 1, if sums are of integers.
    unit: Option<f32>,
    relu: bool,
    scale: f32,
    zero: i16,
}

/// A convolution as it is joined.
pub(super) struct Joined {
    pub(super) found: Found,
    pub(super) op: TensorOp,
    pub(super) eight: Eight,
    /// Padding that is a step of its own.
    pub(super) edges: [[usize; 2]; 2],
    /// Its input has numbers without a sign, which become such with one.
    pub(super) converts: bool,
    /// Difference of its numbers from those of the file.
    pub(super) more: i16,
}

impl<'a> Parts<'a> {
    pub(super) fn of(steps: &'a [TensorStep], outputs: &[Port]) -> Self {
        let makers = steps.iter().enumerate().map(|(k, step)| (step.writes, k)).collect();
        Self { steps, makers, readers: Readers::of(steps, outputs) }
    }

    /// The step that makes what step `last` alone reads as its input `input`.
    fn sole_maker(&self, last: usize, input: usize) -> Option<usize> {
        let storage = self.steps[last].reads[input];
        let is_alone = self.readers.all(storage).len() == 1;
        self.makers.get(&storage).copied().filter(|_| is_alone)
    }

    /// The step that makes input `input` of step `reader`, which sees it as it is made.
    fn maker(&self, reader: usize, input: usize) -> Option<usize> {
        let reader = &self.steps[reader];
        let maker = *self.makers.get(&reader.reads[input])?;
        (self.steps[maker].op.output == reader.op.inputs[input]).then_some(maker)
    }

    /// The convolution that ends with step `last`.
    pub(super) fn found(&self, last: usize) -> Option<Found> {
        let step = &self.steps[last];
        let Kind::Map(map) = &step.op.kind else { return None };
        let bounds = bounds(step.op.output.element).filter(|_| map.domain == Domain::F32)?;
        let ending = self.of_singles(last, &map.formula, bounds);
        let ending = ending.or_else(|| self.of_integers(last, &map.formula, bounds))?;
        let Ending { sums, between, bias, factors, unit, relu, scale, zero } = ending;
        let element = if unit.is_some() { Element::I32 } else { Element::F32 };
        let sizes = Sizes::of(&self.steps[sums].op, element)?;
        let of_channels = |of: &Option<(usize, Spec)>, element: Element| {
            of.as_ref().is_none_or(|(_, spec)| is_of_channels(spec, sizes.outputs, element))
        };
        if !of_channels(&bias, element) || !of_channels(&factors, Element::F32) {
            return None;
        }
        let before = self.maker(sums, 0)?;
        let edges = zeros_around(&self.steps[before].op);
        let values = if edges.is_some() { self.maker(before, 0)? } else { before };
        let (shape, own, from) = self.values(values, element)?;
        let eight = Eight {
            shape,
            over: [sizes.outputs, sizes.over[0], sizes.over[1]],
            size: sizes.size,
            stride: sizes.stride,
            padding: [0; 2],
            scales: [unit.or(own)?, scale],
            zeros: [0; 2],
            // A lowest number that stands for zero is a bound already.
            relu: relu && zero != bounds[0],
        };
        let storage = |of: &Option<(usize, Spec)>| of.as_ref().map(|(storage, _)| *storage);
        let constants = (self.steps[sums].reads[1], storage(&bias), storage(&factors));
        let weights = self.steps[sums].op.inputs[1].clone();
        let others = [bias, factors].into_iter().flatten().map(|(_, spec)| spec);
        let specs = [weights].into_iter().chain(others).collect();
        let mut parts = vec![values, before, sums];
        parts.extend(between);
        let edges = edges.unwrap_or_default();
        let zeros = [from, zero];
        Some(Found { values, parts, edges, constants, specs, eight, zeros })
    }

    /// The way of step `last` from sums of values, if it reads these and a bias alone.
    fn of_singles(&self, last: usize, formula: &Formula, bounds: [i16; 2]) -> Option<Ending> {
        let step = &self.steps[last];
        let Written { value, added, relu, scale, zero } = written(formula, bounds)?;
        let (sum, bias) = match added {
            Some(added) if self.is_sum(last, added) => (added, Some(value)),
            added => (value, added),
        };
        let sums = self.maker(last, sum).filter(|_| self.is_sum(last, sum))?;
        let is_whole = step.op.inputs[sum].dims == step.op.output.dims;
        let is_all = step.reads.len() == 1 + usize::from(bias.is_some());
        let bias = bias.map(|bias| (step.reads[bias], step.op.inputs[bias].clone()));
        let (between, factors, unit) = (None, None, None);
        let ending = Ending { sums, between, bias, factors, unit, relu, scale, zero };
        (is_whole && is_all).then_some(ending)
    }

    /// The way of step `last` from sums of integers, to which a step may add a bias.
    fn of_integers(&self, last: usize, formula: &Formula, bounds: [i16; 2]) -> Option<Ending> {
        let step = &self.steps[last];
        let requantized = requantized(formula, bounds)?;
        let Requantized { sum, factors, scales: [unit, scale], zero } = requantized;
        let made = self.maker(last, sum).filter(|_| self.sole_maker(last, sum).is_some())?;
        let is_whole = step.op.inputs[sum].dims == step.op.output.dims;
        let is_all = step.reads.len() == 1 + usize::from(factors.is_some());
        let factors = factors.map(|k| (step.reads[k], step.op.inputs[k].clone()));
        let (between, sums, bias) = if let Kind::Map(map) = &self.steps[made].op.kind {
            let adds = &self.steps[made];
            if map.domain != Domain::I64 || adds.reads.len() != 2 || !is_sum(&map.formula) {
                return None;
            }
            let (sum, bias) = if self.is_sum(made, 0) { (0, 1) } else { (1, 0) };
            if adds.op.inputs[sum].dims != adds.op.output.dims {
                return None;
            }
            let bias = (adds.reads[bias], adds.op.inputs[bias].clone());
            (Some(made), self.maker(made, sum).filter(|_| self.is_sum(made, sum))?, Some(bias))
        } else {
            (None, made, None)
        };
        let (unit, relu) = (Some(unit), false);
        let ending = Ending { sums, between, bias, factors, unit, relu, scale, zero };
        (is_whole && is_all).then_some(ending)
    }

    /// Returns whether a contraction makes what step `reader` alone reads as its input `input`.
    fn is_sum(&self, reader: usize, input: usize) -> bool {
        let maker = self.sole_maker(reader, input).map(|maker| &self.steps[maker].op.kind);
        matches!(maker, Some(Kind::Contract(_)))
    }

    /// Sizes of an image of whose numbers step `at` makes values of this type, the value of one
    /// step of them if these are singles, and their zero point.
    fn values(&self, at: usize, element: Element) -> Option<([usize; 4], Option<f32>, i16)> {
        let TensorOp { kind, inputs, output } = &*self.steps[at].op;
        let (Kind::Map(map), [input]) = (kind, &inputs[..]) else { return None };
        let fits = map.domain == element.domain() && output.element == element;
        if !fits || bounds(input.element).is_none() || input.dims != output.dims {
            return None;
        }
        let shape: [usize; 4] = input.dims[..].try_into().ok()?;
        Some(match element {
            Element::I32 => (shape, None, moved(&map.formula)?),
            _ => {
                let from = numbers(&map.formula)?;
                (shape, Some(from.scale), from.zero)
            }
        })
    }

    /// The convolution that ends with step `last` as it is joined. `stored` has the difference of a
    /// storage's numbers from those of the file.
    pub(super) fn joined(
        &self,
        last: usize,
        found: Found,
        stored: &HashMap<usize, i16>,
    ) -> Option<Joined> {
        let (values, step) = (&self.steps[found.values], &self.steps[last]);
        let known = stored.get(&values.reads[0]).copied();
        // Numbers without a sign are 128 less, and those whose lowest is zero one more.
        let signed = |of: &Spec| -> i16 { if of.element == Element::U8 { -128 } else { 0 } };
        let input = signed(&values.op.inputs[0]);
        let lowest = bounds(step.op.output.element)?[0];
        let more = signed(&step.op.output) + i16::from(found.zeros[1] == lowest);
        if more != 0 && !self.all_take_off(step.writes) {
            return None;
        }
        let zero = |k: usize, more: i16| i8::try_from(found.zeros[k].checked_add(more)?).ok();
        let zeros = [zero(0, known.unwrap_or(input))?, zero(1, more)?];
        if found.eight.relu && zeros[1] != 0 {
            return None; // another zero point moves the bound
        }
        let ([rows, columns], [n, c, height, width]) = (found.edges, found.eight.shape);
        // Outside of an image kernels see the number 0.
        let is_inside = zeros[0] == 0 && [rows, columns].iter().all(|[a, b]| a == b);
        let (padding, edges) =
            if is_inside { ([rows[0], columns[0]], [[0; 2]; 2]) } else { ([0; 2], found.edges) };
        let add = |size: usize, [before, after]: [usize; 2]| size + before + after;
        let shape = [n, c, add(height, edges[0]), add(width, edges[1])];
        let eight = Eight { shape, padding, zeros, ..found.eight };
        let op = Self::op(&eight, &found)?;
        let converts = input != 0 && known.is_none();
        Some(Joined { found, op, eight, edges, converts, more })
    }

    fn op(eight: &Eight, found: &Found) -> Option<TensorOp> {
        let [n, c, height, width] = eight.shape;
        let [outputs, down, right] = eight.over;
        let eights = |dims: [usize; 4]| Spec { element: Element::I8, dims: dims.to_vec() };
        let images = eights([n, height, width, c]);
        let op = TensorOp {
            kind: Kind::Eight(*eight),
            inputs: [images].into_iter().chain(found.specs.iter().cloned()).collect(),
            output: eights([n, down, right, outputs]),
        };
        op.check().ok().map(|()| op)
    }

    /// Returns whether all readers of a storage are formulas that can take a number off.
    fn all_take_off(&self, storage: usize) -> bool {
        let can = |step: &TensorStep| match &step.op.kind {
            Kind::Map(map) => takes_off(&map.formula),
            _ => false,
        };
        // A caller of the network has the number behind the last step's.
        self.readers.all(storage).iter().all(|&reader| self.steps.get(reader).is_some_and(can))
    }

    /// Steps that no other step reads once these convolutions are joined.
    pub(super) fn gone(&self, joined: &HashMap<usize, Joined>) -> HashSet<usize> {
        let parts = joined.values().flat_map(|one| one.found.parts.iter().copied());
        let parts: BTreeSet<usize> = parts.collect();
        let mut gone = HashSet::new();
        for part in parts.into_iter().rev() {
            let mut readers = self.readers.all(self.steps[part].writes).iter();
            if readers.all(|reader| gone.contains(reader) || joined.contains_key(reader)) {
                gone.insert(part);
            }
        }
        gone
    }
}

/// Sizes of a convolution without padding.
struct Sizes {
    outputs: usize,
    over: [usize; 2],
    size: [usize; 2],
    stride: [usize; 2],
}

impl Sizes {
    /// Sizes of a contraction of this type, if it is one in one group and with adjoining taps.
    fn of(op: &TensorOp, element: Element) -> Option<Self> {
        let (Kind::Contract(contract), [x, w]) = (&op.kind, &op.inputs[..]) else { return None };
        if [x, w, &op.output].iter().any(|spec| spec.element != element) {
            return None;
        }
        if [x, w].iter().any(|spec| spec.elements() == 0) {
            return None; // from here on products of sizes are small
        }
        let (&[_, c, _, width], &[outputs, each, rows, columns]) = (&x.dims[..], &w.dims[..])
        else {
            return None;
        };
        let &[_, _, down, right] = &op.output.dims[..] else { return None };
        let &[.., line, column] = &contract.kept[0].strides[..] else { return None };
        let (size, over, stride) = ([rows, columns], [down, right], [line / width, column]);
        if c != each || stride.contains(&0) {
            return None;
        }
        let want = convolution(&x.dims, &w.dims, 1, &over, &stride, &[1; 2], element.domain());
        (*contract == want).then_some(Self { outputs, over, size, stride })
    }
}

/// Returns whether an input of a formula is one value for each channel.
fn is_of_channels(spec: &Spec, channels: usize, element: Element) -> bool {
    let axis = spec.dims.len().checked_sub(3).map(|at| spec.dims[at]);
    spec.element == element && spec.elements() == channels && axis == Some(channels)
}
