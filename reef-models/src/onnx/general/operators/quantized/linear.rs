//! Between floats and numbers of few bits.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::few::Few;
use crate::onnx::general::stored::element;
use crate::tensors::axes::{axis, size};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Element, FoldKind, Unary};

/// Type of quantized numbers: as they are stored, and their bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Narrow {
    pub(super) element: Element,
    pub(super) bounds: [f64; 2],
}

impl Narrow {
    /// A type with all values of its element.
    pub(super) fn of(element: Element) -> Result<Self> {
        let bounds = match element {
            Element::I8 => [-128.0, 127.0],
            Element::U8 => [0.0, 255.0],
            Element::I16 => [-32768.0, 32767.0],
            Element::U16 => [0.0, 65535.0],
            other => return Err(format!("quantized numbers of type {other} are not supported")),
        };
        Ok(Self { element, bounds })
    }

    /// A type of few bits, if its numbers are integers.
    fn of_few(few: Few) -> Option<Self> {
        few.bounds().map(|bounds| Self { element: few.element(), bounds })
    }
}

/// Type to which numbers are quantized.
enum Quantized {
    Whole(Narrow),
    Real(Few),
}

impl Quantized {
    /// The type of a zero point, or else of `output_dtype`.
    fn of_call(call: &Call<'_>) -> Result<Self> {
        let asked = call.int("output_dtype", 0)?;
        let few = match call.maybe(2) {
            Some(_) => call.few_bits(2),
            None => Few::of(asked),
        };
        if let Some(zero) = call.maybe(2).filter(|_| asked != 0)
            && (zero.element(), few) != (element(asked)?, Few::of(asked))
        {
            let of = zero.element();
            return Err(format!("attribute output_dtype is {asked}, the zero point is {of}"));
        }
        if let Some(few) = few {
            return Ok(Narrow::of_few(few).map_or(Self::Real(few), Self::Whole));
        }
        let to = match call.maybe(2) {
            Some(zero) => zero.element(),
            None if asked == 0 => Element::U8,
            None => element(asked)?,
        };
        Narrow::of(to).map(Self::Whole)
    }
}

/// A scale or a zero point: one number, or one for each element along an axis, or of each block.
#[derive(Debug, Clone)]
pub(in crate::onnx::general::operators) enum Factor {
    Number(f64),
    Tensor(Value),
}

impl Factor {
    /// A value with one element, or one that is broadcast to what it is for.
    pub(in crate::onnx::general::operators) fn of(b: &Builder<'_>, value: &Value) -> Result<Self> {
        if value.spec.elements() != 1 {
            return Ok(Self::Tensor(value.clone()));
        }
        match value.known_values() {
            Some(known) => Ok(Self::Number(known.array.values().to_f64()[0])),
            None => Ok(Self::Tensor(b.reshape(value, Vec::new())?)),
        }
    }

    /// A list with an entry for each place of axis `at` of `rank`.
    pub(super) fn along(b: &Builder<'_>, value: &Value, at: usize, rank: usize) -> Result<Self> {
        match value.dims() {
            &[len] if len > 1 => {
                let mut dims = vec![1; rank];
                dims[at] = len;
                Ok(Self::Tensor(b.reshape(value, dims)?))
            }
            _ => Self::of(b, value),
        }
    }

    pub(super) fn tensor(&self) -> Option<&Value> {
        match self {
            Self::Tensor(value) => Some(value),
            Self::Number(_) => None,
        }
    }

    /// Its term: the next input, or a number.
    pub(super) fn write(&self, w: &mut Writer, inputs: &mut usize) -> usize {
        match self {
            Self::Number(number) => w.real(*number),
            Self::Tensor(_) => {
                *inputs += 1;
                w.input(*inputs - 1)
            }
        }
    }
}

/// `value` and those factors that are tensors.
pub(super) fn operands<'v>(value: &'v Value, factors: &[&'v Factor]) -> Vec<&'v Value> {
    let tensors = factors.iter().filter_map(|factor| factor.tensor());
    [value].into_iter().chain(tensors).collect()
}

/// Scale and zero point of a node, for a tensor of these sizes.
fn factors(b: &mut Builder<'_>, call: &Call<'_>, dims: &[usize]) -> Result<[Factor; 2]> {
    let at = call.int("axis", 1)?;
    let block = size(call.int("block_size", 0)?)?;
    let scale = call.get(1)?;
    let zero = call.maybe(2);
    if zero.is_some_and(|zero| zero.spec.elements() != scale.spec.elements()) {
        let zero = zero.map(|zero| zero.spec.to_string()).unwrap_or_default();
        return Err(format!("zero points {zero} for scales {}", scale.spec));
    }
    let mut factor = |value: &Value| {
        if block > 0 {
            return of_blocks(b, value, axis(at, dims.len())?, block, dims);
        }
        let is_list = value.rank() == 1 && value.spec.elements() > 1;
        let at = if is_list { axis(at, dims.len())? } else { 0 };
        let factor = Factor::along(b, value, at, dims.len())?;
        let fits = |of: &Value| of.rank() <= 1 || of.dims()[at] == dims[at];
        match factor.tensor() {
            Some(of) if of.spec.elements() > 1 && (!is_list || !fits(of)) => {
                Err(format!("scales {} along axis {at} of {dims:?}", value.spec))
            }
            _ => Ok(factor),
        }
    };
    let scale = factor(scale)?;
    let zero = zero.map(&mut factor).transpose()?.unwrap_or(Factor::Number(0.0));
    Ok([scale, zero])
}

/// A factor of each block of `block` places along an axis.
fn of_blocks(
    b: &mut Builder<'_>,
    value: &Value,
    at: usize,
    block: usize,
    dims: &[usize],
) -> Result<Factor> {
    let fits = value.rank() == dims.len()
        && (0..dims.len()).all(|k| {
            let blocks = if k == at { dims[k].div_ceil(block) } else { dims[k] };
            value.dims()[k] == blocks
        });
    if !fits {
        return Err(format!("scales {} of blocks of {block} of {dims:?}", value.spec));
    }
    let _making = b.ledger.charge(8 * dims[at] as u64)?;
    let places = (0..dims[at]).map(|k| k / block).collect();
    Ok(Factor::Tensor(b.pick_axis(value, at, places)?))
}

pub(super) fn quantize_linear(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let saturates = call.flag("saturate", true)?; // it is about floats of few bits alone
    call.int("precision", 0)?; // quotients are singles, which is enough for each type
    let x = call.get(0)?;
    let to = Quantized::of_call(call)?;
    let [scale, zero] = factors(b, call, x.dims())?;
    match to {
        Quantized::Whole(to) => quantized(b, x, &scale, &zero, to),
        Quantized::Real(few) => {
            let is_moved = !matches!(zero, Factor::Number(0.0));
            let quotient =
                b.map_in(Domain::F32, Element::F32, &operands(x, &[&scale, &zero]), |w| {
                    let mut inputs = 1;
                    let x = w.input(0);
                    let (scale, zero) = (scale.write(w, &mut inputs), zero.write(w, &mut inputs));
                    let quotient = w.div(x, scale);
                    // A sum with 0 would lose the sign of -0.
                    if is_moved { w.add(quotient, zero) } else { quotient }
                })?;
            few.cast(b, &quotient, saturates)
        }
    }
}

/// `round(x / scale) + zero`, within the bounds of the type.
pub(super) fn quantized(
    b: &mut Builder<'_>,
    x: &Value,
    scale: &Factor,
    zero: &Factor,
    to: Narrow,
) -> Result<Value> {
    b.map_in(Domain::F32, to.element, &operands(x, &[scale, zero]), |w| {
        let mut inputs = 1;
        let x = w.input(0);
        let (scale, zero) = (scale.write(w, &mut inputs), zero.write(w, &mut inputs));
        let quotient = w.div(x, scale);
        rounded(w, quotient, zero, to)
    })
}

/// `round(x) + zero`, within the bounds of the type. NaN becomes the lowest number, as in ONNX
/// Runtime: a mask of -∞ has an infinite scale.
pub(super) fn rounded(w: &mut Writer, x: usize, zero: usize, to: Narrow) -> usize {
    let (low, high) = (w.real(to.bounds[0]), w.real(to.bounds[1]));
    let whole = w.un(Unary::Round, x);
    let moved = w.add(whole, zero);
    let is_above = w.bin(Binary::Less, low, moved);
    let above = w.select(is_above, moved, low);
    w.bin(Binary::Min, above, high)
}

pub(super) fn dequantize_linear(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let [scale, zero] = factors(b, call, x.dims())?;
    let to = match call.int("output_dtype", 0)? {
        0 => call.get(1)?.element(),
        asked => element(asked)?,
    };
    dequantized(b, x, &scale, &zero, to)
}

/// `(x - zero) · scale`.
pub(in crate::onnx::general::operators) fn dequantized(
    b: &mut Builder<'_>,
    x: &Value,
    scale: &Factor,
    zero: &Factor,
    to: Element,
) -> Result<Value> {
    b.map_in(Domain::F32, to, &operands(x, &[scale, zero]), |w| {
        let mut inputs = 1;
        let x = w.input(0);
        let (scale, zero) = (scale.write(w, &mut inputs), zero.write(w, &mut inputs));
        let moved = w.sub(x, zero);
        w.mul(moved, scale)
    })
}

/// Numbers of 8 bits with the scale and the zero point that their range asks for.
pub(in crate::onnx::general::operators) fn quantize_by_range(
    b: &mut Builder<'_>,
    x: &Value,
) -> Result<[Value; 3]> {
    let axes: Vec<usize> = (0..x.rank()).collect();
    let low = b.fold_axes(x, &axes, FoldKind::Min)?;
    let high = b.fold_axes(x, &axes, FoldKind::Max)?;
    let [low, high] = [b.reshape(&low, Vec::new())?, b.reshape(&high, Vec::new())?];
    let to = Narrow::of(Element::U8)?;
    let scale = b.map(Element::F32, &[&low, &high], |w| {
        let (low, high, zero, one) = (w.input(0), w.input(1), w.real(0.0), w.real(1.0));
        let (low, high) = (w.bin(Binary::Min, low, zero), w.bin(Binary::Max, high, zero));
        let (range, steps) = (w.sub(high, low), w.real(to.bounds[1]));
        let scale = w.div(range, steps);
        w.select(range, scale, one)
    })?;
    let zero = b.map_in(Domain::F32, to.element, &[&low, &scale], |w| {
        let (low, scale, zero) = (w.input(0), w.input(1), w.real(0.0));
        let low = w.bin(Binary::Min, low, zero);
        let steps = w.div(low, scale);
        let minus = w.sub(zero, steps);
        rounded(w, minus, zero, to)
    })?;
    let factors = [&scale, &zero].map(|value| Factor::of(b, value));
    let [of_scale, of_zero] = factors;
    let y = quantized(b, x, &of_scale?, &of_zero?, to)?;
    Ok([y, scale, zero])
}
