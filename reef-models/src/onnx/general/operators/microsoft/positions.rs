//! `RelativePositionBias`: summands of scores that follow from how far a key is from its query.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::places::indexed::rows_at;
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;

/// Operands: a number for each bucket and head, and the numbers of queries and of keys. The table
/// says that its buckets come first, and has them last, as ONNX Runtime reads and writes it.
pub(super) fn bias(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let table = call.get(0)?;
    let &[buckets, heads] = table.dims() else {
        return Err(format!("buckets must be a matrix, got {}", table.spec));
    };
    let most = size(call.int("max_distance", 128)?)?;
    let sees_later = call.flag("is_bidirectional", false)?;
    let count = |index| {
        let number = call.number(index)?.ok_or_else(|| format!("operand {index} is missing"))?;
        size(number as i64)
    };
    let (queries, keys) = (count(1)?, count(2)?);
    let half = if sees_later { buckets / 2 } else { buckets };
    if half < 2 || most <= half / 2 {
        return Err(format!("{buckets} buckets up to a distance of {most}"));
    }
    let all = elements(&[queries, keys])?;
    let _making = b.ledger.charge(8 * all as u64)?;
    let bucket = |at: usize| {
        let apart = (at % keys) as i64 - (at / keys) as i64;
        let later = if sees_later && apart > 0 { half } else { 0 };
        let apart = if sees_later { apart.abs() } else { (-apart).max(0) };
        (later + bucket_of(apart as usize, half, most)) as i64
    };
    let places = b.whole(vec![all], (0..all).map(bucket).collect())?;
    let table = b.reshape(table, vec![heads, buckets])?;
    let table = b.transpose(&table, &[1, 0])?;
    let rows = rows_at(b, &table, &places)?;
    let turned = b.transpose(&rows, &[1, 0])?;
    b.reshape(&turned, vec![1, heads, queries, keys])
}

/// The bucket of a distance: half of them have one each, and all others grow up to `most`. In
/// single precision, as networks are trained.
fn bucket_of(apart: usize, buckets: usize, most: usize) -> usize {
    let exact = buckets / 2;
    if apart < exact {
        return apart;
    }
    let share = (apart as f32 / exact as f32).ln() / (most as f32 / exact as f32).ln();
    let more = (share * (buckets - exact) as f32) as usize;
    exact.saturating_add(more).min(buckets - 1)
}
