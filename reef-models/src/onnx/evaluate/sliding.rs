//! Windows that slide over rows and columns: convolutions and pools.

use super::operands::{Floats, Operands, elements, image};
use super::products::maximum;
use crate::memory::list::List;
use crate::onnx::constant::Constant;
use crate::onnx::fault::Result;
use crate::onnx::node::size;
use std::ops::Range;

/// Rows or columns under a window.
struct Axis {
    /// Of the image.
    len: usize,
    size: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
    /// Windows.
    count: usize,
}

impl Axis {
    fn of(of: &Operands<'_, '_>, axis: usize, taps: usize, len: usize) -> Result<Self> {
        let node = of.node;
        let stride = node.pair("strides", 1)?[axis];
        let dilation = node.pair("dilations", 1)?[axis];
        if [stride, dilation, taps].contains(&0) {
            return Err("a size, stride or dilation of 0".into());
        }
        let reach = (taps - 1) * dilation + 1;
        let [before, after] = match node.text("auto_pad")?.unwrap_or(b"NOTSET") {
            b"SAME_UPPER" => same(len, reach, stride),
            b"SAME_LOWER" => {
                let [less, more] = same(len, reach, stride);
                [more, less]
            }
            b"VALID" => [0, 0],
            _ => match node.ints("pads")? {
                Some(pads) if pads.len() == 4 => {
                    [size("pads", pads[axis])?, size("pads", pads[axis + 2])?]
                }
                Some(pads) => return Err(format!("attribute pads = {pads:?}")),
                None => [0, 0],
            },
        };
        let steps = (len + before + after).checked_sub(reach).ok_or("a window that doesn't fit")?;
        let mut count = steps / stride + 1;
        if node.int("ceil_mode", 0)? != 0 {
            count = steps.div_ceil(stride) + 1;
            // The last window starts on the image or on the padding before it.
            count -= usize::from((count - 1) * stride >= len + before);
        }
        Ok(Self { len, size: taps, stride, dilation, before, after, count })
    }

    /// Place of tap `tap` of window `window`, if inside the image.
    fn at(&self, window: usize, tap: usize) -> Option<usize> {
        let at = (window * self.stride + tap * self.dilation).checked_sub(self.before)?;
        (at < self.len).then_some(at)
    }

    /// Taps of window `window` that are inside the image or its padding.
    fn padded_taps(&self, window: usize) -> usize {
        let end = self.len + self.before + self.after;
        (0..self.size).filter(|tap| window * self.stride + tap * self.dilation < end).count()
    }

    /// Windows whose tap `tap` is inside the image.
    fn inside(&self, tap: usize) -> Range<usize> {
        let is_inside = |&window: &usize| self.at(window, tap).is_some();
        let first = (0..self.count).find(is_inside).unwrap_or(self.count);
        first
            ..(first..self.count)
                .take_while(|window| is_inside(window))
                .last()
                .map_or(first, |w| w + 1)
    }
}

/// The padding that gives as many windows as there are strides, the smaller half in front.
fn same(len: usize, reach: usize, stride: usize) -> [usize; 2] {
    let all = ((len.div_ceil(stride) - 1) * stride + reach).saturating_sub(len);
    [all / 2, all - all / 2]
}

pub(super) fn conv(of: &Operands<'_, '_>) -> Result<Constant> {
    let (x, w) = (of.floats(0)?, of.floats(1)?);
    let [batch, channels, height, width] = image(&x.dims)?;
    let [outputs, per_group, rows, columns] = image(&w.dims)?;
    let groups = size("group", of.node.int("group", 1)?)?;
    let fits = groups > 0 && per_group.checked_mul(groups) == Some(channels);
    if !fits || !outputs.is_multiple_of(groups) {
        return Err(format!("weights of {:?} in {groups} groups of {channels} channels", w.dims));
    }
    let (down, right) = (Axis::of(of, 0, rows, height)?, Axis::of(of, 1, columns, width)?);
    let bias = if of.node.operand(2).is_some() { Some(of.floats(2)?) } else { None };
    if let Some(bias) = bias.as_ref().filter(|bias| bias.values.len() != outputs) {
        return Err(format!("bias of {:?} for {outputs} outputs", bias.dims));
    }
    let dims = vec![batch, outputs, down.count, right.count];
    let mut result = List::with_capacity(elements(&dims)?, of.ledger())?;
    for (n, k) in (0..batch).flat_map(|n| (0..outputs).map(move |k| (n, k))) {
        let start = bias.as_ref().map_or(0.0, |bias| f64::from(bias.values[k]));
        let mut sums = List::filled(start, down.count * right.count, of.ledger())?;
        for c in 0..per_group {
            let channel = k / (outputs / groups) * per_group + c;
            let plane = &x.values[(n * channels + channel) * height * width..][..height * width];
            let weights = &w.values[(k * per_group + c) * rows * columns..][..rows * columns];
            add_plane([&down, &right], plane, weights, &mut sums);
        }
        result.append(sums.len(), sums.iter().map(|&sum| sum as f32), of.ledger())?;
    }
    Ok(Constant::floats(dims, result))
}

/// Adds what one channel gives to one output.
fn add_plane([down, right]: [&Axis; 2], plane: &[f32], weights: &[f32], sums: &mut [f64]) {
    for (tap, &weight) in weights.iter().enumerate() {
        let (row, column) = (tap / right.size, tap % right.size);
        let columns = right.inside(column);
        for y in down.inside(row) {
            let Some(from) = down.at(y, row).map(|row| row * right.len) else { continue };
            for x in columns.clone() {
                let at = x * right.stride + column * right.dilation - right.before;
                sums[y * right.count + x] += f64::from(weight) * f64::from(plane[from + at]);
            }
        }
    }
}

pub(super) fn max_pool(of: &Operands<'_, '_>) -> Result<Constant> {
    pool(of, |values, _| maximum(values))
}

/// Padding counts as zeros if the node says so.
pub(super) fn average_pool(of: &Operands<'_, '_>) -> Result<Constant> {
    let counts_padding = of.node.int("count_include_pad", 0)? != 0;
    pool(of, |values, padded| {
        let sum: f64 = values.iter().map(|&value| f64::from(value)).sum();
        (sum / if counts_padding { padded } else { values.len() } as f64) as f32
    })
}

/// Results of `come_to(values inside the image, taps inside the padding)` for each window.
fn pool(of: &Operands<'_, '_>, come_to: impl Fn(&[f32], usize) -> f32) -> Result<Constant> {
    let Floats { dims, values } = of.floats(0)?;
    let [batch, channels, height, width] = image(&dims)?;
    let [rows, columns] = of.node.pair("kernel_shape", 0)?;
    let (down, right) = (Axis::of(of, 0, rows, height)?, Axis::of(of, 1, columns, width)?);
    let dims = vec![batch, channels, down.count, right.count];
    let mut result = List::with_capacity(elements(&dims)?, of.ledger())?;
    for plane in values.chunks((height * width).max(1)) {
        for (y, x) in (0..down.count).flat_map(|y| (0..right.count).map(move |x| (y, x))) {
            let seen = (0..rows).filter_map(|row| down.at(y, row)).flat_map(|row| {
                let inside = (0..columns).filter_map(|column| right.at(x, column));
                inside.map(move |column| row * width + column)
            });
            let seen: Vec<f32> = seen.map(|at| plane[at]).collect();
            let value = come_to(&seen, down.padded_taps(y) * right.padded_taps(x));
            result.push(value, of.ledger())?;
        }
    }
    Ok(Constant::floats(dims, result))
}
