//! `TfIdfVectorizer`: how often a sequence has each n-gram of a pool.
//!
//! All places of a sequence are compared with all n-grams of a length at once, for each distance
//! that the elements of an n-gram may have.

use crate::onnx::fault::{Result, beyond, few};
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::{elements, size};
use crate::tensors::builder::Builder;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Domain, Element, FoldKind, NOWHERE, Scalar};
use std::ops::Range;

/// Maximum number of elements of an n-gram.
const MAX_LENGTH: usize = 8;
/// Maximum number of elements between two of an n-gram.
const MAX_SKIPS: usize = 64;

pub(in crate::onnx::general::operators) fn grams(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "TfIdfVectorizer" => one(vector(b, call)?),
        _ => Ok(None),
    }
}

/// N-grams of a node, those of one element first.
struct Pool {
    /// Elements of all n-grams, one after the other.
    elements: Vec<i64>,
    /// First element of the n-grams of each length.
    begins: Vec<usize>,
    /// Lengths that are counted.
    lengths: [usize; 2],
    skips: usize,
}

impl Pool {
    fn of(call: &Call<'_>) -> Result<Self> {
        let elements = match (call.ints("pool_int64s")?, call.places("pool_strings")?) {
            (Some(list), None) if !call.is_text(0) => list.to_vec(),
            (None, Some(places)) if call.is_text(0) => places,
            _ => {
                let why = "the pool must be of texts if the input is of texts, and only then";
                return Err(why.into());
            }
        };
        let begins = call.ints("ngram_counts")?.unwrap_or_default();
        let list = begins.iter().map(|&begin| size(begin)).collect::<Result<Vec<_>>>()?;
        let lengths = ["min_gram_length", "max_gram_length"].map(|name| call.int(name, 0));
        let [least, most] = lengths;
        let (least, most) = (size(least?)?, size(most?)?);
        let skips = size(call.int("max_skip_count", 0)?)?;
        if least == 0 || least > most {
            return Err(format!("n-grams of {least} to {most} elements"));
        }
        if most > MAX_LENGTH || skips > MAX_SKIPS {
            return Err(beyond(&format!(
                "n-grams must have at most {MAX_LENGTH} elements and {MAX_SKIPS} between two, got \
                 {most} and {skips}"
            )));
        }
        let made = Self { elements, begins: list, lengths: [least, most], skips };
        let fits = |length: usize| {
            let range = made.range(length);
            let is_within = range.start <= range.end && range.end <= made.elements.len();
            is_within && range.len().is_multiple_of(length)
        };
        if made.begins.first() == Some(&0) && (1..=made.begins.len()).all(fits) {
            Ok(made)
        } else {
            let count = made.elements.len();
            Err(format!("attribute ngram_counts = {} for {count} elements", few(begins)))
        }
    }

    /// Places of the elements of n-grams of `length`.
    fn range(&self, length: usize) -> Range<usize> {
        let end = self.elements.len();
        let begin = |length: usize| self.begins.get(length - 1).copied().unwrap_or(end);
        begin(length)..begin(length + 1)
    }

    /// Number of n-grams of `length`.
    fn count(&self, length: usize) -> usize {
        self.range(length).len() / length
    }
}

/// Counts of n-grams by their weights, in the columns that the node says.
fn vector(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let (rows, len) = match *x.dims() {
        [len] => (1, len),
        [rows, len] => (rows, len),
        _ => return Err(format!("sequences must have one or two dimensions, got {}", x.spec)),
    };
    if x.element().is_float() {
        return Err(format!("sequences must be of integers or texts, got {}", x.spec));
    }
    let pool = Pool::of(call)?;
    let listed = call.ints("ngram_indexes")?.unwrap_or_default();
    let columns = listed.iter().map(|&column| size(column)).collect::<Result<Vec<_>>>()?;
    let all = (1..=pool.begins.len()).map(|length| pool.count(length)).sum::<usize>();
    let width = columns.iter().max().map_or(0, |&most| most.saturating_add(1));
    elements(&[rows, width])?;
    if columns.len() != all || width == 0 {
        return Err(format!("attribute ngram_indexes = {} for {all} n-grams", few(listed)));
    }
    let weights = call.floats("weights")?.unwrap_or_default();
    if !weights.is_empty() && weights.len() != all {
        return Err(format!("{} weights for {all} n-grams", weights.len()));
    }
    let mode = call.text("mode", "")?;
    let _making = b.ledger.charge(8 * width as u64)?;
    let sequences = b.reshape(x, vec![rows, len])?;
    let mut places = vec![NOWHERE; width];
    let (mut counts, mut factors) = (Vec::new(), Vec::new());
    let mut before = 0;
    for length in 1..=pool.begins.len() {
        let own = before..before + pool.count(length);
        before = own.end;
        if own.is_empty() || !(pool.lengths[0]..=pool.lengths[1]).contains(&length) {
            continue;
        }
        for k in own {
            let column = columns[k];
            if places[column] != NOWHERE {
                return Err(format!("attribute ngram_indexes has {column} twice"));
            }
            places[column] = factors.len();
            factors.push(weights.get(k).copied().unwrap_or(1.0));
        }
        counts.push(counted(b, &sequences, &pool, length)?);
    }
    let made = if counts.is_empty() {
        let zero = b.scalar(Element::F32, 0.0)?;
        b.expand(&zero, &[rows, width])?
    } else {
        let counts = b.concat(&counts.iter().collect::<Vec<_>>(), 1)?;
        let made = weighted(b, mode, &counts, factors)?;
        b.pick(&made, vec![(0..rows).collect(), places], Scalar::Whole(0))?
    };
    let dims = if x.rank() == 1 { vec![width] } else { vec![rows, width] };
    b.reshape(&made, dims)
}

/// Number of times that each sequence has each n-gram of a length, `[rows, n-grams]`.
fn counted(b: &mut Builder<'_>, x: &Value, pool: &Pool, length: usize) -> Result<Value> {
    let (rows, len, count) = (x.dims()[0], x.dims()[1], pool.count(length));
    let own = &pool.elements[pool.range(length)];
    let mut grams = Vec::new();
    for k in 0..length {
        let column = own.iter().skip(k).step_by(length).copied().collect();
        grams.push(b.whole(vec![count], column)?);
    }
    let zero = b.scalar(Element::I32, 0.0)?;
    let mut sum = b.expand(&zero, &[rows, count])?;
    // An n-gram of one element has no distances.
    let most = if length == 1 { 1 } else { pool.skips + 1 };
    for distance in 1..=most {
        let Some(windows) = len.checked_sub((length - 1) * distance).filter(|&n| n > 0) else {
            break;
        };
        elements(&[rows, windows, count])?;
        let mut parts = Vec::new();
        for k in 0..length {
            let part = b.cut(x, 1, k * distance, k * distance + windows)?;
            parts.push(b.reshape(&part, vec![rows, windows, 1])?);
        }
        let inputs: Vec<&Value> = parts.iter().chain(&grams).collect();
        let is_there = b.map_in(Domain::I64, Element::I32, &inputs, |w| {
            let (first, gram) = (w.input(0), w.input(length));
            let mut all = w.bin(Binary::Equal, first, gram);
            for k in 1..length {
                let (part, gram) = (w.input(k), w.input(length + k));
                let same = w.bin(Binary::Equal, part, gram);
                all = w.mul(all, same);
            }
            all
        })?;
        let found = b.fold_axes(&is_there, &[1], FoldKind::Sum)?;
        let found = b.reshape(&found, vec![rows, count])?;
        sum = b.binary(Binary::Add, &sum, &found)?;
    }
    Ok(sum)
}

/// Counts as the node's mode has them: themselves, or 1 for any, each by the weight of its n-gram.
fn weighted(b: &mut Builder<'_>, mode: &str, counts: &Value, weights: Vec<f32>) -> Result<Value> {
    let counts = b.cast(counts, Element::F32)?;
    let made = match mode {
        "TF" => return Ok(counts),
        "IDF" => b.with_number(Binary::Min, &counts, 1.0)?,
        "TFIDF" => counts,
        other => return Err(format!("attribute mode = {other:?}")),
    };
    let weights = b.constant(vec![weights.len()], Array::F32(weights))?;
    b.binary(Binary::Mul, &made, &weights)
}
