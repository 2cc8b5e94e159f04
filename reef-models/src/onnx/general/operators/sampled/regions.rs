//! `RoiAlign`: regions of a tensor, each at the same number of bins.

use super::infinities::{finite, with_infinite};
use super::taps::{Space, Tap, of_places, with_channels_first};
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::ensure_float;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Element, Gather, Kind, Spec, Target, Unary};

/// Most samples of a bin along an axis.
const MAX_SAMPLES: usize = 16;

/// Operands: batches, channels, rows and columns; corners of regions; the batch of each.
pub(super) fn align(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, regions, batches) = (call.get(0)?, call.get(1)?, call.get(2)?);
    let (&[_, _, height, width], &[count, 4]) = (x.dims(), regions.dims()) else {
        return Err(format!("regions {} of {}", regions.spec, x.spec));
    };
    ensure_float(x)?;
    if batches.dims() != [count] {
        return Err(format!("batches {} of {count} regions", batches.spec));
    }
    let usual = if call.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let is_exact = match call.text("coordinate_transformation_mode", usual)? {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return Err(format!("attribute coordinate_transformation_mode = {other:?}")),
    };
    let join = match call.text("mode", "avg")? {
        "avg" => Binary::Add,
        "max" => Binary::Max,
        other => return Err(format!("attribute mode = {other:?}")),
    };
    let bins = [size(call.int("output_height", 1)?)?, size(call.int("output_width", 1)?)?];
    let samples = size(call.int("sampling_ratio", 0)?)?;
    if bins.contains(&0) {
        return Err(format!("{bins:?} bins"));
    }
    if samples > MAX_SAMPLES {
        return Err(beyond(&format!(
            "{samples} samples along an axis of a bin: have at most {MAX_SAMPLES}"
        )));
    }
    let scale = call.float("spatial_scale", 1.0)?;
    let regions = b.cast(regions, of_places(x))?;
    let mut axis = |number: usize, size: usize| {
        let low = b.cut(&regions, 1, 1 - number, 2 - number)?;
        let high = b.cut(&regions, 1, 3 - number, 4 - number)?;
        Edges { scale, is_exact, bins: bins[number], size }.of(b, &low, &high)
    };
    let axes = [axis(0, height)?, axis(1, width)?];
    let made = match (samples, join) {
        (0, Binary::Max) => {
            return Err(beyond(
                "attribute mode = \"max\" with sampling_ratio = 0: choose a number of samples when \
                 the file is exported",
            ));
        }
        (0, _) => {
            let made = by_weights(b, x, &axes, batches)?;
            return b.cast(&made, x.element());
        }
        _ => sampled(b, x, &axes, batches, samples, join)?,
    };
    with_channels_first(b, &made, 2, x.element())
}

struct Edges {
    scale: f64,
    is_exact: bool,
    bins: usize,
    size: usize,
}

/// Regions along one axis: where each begins and the length of its bins, `[regions, 1]`.
struct Axis {
    from: Value,
    bin: Value,
    bins: usize,
    size: usize,
}

impl Edges {
    fn of(&self, b: &mut Builder<'_>, low: &Value, high: &Value) -> Result<Axis> {
        let (scale, bins) = (self.scale, self.bins as f64);
        let from = b.each(low, |w, low| {
            let (scale, half) = (w.real(scale), w.real(if self.is_exact { 0.5 } else { 0.0 }));
            let scaled = w.mul(low, scale);
            w.sub(scaled, half)
        })?;
        let bin = b.map(low.element(), &[low, high], |w| {
            let (low, high, scale) = (w.input(0), w.input(1), w.real(scale));
            let (low, high) = (w.mul(low, scale), w.mul(high, scale));
            let mut length = w.sub(high, low);
            if !self.is_exact {
                let one = w.real(1.0);
                length = w.bin(Binary::Max, length, one);
            }
            let bins = w.real(bins);
            w.div(length, bins)
        })?;
        Ok(Axis { from, bin, bins: self.bins, size: self.size })
    }
}

impl Axis {
    /// Neighbours of sample `k` of `samples` of each bin; dimensions are regions, rows and columns.
    fn taps(
        &self,
        b: &mut Builder<'_>,
        k: usize,
        samples: usize,
        is_column: bool,
    ) -> Result<Vec<Tap>> {
        let bins = b.count(vec![1, self.bins])?;
        let bins = b.cast(&bins, self.from.element())?;
        let places = b.map(self.from.element(), &[&self.from, &self.bin, &bins], |w| {
            // In the order of ONNX Runtime: samples at an edge count by the last bit.
            let (from, bin, number) = (w.input(0), w.input(1), w.input(2));
            let (step, samples) = (w.real(k as f64 + 0.5), w.real(samples as f64));
            let first = w.mul(number, bin);
            let first = w.add(from, first);
            let offset = w.mul(step, bin);
            let offset = w.div(offset, samples);
            w.add(first, offset)
        })?;
        let count = places.dims()[0];
        let dims = if is_column { vec![count, 1, self.bins] } else { vec![count, self.bins, 1] };
        let places = b.reshape(&places, dims)?;
        let last = self.size as f64 - 1.0;
        let inside = b.each(&places, |w, at| {
            let (zero, last) = (w.real(0.0), w.real(last));
            let at = w.bin(Binary::Max, at, zero);
            w.bin(Binary::Min, at, last)
        })?;
        let low = b.unary(Unary::Floor, &inside)?;
        let outside = b.map_in(places.element().domain(), Element::Bool, &[&places], |w| {
            let (at, first, end) = (w.input(0), w.real(-1.0), w.real(self.size as f64));
            let (before, behind) = (w.bin(Binary::Less, at, first), w.bin(Binary::Less, end, at));
            w.bin(Binary::Max, before, behind)
        })?;
        let mut taps = Vec::new();
        for behind in 0..2 {
            let at = b.map_in(low.element().domain(), Element::I64, &[&low], |w| {
                let (low, behind, last) = (w.input(0), w.whole(behind), w.real(last));
                let at = w.add(low, behind);
                w.bin(Binary::Min, at, last)
            })?;
            let weight = b.map(low.element(), &[&inside, &low], |w| {
                let (inside, low, one) = (w.input(0), w.input(1), w.real(1.0));
                let part = w.sub(inside, low);
                if behind == 0 { w.sub(one, part) } else { part }
            })?;
            taps.push(Tap { at, weight: Some(weight), outside: Some(outside.clone()) });
        }
        Ok(taps)
    }

    /// Weights of all elements of the axis in each bin, `[regions, bins, size]`. A bin has as many
    /// samples as it is long, rounded up, so that at most [`NEAR`] of them touch an element.
    fn weights(&self, b: &mut Builder<'_>) -> Result<Value> {
        let count = self.from.dims()[0];
        let element = self.from.element();
        let column = |b: &Builder<'_>, value: &Value| b.reshape(value, vec![count, 1, 1]);
        let (from, bin) = (column(b, &self.from)?, column(b, &self.bin)?);
        let bins = b.count(vec![1, self.bins, 1])?;
        let places = b.count(vec![1, 1, self.size])?;
        let (bins, places) = (b.cast(&bins, element)?, b.cast(&places, element)?);
        let size = self.size as f64;
        b.map(element, &[&from, &bin, &bins, &places], |w| {
            let (from, bin, number, place) = (w.input(0), w.input(1), w.input(2), w.input(3));
            let (zero, one, half) = (w.real(0.0), w.real(1.0), w.real(0.5));
            let (before, end, last) = (w.real(-1.0), w.real(size), w.real(size - 1.0));
            let samples = w.un(Unary::Ceil, bin);
            let divisor = w.bin(Binary::Max, samples, one);
            let step = w.div(bin, divisor);
            let offset = w.mul(number, bin);
            let begin = w.add(from, offset);
            // The first sample that is at least one element before this one.
            let near = w.sub(place, one);
            let apart = w.sub(near, begin);
            let steps = w.div(apart, step);
            let steps = w.sub(steps, half);
            let first = w.un(Unary::Ceil, steps);
            let first = w.bin(Binary::Max, first, zero);
            let mut sum = zero;
            for k in 0..NEAR {
                let k = w.whole(k);
                let k = w.add(first, k);
                let middle = w.add(k, half);
                let offset = w.mul(middle, step);
                let at = w.add(begin, offset);
                let inside = w.bin(Binary::Max, at, zero);
                let inside = w.bin(Binary::Min, inside, last);
                let apart = w.sub(inside, place);
                let apart = w.un(Unary::Abs, apart);
                let weight = w.sub(one, apart);
                let weight = w.bin(Binary::Max, weight, zero);
                let is_before = w.bin(Binary::Less, at, before);
                let is_behind = w.bin(Binary::Less, end, at);
                let is_none = w.bin(Binary::LessOrEqual, samples, k);
                let is_outside = w.bin(Binary::Max, is_before, is_behind);
                let is_nothing = w.bin(Binary::Max, is_outside, is_none);
                let weight = w.select(is_nothing, zero, weight);
                sum = w.add(sum, weight);
            }
            w.div(sum, divisor)
        })
    }
}

/// Samples of a bin that are less than one element away from another one: they are more than half
/// an element apart.
const NEAR: i64 = 5;

fn sampled(
    b: &mut Builder<'_>,
    x: &Value,
    axes: &[Axis; 2],
    batches: &Value,
    samples: usize,
    join: Binary,
) -> Result<Value> {
    let space = Space::of(b, x)?.with_batches();
    let of_batch = Tap::of_batches(b, batches)?;
    let mut made: Option<Value> = None;
    for k in 0..samples * samples {
        let rows = axes[0].taps(b, k / samples, samples, false)?;
        let columns = axes[1].taps(b, k % samples, samples, true)?;
        let sample = space.blend(b, &[vec![of_batch.clone()], rows, columns], join)?;
        made = Some(match made {
            None => sample,
            Some(others) => b.binary(join, &others, &sample)?,
        });
    }
    let made = made.ok_or("no samples")?;
    match join {
        Binary::Add => b.with_number(Binary::Div, &made, (samples * samples) as f64),
        _ => Ok(made),
    }
}

/// Means of all samples, as products with the weights of rows and of columns.
fn by_weights(b: &mut Builder<'_>, x: &Value, axes: &[Axis; 2], batches: &Value) -> Result<Value> {
    let weights = [axes[0].weights(b)?, axes[1].weights(b)?];
    let x = b.widened(x)?;
    let finite = finite(b, &x)?;
    let made = products(b, &finite, &weights, batches)?;
    with_infinite(b, &made, &x, &weights, batches)
}

/// Elements of each region's batch, times weights `[regions, bins, size]` of rows and of columns.
fn products(
    b: &mut Builder<'_>,
    x: &Value,
    [rows, columns]: &[Value; 2],
    batches: &Value,
) -> Result<Value> {
    let (dims, count) = (x.dims().to_vec(), rows.dims()[0]);
    let each = if dims[0] == 1 {
        x.clone()
    } else {
        let inner = dims[1..].iter().product();
        let sizes = vec![dims[0]];
        let target = Target::Tuples { batches: 1, shared: true, sizes, inner, tuples: count };
        let spec = Spec { element: x.element(), dims: [&[count], &dims[1..]].concat() };
        b.emit(Kind::Gather(Gather { target }), &[x, batches], spec)?
    };
    let rows = b.reshape(rows, vec![count, 1, rows.dims()[1], dims[2]])?;
    let columns = b.reshape(columns, vec![count, 1, columns.dims()[1], dims[3]])?;
    let made = b.matmul(&rows, &each)?;
    let turned = b.transpose(&columns, &[0, 1, 3, 2])?;
    b.matmul(&made, &turned)
}
