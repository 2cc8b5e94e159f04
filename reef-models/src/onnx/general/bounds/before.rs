//! Operands whose rows behind the real ones change nothing.

use crate::onnx::fault::Result;
use crate::onnx::file::NodeFile;
use crate::onnx::general::call::{Outer, int_of};
use crate::tensors::axes::axis;
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value};
use reef_op::tensor::{Binary, Domain, Element, Scalar};

/// Values of rows behind the real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Zero,
    One,
    Lowest,
    Highest,
    /// NaN, which is found only where it is first. Integers have the lowest or the highest.
    NeverMost,
    NeverLeast,
}

impl Behind {
    fn of<'a>(node: &'a NodeFile<'a>, outer: &Outer<'a>, operand: usize) -> Option<Self> {
        let is_largest = int_of(node, "largest", outer).unwrap_or(1) != 0;
        match (node.op, operand) {
            ("ReduceSum" | "ReduceMean" | "ReduceL1" | "ReduceL2", 0) => Some(Self::Zero),
            ("ReduceSumSquare" | "ReduceLogSum" | "NonZero", 0) => Some(Self::Zero),
            // 0 is within each range.
            ("DynamicQuantizeLinear" | "DynamicQuantizeMatMul", 0) => Some(Self::Zero),
            ("Compress", 1) => Some(Self::Zero),
            ("ReduceProd", 0) => Some(Self::One),
            ("ReduceMax" | "ReduceLogSumExp" | "Softmax" | "LogSoftmax", 0) => Some(Self::Lowest),
            ("ReduceMin", 0) => Some(Self::Highest),
            ("ArgMax", 0) => Some(Self::NeverMost),
            ("ArgMin", 0) => Some(Self::NeverLeast),
            // NaN is the largest, and of equals the first is the best.
            ("TopK", 0) => Some(if is_largest { Self::Lowest } else { Self::NeverLeast }),
            _ => None,
        }
    }

    fn number(self, element: Element) -> Scalar {
        let bits = 8 * element.bytes() as u32;
        let is_signed = matches!(element, Element::I8 | Element::I16 | Element::I32 | Element::I64);
        match self {
            Self::Zero => Scalar::Whole(0),
            Self::One => Scalar::Whole(1),
            Self::NeverMost | Self::NeverLeast if element.is_float() => Scalar::Real(f64::NAN),
            Self::Lowest if element.is_float() => Scalar::Real(f64::NEG_INFINITY),
            Self::Highest if element.is_float() => Scalar::Real(f64::INFINITY),
            Self::Lowest | Self::NeverMost if is_signed => Scalar::Whole(i64::MIN >> (64 - bits)),
            Self::Highest | Self::NeverLeast if is_signed => Scalar::Whole(i64::MAX >> (64 - bits)),
            Self::Lowest | Self::NeverMost => Scalar::Whole(0),
            _ if element == Element::Bool => Scalar::Whole(1),
            _ => Scalar::Whole((u64::MAX >> (64 - bits)) as i64),
        }
    }
}

/// True where a row along an axis of a tensor of these sizes is real.
pub(crate) fn real_rows(b: &mut Builder<'_>, dims: &[usize], bound: &Bound) -> Result<Value> {
    let mut along = vec![1; dims.len()];
    along[bound.axis] = dims[bound.axis];
    let places = b.count(along)?;
    b.map_in(Domain::I64, Element::Bool, &[&places, &bound.size], |w| {
        let (place, size) = (w.input(0), w.input(1));
        w.bin(Binary::Less, place, size)
    })
}

/// A tensor with other numbers behind its real rows.
pub(crate) fn masked(b: &mut Builder<'_>, x: &Value, bound: &Bound, fill: Scalar) -> Result<Value> {
    let is_real = real_rows(b, x.dims(), bound)?;
    b.map(x.element(), &[x, &is_real], |w| {
        let (x, is_real) = (w.input(0), w.input(1));
        let other = match fill {
            Scalar::Real(number) => w.real(number),
            Scalar::Whole(number) => w.whole(number),
        };
        w.select(is_real, x, other)
    })
}

/// Operands in the place of those that have rows behind; `None` stays as it is.
pub(in crate::onnx::general) fn prepared<'a>(
    b: &mut Builder<'_>,
    node: &'a NodeFile<'a>,
    outer: &Outer<'a>,
    operands: &[Option<&Value>],
    given: &[Option<Bound>],
) -> Result<Vec<Option<Value>>> {
    let mut made: Vec<Option<Value>> = vec![None; operands.len()];
    for (index, (operand, bound)) in operands.iter().zip(given).enumerate() {
        let (Some(x), Some(bound)) = (operand, bound) else { continue };
        let is_zero = || is_summed(node, outer, index, x, bound).then_some(Behind::Zero);
        if let Some(behind) = Behind::of(node, outer, index).or_else(is_zero) {
            let x = made[index].clone().unwrap_or_else(|| (*x).clone());
            made[index] = Some(masked(b, &x, bound, behind.number(x.element()))?);
        }
        let Some(places) = operands.get(1).copied().flatten().filter(|_| index == 0) else {
            continue;
        };
        match node.op {
            "Compress" => made[1] = real_ones(b, places, x, bound, int_of(node, "axis", outer))?,
            "Gather" | "GatherElements" | "Scatter" | "ScatterElements"
                if axis(int_of(node, "axis", outer).unwrap_or(0), x.rank())? == bound.axis =>
            {
                made[1] = Some(from_front(b, places, &bound.size)?);
            }
            "GatherND" | "ScatterND" => {
                let depth = places.dims().last().copied().unwrap_or_default();
                if (bound.axis + 1..=x.rank()).contains(&depth) {
                    let sizes = along(b, bound, depth)?;
                    made[1] = Some(from_front(b, places, &sizes)?);
                }
            }
            _ => {}
        }
    }
    Ok(made)
}

/// A condition that selects no row, or element if there is no axis, behind the real ones of `x`.
/// `None`: of a selection along another axis, or what is refused as no condition.
fn real_ones(
    b: &mut Builder<'_>,
    condition: &Value,
    x: &Value,
    bound: &Bound,
    number: Option<i64>,
) -> Result<Option<Value>> {
    if condition.rank() != 1 || condition.element() != Element::Bool {
        return Ok(None);
    }
    let size = match number {
        Some(number) if axis(number, x.rank())? != bound.axis => return Ok(None),
        Some(_) => bound.size.clone(),
        None => {
            let each = x.dims()[bound.axis + 1..].iter().product::<usize>() as i64;
            b.map_in(Domain::I64, Element::I64, &[&bound.size], |w| {
                let (size, each) = (w.input(0), w.whole(each));
                w.mul(size, each)
            })?
        }
    };
    masked(b, condition, &Bound { axis: 0, size }, Scalar::Whole(0)).map(Some)
}

/// True if a product sums over the axis of an operand that has such a size.
fn is_summed<'a>(
    node: &'a NodeFile<'a>,
    outer: &Outer<'a>,
    operand: usize,
    x: &Value,
    bound: &Bound,
) -> bool {
    let turns = |name| int_of(node, name, outer).unwrap_or(0) != 0;
    let (turned, usual) = match operand {
        0 => (turns("transA"), 1),
        _ => (turns("transB"), 2),
    };
    let behind = if turned { 3 - usual } else { usual };
    let is_product = matches!(node.op, "MatMul" | "FusedMatMul" | "TransposeMatMul");
    is_product && operand < 2 && bound.axis + behind == x.rank()
}

/// The size at its place in a tuple of `depth`, and 0 elsewhere.
fn along(b: &mut Builder<'_>, bound: &Bound, depth: usize) -> Result<Value> {
    let is_own = (0..depth).map(|axis| i64::from(axis == bound.axis)).collect();
    let is_own = b.whole(vec![depth], is_own)?;
    b.map_in(Domain::I64, Element::I64, &[&is_own, &bound.size], |w| {
        let (is_own, size) = (w.input(0), w.input(1));
        w.mul(is_own, size)
    })
}

/// Places of which negative ones count from the last real row.
fn from_front(b: &mut Builder<'_>, places: &Value, size: &Value) -> Result<Value> {
    let is_known = places.known_values().map(|known| known.array.values().to_i64());
    if is_known.is_some_and(|known| known.iter().all(|&place| place >= 0)) {
        return Ok(places.clone());
    }
    b.map_in(Domain::I64, Element::I64, &[places, size], |w| {
        let (place, size, zero) = (w.input(0), w.input(1), w.whole(0));
        let moved = w.add(place, size);
        let is_negative = w.bin(Binary::Less, place, zero);
        w.select(is_negative, moved, place)
    })
}
