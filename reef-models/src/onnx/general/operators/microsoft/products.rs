//! Products with what follows them, and with weights of few bits.

use super::activations::named;
use crate::onnx::fault::{Result, beyond, few};
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::sums::convolutions::{biased, convolved};
use crate::onnx::general::operators::sums::products::gemm as product;
use crate::onnx::general::operators::sums::window::{channels_first, channels_last};
use crate::tensors::axes::{axis, elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Domain, Element, FoldKind, Unary};

/// `alpha · a · b`, each transposed or not in its last two axes.
pub(super) fn matmul(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let ways = [call.flag("transBatchA", false)?, call.flag("transA", false)?];
    let x = turned(b, call.get(0)?, ways)?;
    let ways = [call.flag("transBatchB", false)?, call.flag("transB", false)?];
    let y = turned(b, call.get(1)?, ways)?;
    crate::tensors::expressions::same_element(&x, &y)?;
    let made = b.matmul(&x, &y)?;
    match call.float("alpha", 1.0)? {
        1.0 => Ok(made),
        alpha => b.with_number(Binary::Mul, &made, alpha),
    }
}

/// A product of integers, in 32 bits.
pub(super) fn matmul_of_integers(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    let (x, y) = (b.cast(x, Element::I32)?, b.cast(y, Element::I32)?);
    b.matmul(&x, &y)
}

/// A tensor whose first axis may be its rows, before those of batches, and whose rows may be
/// columns.
fn turned(
    b: &mut Builder<'_>,
    value: &Value,
    [has_rows_first, is_turned]: [bool; 2],
) -> Result<Value> {
    let rank = value.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    if has_rows_first && rank < 3 {
        return Err(format!("a product of batches of {}", value.spec));
    }
    if has_rows_first {
        order[..rank - 1].rotate_left(1);
    }
    if is_turned && rank > 1 {
        order.swap(rank - 2, rank - 1);
    }
    b.transpose(value, &order)
}

/// Distances of the rows of two matrices, or their squares.
pub(super) fn distances(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    let refused = || format!("distances of {} and {}", x.spec, y.spec);
    let (&[rows, columns], &[others, own]) = (x.dims(), y.dims()) else { return Err(refused()) };
    if columns != own {
        return Err(refused());
    }
    let x = b.reshape(x, vec![rows, 1, columns])?;
    let apart = b.binary(Binary::Sub, &x, y)?;
    let squares = b.fold_axes(&apart, &[2], FoldKind::SumSquares)?;
    let squares = b.reshape(&squares, vec![rows, others])?;
    match call.text("metric", "sqeuclidean")? {
        "sqeuclidean" => Ok(squares),
        "euclidean" => b.unary(Unary::Sqrt, &squares),
        other => Err(format!("attribute metric = {other:?}")),
    }
}

/// A convolution with a bias, another summand and an activation.
pub(super) fn convolution(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let made = convolved(b, call, call.get(0)?, call.get(1)?)?;
    let mut made = biased(b, made, call.maybe(2))?;
    if let Some(other) = call.maybe(3) {
        made = b.binary(Binary::Add, &made, other)?;
    }
    named(b, call, &made)
}

/// As [`convolution`], of tensors whose channels come last. Filters of `NhwcFusedConv` have them
/// second. Those of `NhwcConv` have them last, as ONNX Runtime's optimizer writes them and its
/// kernel reads them.
pub(super) fn convolution_of_last(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = channels_first(b, call.get(0)?)?;
    let w = call.get(1)?;
    let w = if call.op() == "NhwcConv" { channels_first(b, w)? } else { w.clone() };
    let made = convolved(b, call, &x, &w)?;
    let made = biased(b, made, call.maybe(2))?;
    let mut made = channels_last(b, &made)?;
    if let Some(other) = call.maybe(3) {
        made = b.binary(Binary::Add, &made, other)?;
    }
    named(b, call, &made)
}

/// Windows of `size` elements along an axis, each `step` after the one before, whose elements are
/// along a last axis of their own.
pub(super) fn unfolded(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let at = axis(call.int("dim", -1)?, x.rank())?;
    let (width, step) = (size(call.int("size", 0)?)?, size(call.int("step", 1)?)?);
    let len = x.dims()[at];
    if width == 0 || step == 0 || width > len {
        return Err(format!("windows of {width} elements of {len}, each {step} after another"));
    }
    let count = (len - width) / step + 1;
    let _making = b.ledger.charge(8 * elements(&[count, width])? as u64)?;
    let places = (0..count * width).map(|k| k / width * step + k % width).collect();
    let made = b.pick_axis(x, at, places)?;
    let split = [&x.dims()[..at], &[count, width], &x.dims()[at + 1..]].concat();
    let made = b.reshape(&made, split)?;
    let others = (0..made.rank()).filter(|&k| k != at + 1);
    let order: Vec<usize> = others.chain([at + 1]).collect();
    b.transpose(&made, &order)
}

pub(super) fn gemm(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let made = product(b, call)?;
    named(b, call, &made)
}

/// Most numbers that have one scale.
const MAX_BLOCK: usize = 1 << 20;

/// A product with the transpose of `[columns, rows]` weights of 2, 4 or 8 bits: operands are `a`,
/// the packed weights, a scale and a zero point for each block of a row, the block of which each
/// number is, and a bias.
pub(super) fn matmul_of_few_bits(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let ints = ["K", "N", "block_size", "bits"].map(|name| call.int(name, 0).and_then(size));
    let [rows, columns, block, bits] = ints;
    let (rows, columns, block, bits) = (rows?, columns?, block?, bits?);
    let bits = if bits == 0 { 4 } else { bits };
    call.int("accuracy_level", 0)?;
    let is_block = (1..=MAX_BLOCK).contains(&block);
    if !matches!(bits, 2 | 4 | 8) || !is_block || !(block * bits).is_multiple_of(8) {
        return Err(format!("blocks of {block} numbers of {bits} bits"));
    }
    if call.int("weight_prepacked", 0)? != 0 {
        return Err(beyond("attribute weight_prepacked must be 0"));
    }
    let blocks = rows.div_ceil(block);
    elements(&[columns, blocks, block])?;
    let groups = match call.numbers(4)? {
        Some(list) => Some(groups(b, &list, [rows, blocks, block])?),
        None => None,
    };
    // A number for each block, or for each place if groups say of which block it is.
    let each = |b: &mut Builder<'_>, of_blocks: &Value| match &groups {
        None => b.reshape(of_blocks, vec![columns, blocks, 1]),
        Some(groups) => {
            let of_blocks = b.reshape(of_blocks, vec![columns, blocks])?;
            let made = b.pick_axis(&of_blocks, 1, groups.clone())?;
            b.reshape(&made, vec![columns, blocks, block])
        }
    };
    let packed = bytes_of(call, 1)?;
    let numbers = unpacked(b, packed, bits, columns * blocks * block, None)?;
    let numbers = b.constant(vec![columns, blocks, block], numbers)?;
    let scales = each(b, call.get(2)?)?;
    let zero = match call.maybe(3) {
        Some(zero) if zero.element().is_float() => each(b, zero)?,
        Some(_) => {
            let row = (blocks * bits).div_ceil(8);
            let zeros =
                unpacked(b, bytes_of(call, 3)?, bits, columns * blocks, Some((blocks, row)))?;
            let zeros = b.constant(vec![columns, blocks], zeros)?;
            each(b, &zeros)?
        }
        None => b.whole(Vec::new(), vec![1 << (bits - 1)])?,
    };
    let weights = b.map_in(Domain::F32, scales.element(), &[&numbers, &scales, &zero], |w| {
        let (number, scale, zero) = (w.input(0), w.input(1), w.input(2));
        let moved = w.sub(number, zero);
        w.mul(moved, scale)
    })?;
    let weights = b.reshape(&weights, vec![columns, blocks * block])?;
    let weights = b.cut(&weights, 1, 0, rows)?;
    let weights = b.transpose(&weights, &[1, 0])?;
    let x = call.get(0)?;
    crate::tensors::expressions::same_element(x, &weights)?;
    let made = b.matmul(x, &weights)?;
    call.maybe(5).map_or(Ok(made.clone()), |bias| b.binary(Binary::Add, &made, bias))
}

/// Values of floats of 4 bits, as bitsandbytes has them.
const FP4: [f32; 16] = [
    0.0,
    0.005_208_333_5,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -0.005_208_333_5,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

/// Values of normal floats of 4 bits (NF4): quantiles of a normal distribution.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A product with the transpose of `[columns, rows]` weights of 4 bits, the higher ones of a byte
/// first, whose values a table has: operands are `a`, the packed weights, and a scale for each
/// block of all of them.
pub(super) fn matmul_by_table(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let ints = ["K", "N", "block_size"].map(|name| call.int(name, 0).and_then(size));
    let [rows, columns, block] = ints;
    let (rows, columns, block) = (rows?, columns?, block?);
    let table = match call.int("quant_type", -1)? {
        0 => FP4,
        1 => NF4,
        other => return Err(format!("attribute quant_type = {other}")),
    };
    call.int("training_mode", 0)?;
    if !call.flag("transB", true)? {
        return Err(beyond("attribute transB must be 1"));
    }
    let (count, bytes) = (elements(&[columns, rows])?, bytes_of(call, 1)?);
    if !(1..=MAX_BLOCK).contains(&block) || bytes.len() != count.div_ceil(2) {
        return Err(format!("{} bytes for {count} weights in blocks of {block}", bytes.len()));
    }
    let blocks = count.div_ceil(block);
    let _making = b.ledger.charge(4 * (blocks * block) as u64)?;
    let number = |k: usize| usize::from(bytes[k / 2] >> (4 * (1 - k % 2)) & 15);
    let mut numbers: Vec<f32> = (0..count).map(|k| table[number(k)]).collect();
    numbers.resize(blocks * block, 0.0);
    let numbers = b.constant(vec![blocks, block], Array::F32(numbers))?;
    let scales = b.reshape(call.get(2)?, vec![blocks, 1])?;
    let weights = b.map_in(Domain::F32, scales.element(), &[&numbers, &scales], |w| {
        let (number, scale) = (w.input(0), w.input(1));
        w.mul(number, scale)
    })?;
    let weights = b.reshape(&weights, vec![blocks * block])?;
    let weights = b.cut(&weights, 0, 0, count)?;
    let weights = b.reshape(&weights, vec![columns, rows])?;
    let weights = b.transpose(&weights, &[1, 0])?;
    let x = call.get(0)?;
    crate::tensors::expressions::same_element(x, &weights)?;
    b.matmul(x, &weights)
}

/// Blocks whose scales and zero points the places of a row have, 0 behind its end.
fn groups(b: &Builder<'_>, list: &[i64], [rows, blocks, block]: [usize; 3]) -> Result<Vec<usize>> {
    let all = blocks.saturating_mul(block);
    let _making = b.ledger.charge(8 * all as u64)?;
    let wrong = || format!("operand 4 must have {rows} numbers below {blocks}, got {}", few(list));
    let given = list.get(..rows).ok_or_else(wrong)?.iter();
    let group = |&group: &i64| usize::try_from(group).ok().filter(|&group| group < blocks);
    let mut groups = given.map(group).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    groups.resize(all, 0);
    Ok(groups)
}

/// Bytes of an operand that is known.
pub(super) fn bytes_of<'a>(call: &'a Call<'_>, index: usize) -> Result<&'a [u8]> {
    match call.array(index)? {
        Some(Array::U8(bytes)) => Ok(bytes),
        _ => Err(format!("operand {index} must be bytes")),
    }
}

/// Numbers of few bits, the lowest of a byte first. `rows` has the numbers of a row and its bytes,
/// if rows begin with a byte of their own.
pub(super) fn unpacked(
    b: &Builder<'_>,
    bytes: &[u8],
    bits: usize,
    count: usize,
    rows: Option<(usize, usize)>,
) -> Result<Array> {
    let (row, row_bytes) = rows.unwrap_or((count, (count * bits).div_ceil(8)));
    let wanted = count.checked_div(row).unwrap_or_default().saturating_mul(row_bytes);
    if bytes.len() != wanted {
        return Err(format!("{} bytes for {count} numbers of {bits} bits", bytes.len()));
    }
    let _making = b.ledger.charge(count as u64)?;
    let number = |k: usize| {
        let (at, bit) = (k % row * bits / 8, k % row * bits % 8);
        bytes[k / row * row_bytes + at] >> bit & (u8::MAX >> (8 - bits))
    };
    Ok(Array::U8((0..count).map(number).collect()))
}
