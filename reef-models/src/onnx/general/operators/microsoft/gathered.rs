//! `GatherBlockQuantized`: rows of a table of few bits, as floats.

use super::products::{bytes_of, unpacked};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::places::indexed::parts_at;
use crate::tensors::axes::{axis, elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Domain, Element};

/// Numbers of a table, and a scale and a zero point for each block of them along an axis.
struct Table {
    parts: [Option<Value>; 3],
    block: usize,
    at: usize,
    /// Zero point if the table has none.
    usual: i64,
}

/// Operands: a table, places, scales, zero points.
pub(super) fn gather(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (places, rank) = (call.get(1)?, call.get(0)?.rank());
    let along = axis(call.int("gather_axis", 0)?, rank)?;
    let table = Table::of(b, call)?;
    if along == table.at {
        let whole = table.floats(b)?;
        return parts_at(b, &whole, places, along);
    }
    let each = table
        .parts
        .iter()
        .map(|part| part.as_ref().map(|part| parts_at(b, part, places, along)).transpose());
    let parts: Vec<Option<Value>> = each.collect::<Result<_>>()?;
    let parts = parts.try_into().map_err(|_| "must have three parts")?;
    let at = if table.at < along { table.at } else { table.at + places.rank() - 1 };
    Table { parts, at, ..table }.floats(b)
}

impl Table {
    fn of(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Self> {
        let (table, scales) = (call.get(0)?, call.get(2)?);
        let at = axis(call.int("quantize_axis", 1)?, table.rank())?;
        let block = size(call.int("block_size", 128)?)?;
        let bits = size(call.int("bits", 4)?)?;
        let is_packed = table.element() == Element::U8 && call.few_bits(0).is_none();
        if is_packed && (!matches!(bits, 2 | 4 | 8) || at + 1 != table.rank()) {
            return Err(format!("numbers of {bits} bits, in blocks along axis {at}"));
        }
        let numbers = if is_packed { wide(b, call, 0, bits, None)? } else { table.clone() };
        let last = scales.dims().last().copied().unwrap_or_default();
        let zeros = match call.maybe(3) {
            Some(_) if is_packed => Some(wide(b, call, 3, bits, Some(last))?),
            Some(zeros) => Some(zeros.clone()),
            None => None,
        };
        let fits = |of: &Value| {
            of.rank() == numbers.rank()
                && (0..of.rank()).all(|k| {
                    let len = numbers.dims()[k];
                    of.dims()[k] == if k == at { len.div_ceil(block.max(1)) } else { len }
                })
        };
        if block == 0 || !fits(scales) || !zeros.as_ref().is_none_or(fits) {
            return Err(format!("scales {} of blocks of {block} of {}", scales.spec, numbers.spec));
        }
        let usual = if is_packed { 1 << (bits - 1) } else { 0 };
        Ok(Self { parts: [Some(numbers), Some(scales.clone()), zeros], block, at, usual })
    }

    /// `(number - zero) · scale`.
    fn floats(&self, b: &mut Builder<'_>) -> Result<Value> {
        let [Some(numbers), Some(scales), zeros] = &self.parts else {
            return Err("neither numbers nor scales".into());
        };
        let len = numbers.dims()[self.at];
        let _making = b.ledger.charge(16 * len as u64)?;
        let of_block: Vec<usize> = (0..len).map(|k| k / self.block).collect();
        let scales = b.pick_axis(scales, self.at, of_block.clone())?;
        let zeros = match zeros {
            Some(zeros) => b.pick_axis(zeros, self.at, of_block)?,
            None => b.whole(Vec::new(), vec![self.usual])?,
        };
        b.map_in(Domain::F32, scales.element(), &[numbers, &scales, &zeros], |w| {
            let (number, scale, zero) = (w.input(0), w.input(1), w.input(2));
            let moved = w.sub(number, zero);
            w.mul(moved, scale)
        })
    }
}

/// Numbers of a packed operand, one in each byte; a row of it has `count`, or as many as fit.
fn wide(
    b: &Builder<'_>,
    call: &Call<'_>,
    index: usize,
    bits: usize,
    count: Option<usize>,
) -> Result<Value> {
    let packed = call.get(index)?;
    let Some((&row, front)) = packed.dims().split_last() else {
        return Err(format!("a table {}", packed.spec));
    };
    let row_bytes = row;
    let row = count.unwrap_or(row * (8 / bits));
    if row_bytes != row.saturating_mul(bits).div_ceil(8) {
        return Err(format!("bytes {} of rows of {row} numbers of {bits} bits", packed.spec));
    }
    let dims = [front, &[row]].concat();
    let numbers =
        unpacked(b, bytes_of(call, index)?, bits, elements(&dims)?, Some((row, row_bytes)))?;
    b.constant(dims, numbers)
}
