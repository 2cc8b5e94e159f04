//! Operators of the first versions of ONNX's set, which files of other frameworks still have. The
//! standard ended them with version 10; ONNX Runtime reads them.

use super::activations::softplus;
use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Unary};

pub(in crate::onnx::general::operators) fn retired(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Affine" | "ParametricSoftplus" | "Scale" | "ScaledTanh" => one(function(b, call)?),
        "Crop" => one(cropped(b, call)?),
        "ImageScaler" => one(scaled(b, call)?),
        _ => Ok(None),
    }
}

fn function(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (alpha, beta) = match call.op() {
        "Affine" => (call.float("alpha", 1.0)?, call.float("beta", 0.0)?),
        "Scale" => (call.float("scale", 1.0)?, 0.0),
        _ => (call.float("alpha", 1.0)?, call.float("beta", 1.0)?),
    };
    let of_sum = matches!(call.op(), "Affine" | "Scale");
    b.each(call.get(0)?, |w, x| {
        let (alpha, beta) = (w.real(alpha), w.real(beta));
        if of_sum {
            let product = w.mul(alpha, x);
            return w.add(product, beta);
        }
        let inner = w.mul(beta, x);
        let outer =
            if call.op() == "ScaledTanh" { w.un(Unary::Tanh, inner) } else { softplus(w, inner) };
        w.mul(alpha, outer)
    })
}

/// Rows and columns without borders, or as many as attribute `scale` has: the left, upper, right
/// and lower border.
fn cropped(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let &[_, _, rows, columns] = x.dims() else {
        return Err(format!("a border of {}", x.spec));
    };
    let border = call.ints("border")?.unwrap_or_default();
    let sizes = border.iter().map(|&one| size(one)).collect::<Result<Vec<_>>>()?;
    let &[left, top, right, bottom] = sizes.as_slice() else {
        return Err(format!("attribute border must have 4 numbers, got {}", sizes.len()));
    };
    let ends = match call.ints("scale")? {
        None => [rows.checked_sub(bottom), columns.checked_sub(right)],
        Some(&[high, wide]) => [top.checked_add(size(high)?), left.checked_add(size(wide)?)],
        Some(list) => {
            return Err(format!("attribute scale must have 2 numbers, got {}", list.len()));
        }
    };
    match ends {
        [Some(below), Some(behind)]
            if (top..=rows).contains(&below) && (left..=columns).contains(&behind) =>
        {
            let made = b.cut(x, 2, top, below)?;
            b.cut(&made, 3, left, behind)
        }
        _ => Err(format!("attribute border = {border:?} for {}", x.spec)),
    }
}

/// `x · scale + bias`, with a bias for each channel.
fn scaled(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let bias = call.floats("bias")?.unwrap_or_default();
    let scale = call.float("scale", 1.0)?;
    if x.rank() != 4 || x.dims()[1] != bias.len() {
        return Err(format!("{} summands for {}", bias.len(), x.spec));
    }
    let bias = b.constant(vec![bias.len(), 1, 1], Array::F32(bias.to_vec()))?;
    b.map(x.element(), &[x, &bias], |w| {
        let (x, bias, scale) = (w.input(0), w.input(1), w.real(scale));
        let product = w.mul(x, scale);
        w.add(product, bias)
    })
}
