//! Elements at the places of a grid, and the grid of an affine transform.

use super::taps::{Interpolation, Outside, Space, of_places, with_channels_first};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::elements::cast::sizes;
use crate::tensors::axes::elements;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary};

/// Operands: batches, channels and space; batches, sizes of the result and a place for each of its
/// elements, the last axis first, from -1 to 1.
pub(in super::super) fn sample(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, grid) = (call.get(0)?, call.get(1)?);
    let at_centres = call.flag("align_corners", false)?;
    let between = match call.text("mode", "linear")? {
        "linear" | "bilinear" => Interpolation::Linear,
        "nearest" => Interpolation::Nearest,
        "cubic" | "bicubic" => Interpolation::Cubic,
        other => return Err(format!("attribute mode = {other:?}")),
    };
    let outside = match call.text("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Mirrored { at_centres },
        other => return Err(format!("attribute padding_mode = {other:?}")),
    };
    let space = x.rank().saturating_sub(2);
    let fits = grid.rank() == x.rank()
        && grid.dims().last() == Some(&space)
        && grid.dims()[0] == x.dims()[0];
    if !fits {
        return Err(format!("a grid {} for {}", grid.spec, x.spec));
    }
    if space > 0 {
        let dims = [&x.dims()[..2], &grid.dims()[1..=space]].concat();
        if elements(&dims)? == 0 {
            return b.constant(dims, Array::with_capacity(x.element(), 0));
        }
    }
    let rows = Space::of(b, x)?;
    let grid = b.cast(grid, of_places(x))?;
    let dims = &grid.dims()[..grid.rank() - 1];
    let mut axes = Vec::new();
    for (k, &size) in x.dims()[2..].iter().enumerate() {
        let part = b.cut(&grid, space + 1, space - 1 - k, space - k)?;
        let part = b.reshape(&part, dims.to_vec())?;
        let (half, length) = (size as f64 / 2.0, size as f64 - 1.0);
        let places = b.each(&part, |w, x| {
            let one = w.real(1.0);
            let from_first = w.add(x, one);
            let factor = w.real(if at_centres { length / 2.0 } else { half });
            let place = w.mul(from_first, factor);
            let edge = w.real(if at_centres { 0.0 } else { 0.5 });
            w.sub(place, edge)
        })?;
        axes.push(between.taps(b, &places, size, outside)?);
    }
    let made = rows.blend(b, &axes, Binary::Add)?;
    with_channels_first(b, &made, space, x.element())
}

/// Places of a tensor of given sizes (batches, channels, space) under matrices.
pub(super) fn affine(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (matrices, asked) = (call.get(0)?, call.numbers(1)?.ok_or("operand 1 is missing")?);
    let at_centres = call.flag("align_corners", false)?;
    let dims = sizes(&asked)?;
    let space = dims.len().saturating_sub(2);
    let fits = (2..=3).contains(&space) && matrices.dims() == [dims[0], space, space + 1];
    if !fits {
        return Err(format!("matrices {} for sizes {asked:?}", matrices.spec));
    }
    let points = elements(&dims[2..])?;
    let _making = b.ledger.charge(8 * elements(&[points, space + 1])? as u64)?;
    let along = |i: usize, size: usize| match (at_centres, size) {
        (true, 1) => 0.0,
        (true, _) => 2.0 * i as f64 / (size as f64 - 1.0) - 1.0,
        (false, _) => (2.0 * i as f64 + 1.0) / size as f64 - 1.0,
    };
    let mut rows = Vec::with_capacity(points * (space + 1));
    for mut point in 0..points {
        let mut row = vec![1.0; space + 1];
        for (to, &size) in row.iter_mut().zip(dims[2..].iter().rev()) {
            *to = along(point % size, size);
            point /= size;
        }
        rows.extend(row);
    }
    let rows = b.constant(vec![points, space + 1], Array::F64(rows))?;
    let wide = b.widened(matrices)?;
    let rows = b.cast(&rows, wide.element())?;
    let turned = b.transpose(&wide, &[0, 2, 1])?;
    let made = b.matmul(&rows, &turned)?;
    let made = b.reshape(&made, [&[dims[0]], &dims[2..], &[space]].concat())?;
    b.cast(&made, matrices.element())
}
