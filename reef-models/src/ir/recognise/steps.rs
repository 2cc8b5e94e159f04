//! Meaning of each step for images.

use super::content::{Content, Fill};
use super::formula::{Bound, Numbers, bound, divisor, function, is_of_two, linear};
use super::reading::Reading;
use super::shape::{Form, is_per_channel};
use super::weights::{From, Pending, singles};
use super::window::Sliding;
use crate::ir::value::{Affine, Conv, Id, Make, POINT};
use crate::memory::list::List;
use crate::tensors::step::TensorStep;
use crate::tensors::windows::{is_convolution, product, windows};
use reef_op::tensor::{
    Binary, Concat, Contract, Domain, Element, Fold, FoldKind, Formula, Kind, Move, NOWHERE,
    Scalar, View,
};
use reef_op::{Bounds, Function, PoolKind, Window};

impl<'b> Reading<'b, '_> {
    /// Reads step `k`.
    pub(super) fn step(&mut self, k: usize, step: &'b TensorStep) -> Result<(), String> {
        let op = &step.op;
        if let Some(other) =
            op.inputs.iter().chain([&op.output]).find(|of| of.element != Element::F32)
        {
            return Err(format!("elements must be of type float32, got {}", other.element));
        }
        let name = self.builder.module(k).unwrap_or(&step.name);
        let seen = match &op.kind {
            Kind::Contract(contract) if op.output.dims.len() == 2 => {
                self.matrix(name, step, contract)?
            }
            Kind::Contract(contract) => self.convolution(name, step, contract)?,
            Kind::Fold(fold) => self.fold(name, step, fold)?,
            Kind::Map(map) => self.formula(name, step, &map.formula)?,
            Kind::Move(moved) => self.moved(name, step, moved)?,
            Kind::Concat(concat) => self.concat(name, step, concat)?,
            _ => return Err(format!("{} is not an operation on images", op.name())),
        };
        self.seen[step.writes] = seen;
        Ok(())
    }

    /// A convolution over an image that may be padded.
    fn convolution(
        &mut self,
        name: &str,
        step: &TensorStep,
        contract: &Contract,
    ) -> Result<Content, String> {
        let [x, w] = [0, 1].map(|k| &*step.op.inputs[k].dims);
        let (&[batch, channels, _, columns], &[outputs, each, ..]) = (x, w) else {
            return Err(format!("weights of {w:?} over {x:?}"));
        };
        let known = self.constants[step.reads[1]].ok_or("operand 1 must be a constant")?;
        let (id, before, after) = self.padded(step.reads[0], x, Fill::Zero)?;
        let steps = [&contract.kept[0].strides, &contract.summed[0].strides];
        let ([.., down, right], [_, rows, across]) = (&steps[0][..], &steps[1][..]) else {
            return Err("sums of products that are not a convolution".into());
        };
        let columns = columns.max(1);
        let (stride, dilation) = ([down / columns, *right], [rows / columns, *across]);
        let (Ok(size), Ok(count)) =
            (w[2..].try_into(), <[usize; 2]>::try_from(&step.op.output.dims[2..]))
        else {
            return Err("a convolution over other axes than rows and columns".into());
        };
        let groups = channels.checked_div(each).filter(|groups| groups * each == channels);
        let groups = groups.filter(|&groups| groups > 0 && outputs.is_multiple_of(groups));
        let over = |groups| is_convolution(contract, x, w, groups, count, stride, dilation);
        let Some(groups) = groups.filter(|&groups| over(groups)) else {
            return Err("sums of products that are not a convolution".into());
        };
        let sliding = Sliding { size, stride, dilation, before, after, count };
        let [.., height, width] = self.shape(id);
        let window = sliding.of_conv([height, width])?;
        let make = Conv::plain(id, window, groups, List::default(), List::default());
        let shape = [batch, outputs, count[0], count[1]];
        let from = From::Filters(known.clone(), sliding, window);
        self.weighted(name, shape, make, from)
    }

    /// A product with a matrix: a convolution whose window is the whole image.
    fn matrix(
        &mut self,
        name: &str,
        step: &TensorStep,
        contract: &Contract,
    ) -> Result<Content, String> {
        let [x, w] = [0, 1].map(|k| &*step.op.inputs[k].dims);
        let known = self.constants[step.reads[1]].ok_or("operand 1 must be a constant")?;
        let (id, form) = self.operand(step, 0)?;
        let [batch, _, height, width] = self.shape(id);
        let (Ok(a), Ok(b), Form::Flat) = (x.try_into(), w.try_into(), form) else {
            return Err(format!("weights of {w:?} for a tensor of {x:?}"));
        };
        let is = |turned| {
            let made = product(a, b, [false, turned], Domain::F32);
            made.is_some_and(|(same, _)| same == *contract)
        };
        let from = match () {
            () if is(true) => From::Rows(known.clone()),
            () if is(false) => From::Columns(known.clone()),
            () => return Err("sums of products that are not a linear layer".into()),
        };
        let window = Window { size: [height, width], ..POINT };
        let make = Conv::plain(id, window, 1, List::default(), List::default());
        let outputs = step.op.output.dims[1];
        self.weighted(name, [batch, outputs, 1, 1], make, from)
    }

    /// A convolution that gets its weights later.
    fn weighted(
        &mut self,
        name: &str,
        shape: [usize; 4],
        make: Conv,
        from: From,
    ) -> Result<Content, String> {
        let id = self.push(name, shape, Make::Conv(make))?;
        self.pending.push(Pending { id, outputs: shape[1], from });
        Ok(Content::Value(id))
    }

    /// A storage that a window sees as `dims`: the image, and how it is padded.
    fn padded(
        &self,
        storage: usize,
        dims: &[usize],
        wanted: Fill,
    ) -> Result<(Id, [usize; 2], [usize; 2]), String> {
        let (id, before, after) = match self.seen[storage] {
            Content::Padded { x, before, after, fill } if fill == wanted || fill == Fill::None => {
                (x, before, after)
            }
            _ => (self.value(storage)?, [0; 2], [0; 2]),
        };
        let [batch, channels, height, width] = self.shape(id);
        let have = [batch, channels, height + before[0] + after[0], width + before[1] + after[1]];
        if dims != have {
            return Err(format!("a window over {dims:?} of {have:?}"));
        }
        Ok((id, before, after))
    }

    /// A maximum, or sums that become means.
    fn fold(&mut self, name: &str, step: &TensorStep, fold: &Fold) -> Result<Content, String> {
        let dims = &*step.op.inputs[0].dims;
        let fill = match fold.kind {
            FoldKind::Max => Fill::Least,
            FoldKind::Sum => Fill::Zero,
            _ => return Err("it is neither a maximum nor a mean".into()),
        };
        let (id, before, after) = self.padded(step.reads[0], dims, fill)?;
        let [.., height, width] = self.shape(id);
        let (over, dense) = ([height, width], View::dense(dims));
        let spaces = [[2, 3], [3, 2]].map(|axes| dense.axes(&axes));
        let is_global = fold.kept == dense.axes(&[0, 1]) && spaces.contains(&fold.folded);
        let window = if is_global && [before, after] == [[0; 2]; 2] {
            Window { size: over, ..POINT }
        } else {
            sliding(dims, fold, before, after)?.of_pool(over)?
        };
        if fold.kind == FoldKind::Sum {
            return Ok(Content::Sums { x: id, window, is_global });
        }
        self.pool(name, id, PoolKind::Max, window, is_global)
    }

    fn formula(
        &mut self,
        name: &str,
        step: &TensorStep,
        formula: &Formula,
    ) -> Result<Content, String> {
        let open = |k: &usize| self.constants[step.reads[*k]].is_none();
        let open: Vec<usize> = (0..step.reads.len()).filter(open).collect();
        match *open.as_slice() {
            [k] => match self.seen[step.reads[k]] {
                Content::Sums { x, window, is_global } => {
                    self.ensure_mean(step, formula, &window)?;
                    self.pool(name, x, PoolKind::Average, window, is_global)
                }
                Content::Bounded { x, low } => match bound(formula) {
                    Some(Bound::High(high)) => self.clamp(name, x, low, high),
                    _ => Err("it reads what no image is".into()),
                },
                _ => self.of_one(name, step, formula, k),
            },
            [0, 1] if step.reads.len() == 2 => self.of_two(name, step, formula),
            _ => Err(format!("a formula of {} tensors", open.len())),
        }
    }

    /// Refuses sums over windows that are not divided by how many elements each has.
    fn ensure_mean(
        &self,
        step: &TensorStep,
        formula: &Formula,
        window: &Window,
    ) -> Result<(), String> {
        let area = (window.size[0] * window.size[1]) as f64;
        let is_mean = match divisor(formula) {
            Some(Some(by)) => by == area,
            Some(None) => {
                let counts = self.constants[step.reads[1]].ok_or("it divides by no constant")?;
                singles(counts)?.iter().all(|&count| f64::from(count) == area)
            }
            None => return Err("sums are not an operation on images".into()),
        };
        if !is_mean {
            return Err("means over windows that reach over the edge by different amounts \
                        (count_include_pad, ceil_mode) are not supported"
                .into());
        }
        Ok(())
    }

    /// A pool, unless its windows are single pixels.
    fn pool(
        &mut self,
        name: &str,
        x: Id,
        kind: PoolKind,
        window: Window,
        is_global: bool,
    ) -> Result<Content, String> {
        if window == POINT && !is_global {
            return Ok(Content::Value(x));
        }
        let [batch, channels, height, width] = self.shape(x);
        let [rows, columns] = window.over([height, width]);
        let make = Make::Pool { x, kind, window };
        Ok(Content::Value(self.push(name, [batch, channels, rows, columns], make)?))
    }

    /// A formula of one image and constants.
    fn of_one(
        &mut self,
        name: &str,
        step: &TensorStep,
        formula: &Formula,
        k: usize,
    ) -> Result<Content, String> {
        let (x, form) = self.operand(step, k)?;
        let (dims, shape) = (&*step.op.inputs[k].dims, self.shape(x));
        if step.op.output.dims != dims {
            let made = &step.op.output.dims;
            return Err(format!("a tensor of {dims:?} can't become {made:?} here"));
        }
        match bound(formula) {
            Some(Bound::Low(low)) => {
                let next = self.only_reader(step.writes).filter(|next| next.name == step.name);
                if let Some(Kind::Map(next)) = next.map(|next| &next.op.kind)
                    && matches!(bound(&next.formula), Some(Bound::High(_)))
                {
                    return Ok(Content::Bounded { x, low });
                }
                return self.clamp(name, x, low, f64::INFINITY);
            }
            Some(Bound::High(high)) => return self.clamp(name, x, f64::NEG_INFINITY, high),
            None => {}
        }
        if let Some(function) = function(formula) {
            return self.mapped(name, x, Make::Activate { x, function });
        }
        let constant = |k: usize| {
            let known = self.constants[step.reads[k]].ok_or("it reads what no image is")?;
            let (values, of) = (singles(known)?, &step.op.inputs[k].dims);
            match values {
                &[value] if of.len() <= dims.len() => Ok(Numbers::All(value.into())),
                _ if form.has_channels(shape) && is_per_channel(of, dims, shape[1]) => {
                    let values = values.iter().map(|&value| value.into());
                    Ok(Numbers::Each(List::of(shape[1], values, self.ledger)?))
                }
                _ => Err(format!("a constant of {of:?} to a tensor of {dims:?} is not supported")),
            }
        };
        let Some([scale, shift]) = linear(formula, k, constant, self.ledger)? else {
            return Err("its formula is none of those on images".into());
        };
        let channels = shape[1];
        let (scale, shift) =
            (scale.spread(channels, self.ledger)?, shift.spread(channels, self.ledger)?);
        self.mapped(name, x, Make::Affine(Affine { x, scale, shift, relu: false }))
    }

    /// Between bounds. Those that a file writes for "none" are the largest finite numbers.
    fn clamp(&mut self, name: &str, x: Id, low: f64, high: f64) -> Result<Content, String> {
        if low.is_nan() || high.is_nan() {
            return Err(format!("bounds {low} and {high}"));
        }
        let [low, high] = [low, high].map(|bound| bound as f32);
        let low = if low > f32::MIN { low } else { f32::NEG_INFINITY };
        let high = if high < f32::MAX { high } else { f32::INFINITY };
        let make = match (low, high) {
            (f32::NEG_INFINITY, f32::INFINITY) => return Ok(Content::Value(x)),
            (0.0, f32::INFINITY) => Make::Relu { x },
            _ => {
                let bounds =
                    Bounds::new(low, high).ok_or_else(|| format!("bounds {low} and {high}"))?;
                Make::Activate { x, function: Function::Clamp(bounds) }
            }
        };
        self.mapped(name, x, make)
    }

    /// A value of the shape of `x`.
    fn mapped(&mut self, name: &str, x: Id, make: Make) -> Result<Content, String> {
        Ok(Content::Value(self.push(name, self.shape(x), make)?))
    }

    /// A sum of two images of one shape, or their product, of which one may be a gate.
    fn of_two(
        &mut self,
        name: &str,
        step: &TensorStep,
        formula: &Formula,
    ) -> Result<Content, String> {
        let ((a, of_a), (b, of_b)) = (self.operand(step, 0)?, self.operand(step, 1)?);
        let shapes = [a, b].map(|id| self.shape(id));
        let alike = of_a == of_b && shapes[0] == shapes[1];
        let images = [of_a, of_b] == [Form::Image; 2];
        let is_gate = |gate: [usize; 4], x: [usize; 4]| images && gate == [x[0], x[1], 1, 1];
        let product = |x, factor| Make::Multiply { x, factor };
        let (make, x) = match () {
            () if is_of_two(formula, Binary::Add) && alike => (Make::Add { a, b }, a),
            () if is_of_two(formula, Binary::Mul) && (alike || is_gate(shapes[1], shapes[0])) => {
                (product(a, b), a)
            }
            () if is_of_two(formula, Binary::Mul) && is_gate(shapes[0], shapes[1]) => {
                (product(b, a), b)
            }
            () if [Binary::Add, Binary::Mul].iter().any(|&of| is_of_two(formula, of)) => {
                let [a, b] = [0, 1].map(|k| &step.op.inputs[k].dims);
                let is_product = is_of_two(formula, Binary::Mul);
                let or = if is_product { " or one value for each channel" } else { "" };
                return Err(format!("tensors must have the same shape{or}, got {a:?} and {b:?}"));
            }
            () => return Err("only sums and products of two tensors are supported".into()),
        };
        self.mapped(name, x, make)
    }

    /// Padding, or some channels of an image: a convolution whose weights are one or zero.
    fn moved(&mut self, name: &str, step: &TensorStep, moved: &Move) -> Result<Content, String> {
        let (x, form) = self.operand(step, 0)?;
        let shape @ [batch, channels, height, width] = self.shape(x);
        let [of_batch, of_channels, rows, columns] = &moved.tables[..] else {
            return Err("the order of a tensor can't be changed".into());
        };
        let strides = View::dense(&shape).strides;
        let around = |axis: usize, table: &[usize]| padding(table, shape[axis], strides[axis]);
        let (Some([0, 0]), Some(of_rows), Some(of_columns), Form::Image) =
            (around(0, of_batch), around(2, rows), around(3, columns), form)
        else {
            return Err("the order of a tensor can't be changed".into());
        };
        let (before, after) = ([of_rows[0], of_columns[0]], [of_rows[1], of_columns[1]]);
        let is_padded = [before, after] != [[0; 2]; 2];
        if around(1, of_channels) == Some([0, 0]) {
            let fill = match moved.fill {
                _ if !is_padded => Fill::None,
                Scalar::Whole(0) => Fill::Zero,
                Scalar::Real(f64::NEG_INFINITY) => Fill::Least,
                _ => return Err("a padding of other numbers than images have".into()),
            };
            return Ok(Content::Padded { x, before, after, fill });
        }
        let pick = |&at: &usize| match at {
            NOWHERE => Err("a padding of channels".to_owned()),
            at => Ok(at / strides[1]),
        };
        if is_padded {
            return Err("only channels (axis 1) can be picked".into());
        }
        let outputs = of_channels.len();
        let picked = List::try_of(outputs, of_channels.iter().map(pick), self.ledger)?;
        let make = Conv::plain(x, POINT, 1, List::default(), List::default());
        let shape = [batch, outputs, height, width];
        self.weighted(name, shape, make, From::Picked(picked, channels))
    }

    fn concat(
        &mut self,
        name: &str,
        step: &TensorStep,
        concat: &Concat,
    ) -> Result<Content, String> {
        let (first, form) = self.operand(step, 0)?;
        let [batch, _, height, width] = self.shape(first);
        let wrong =
            |dims: &[usize]| format!("tensors of {:?} and {dims:?}", step.op.inputs[0].dims);
        let mut parts = List::with_capacity(step.reads.len(), self.ledger)?;
        let mut all = 0;
        for (k, input) in step.op.inputs.iter().enumerate() {
            let (part, of_part) = self.operand(step, k)?;
            let [n, channels, h, w] = self.shape(part);
            let fits = of_part == form && [n, h, w] == [batch, height, width];
            if !fits || !form.has_channels(self.shape(part)) {
                return Err(wrong(&input.dims));
            }
            parts.push(part, self.ledger)?;
            all += channels;
        }
        let made = &step.op.output.dims;
        if concat.outer != batch || made[..2] != [batch, all] {
            return Err(format!("{} along another axis than channels", wrong(made)));
        }
        let make = Make::Concat { parts };
        Ok(Content::Value(self.push(name, [batch, all, height, width], make)?))
    }
}

/// The window of a fold over `dims`, padding included.
fn sliding(
    dims: &[usize],
    fold: &Fold,
    before: [usize; 2],
    after: [usize; 2],
) -> Result<Sliding, String> {
    let none = || "it is not a window over rows and columns".to_owned();
    let ([.., columns], [_, _, down, right], [rows, across]) =
        (dims, &fold.kept.strides[..], &fold.folded.strides[..])
    else {
        return Err(none());
    };
    let columns = (*columns).max(1);
    let (stride, dilation) = ([down / columns, *right], [rows / columns, *across]);
    let (Ok(size), Ok(count)) = (
        <[usize; 2]>::try_from(&fold.folded.dims[..]),
        <[usize; 2]>::try_from(&fold.kept.dims[2..]),
    ) else {
        return Err(none());
    };
    if windows(dims, &count, &size, &stride, &dilation) != [fold.kept.clone(), fold.folded.clone()]
    {
        return Err(none());
    }
    Ok(Sliding { size, stride, dilation, before, after, count })
}

/// Places of a table for an axis before and after all of the axis in its order.
fn padding(table: &[usize], size: usize, stride: usize) -> Option<[usize; 2]> {
    let before = table.iter().take_while(|&&at| at == NOWHERE).count();
    let after = table.len().checked_sub(before + size)?;
    let inside = table[before..before + size].iter().enumerate().all(|(k, &at)| at == k * stride);
    let nowhere = table[before + size..].iter().all(|&at| at == NOWHERE);
    (inside && nowhere).then_some([before, after])
}
