//! `DeformConv`: a convolution whose taps lie where data say.

use super::taps::{Interpolation, Outside, Space, of_places};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::sums::convolutions::{biased, check_kernel};
use crate::onnx::general::operators::sums::window::Sliding;
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary};

/// Operands: batches, channels, rows and columns; filters; how far off each tap lies; a bias; a
/// factor of each tap.
pub(super) fn convolution(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, filters, offsets) = (call.get(0)?, call.get(1)?, call.get(2)?);
    let (&[batches, channels, height, width], &[outputs, each, rows, columns]) =
        (x.dims(), filters.dims())
    else {
        return Err(format!("filters {} for {}", filters.spec, x.spec));
    };
    check_kernel(call, filters)?;
    let window = Sliding::of(call, vec![rows, columns], &[height, width])?;
    let groups = size(call.int("group", 1)?)?;
    let shared = size(call.int("offset_group", 1)?)?;
    let (taps, count) = (rows * columns, &window.count);
    let fits = groups > 0
        && shared > 0
        && channels == each.saturating_mul(groups)
        && channels.is_multiple_of(shared)
        && outputs.is_multiple_of(groups)
        && offsets.dims() == [batches, shared.saturating_mul(2 * taps), count[0], count[1]];
    if !fits {
        return Err(format!(
            "offsets {} and filters {} for {} in {groups} groups",
            offsets.spec, filters.spec, x.spec
        ));
    }
    let split = b.reshape(x, vec![batches * shared, channels / shared, height, width])?;
    let space = Space::of(b, &split)?;
    let offsets = b.cast(offsets, of_places(x))?;
    let places = [batches * shared, taps, count[0], count[1]];
    let offsets = b.reshape(&offsets, vec![places[0], taps, 2, count[0], count[1]])?;
    let mut axes = Vec::new();
    for (k, from) in [height, width].into_iter().enumerate() {
        let offset = b.cut(&offsets, 2, k, k + 1)?;
        let offset = b.reshape(&offset, places.to_vec())?;
        let regular = regular(b, &window, k, columns)?;
        let regular = b.cast(&regular, offset.element())?;
        let at = b.binary(Binary::Add, &offset, &regular)?;
        axes.push(Interpolation::Linear.taps(b, &at, from, Outside::Zeros)?);
    }
    let mut seen = space.blend(b, &axes, Binary::Add)?;
    if let Some(mask) = call.maybe(4) {
        let mask = b.cast(mask, seen.element())?;
        let mask = b.reshape(&mask, [&places[..], &[1]].concat())?;
        seen = b.binary(Binary::Mul, &seen, &mask)?;
    }
    // Batches, groups of offsets, taps, rows, columns, channels of a group.
    let (space, inner) = (count[0] * count[1], channels / shared);
    let seen = b.reshape(&seen, vec![batches, shared, taps, space, inner])?;
    let seen = b.transpose(&seen, &[0, 1, 4, 2, 3])?;
    let seen = b.reshape(&seen, vec![batches, groups, each * taps, space])?;
    let filters = b.widened(filters)?;
    let filters = b.reshape(&filters, vec![groups, outputs / groups, each * taps])?;
    let made = b.matmul(&filters, &seen)?;
    let made = b.reshape(&made, vec![batches, outputs, count[0], count[1]])?;
    let made = b.cast(&made, x.element())?;
    biased(b, made, call.maybe(3))
}

/// Places of taps that don't lie off, along rows (0) or columns (1).
fn regular(b: &Builder<'_>, window: &Sliding, axis: usize, columns: usize) -> Result<Value> {
    let taps = window.size[0] * window.size[1];
    let along = if axis == 0 { window.count[0] } else { window.count[1] };
    let _making = b.ledger.charge(8 * elements(&[taps, along])? as u64)?;
    let place = |i: usize| {
        let (tap, at) = (i / along, i % along);
        let tap = if axis == 0 { tap / columns } else { tap % columns };
        (at * window.stride[axis] + tap * window.dilation[axis]) as i64 - window.before[axis]
    };
    let places = (0..taps * along).map(place).collect();
    let dims = if axis == 0 { vec![taps, along, 1] } else { vec![taps, 1, along] };
    b.constant(dims, Array::I64(places))
}
