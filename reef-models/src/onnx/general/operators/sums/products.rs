//! Products of matrices and of tensors.

use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::{Call, one};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::{Writer, same_element};
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, View};
use std::collections::BTreeMap;

pub(in crate::onnx::general::operators) fn product(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "MatMul" => {
            same_element(call.get(0)?, call.get(1)?)?;
            one(b.matmul(call.get(0)?, call.get(1)?)?)
        }
        "Gemm" => one(gemm(b, call)?),
        "Einsum" => one(einsum(b, call)?),
        "Det" => one(determinant(b, call)?),
        _ => Ok(None),
    }
}

pub(in crate::onnx::general::operators) fn gemm(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Value> {
    let turned = [call.flag("transA", false)?, call.flag("transB", false)?];
    same_element(call.get(0)?, call.get(1)?)?;
    call.flag("broadcast", true)?;
    let mut made = b.gemm(call.get(0)?, call.get(1)?, turned)?;
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    if alpha != 1.0 {
        made = b.with_number(Binary::Mul, &made, alpha)?;
    }
    // A factor of 0 takes the summand away, even if it is infinite.
    let Some(c) = call.maybe(2).filter(|_| beta != 0.0) else { return Ok(made) };
    let c = if beta == 1.0 { c.clone() } else { b.with_number(Binary::Mul, c, beta)? };
    b.binary(Binary::Add, &made, &c)
}

/// Most rows of a matrix whose determinant or inverse is computed.
const MAX_ROWS: usize = 4;

fn determinant(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let x = call.get(0)?;
    let Numbers { front: _, rows, each } = Numbers::of(b, x)?;
    let made = b.map(each[0].element(), &each.iter().collect::<Vec<_>>(), |w| {
        let numbers: Vec<usize> = (0..rows * rows).map(|k| w.input(k)).collect();
        let columns: Vec<usize> = (0..rows).collect();
        let sum = expanded(w, &numbers, rows, 0, &columns);
        let zero = w.real(0.0);
        w.add(sum, zero)
    })?;
    b.cast(&made, x.element())
}

/// The inverse of each matrix, by minors: an element is the determinant without its column and row,
/// by that of all.
pub(in crate::onnx::general::operators) fn inverse(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Value> {
    let x = call.get(0)?;
    let Numbers { front, rows, each } = Numbers::of(b, x)?;
    let inputs: Vec<&Value> = each.iter().collect();
    let mut made = Vec::new();
    for (row, column) in (0..rows * rows).map(|k| (k / rows, k % rows)) {
        let element = b.map_in(Domain::F64, x.element(), &inputs, |w| {
            let numbers: Vec<usize> = (0..rows * rows).map(|k| w.input(k)).collect();
            let columns: Vec<usize> = (0..rows).collect();
            let all = expanded(w, &numbers, rows, 0, &columns);
            let mut left_out = numbers.clone();
            left_out[..(column + 1) * rows].rotate_right(rows);
            let others: Vec<usize> = columns.into_iter().filter(|&k| k != row).collect();
            let minor = expanded(w, &left_out, rows, 1, &others);
            let sign = w.real(if (row + column).is_multiple_of(2) { 1.0 } else { -1.0 });
            let signed = w.mul(sign, minor);
            w.div(signed, all)
        })?;
        made.push(b.reshape(&element, [&front, &[1][..]].concat())?);
    }
    let made = b.concat(&made.iter().collect::<Vec<_>>(), front.len())?;
    b.reshape(&made, x.dims().to_vec())
}

/// Numbers of small square matrices, each as a tensor of those of all matrices.
struct Numbers {
    front: Vec<usize>,
    rows: usize,
    each: Vec<Value>,
}

impl Numbers {
    fn of(b: &mut Builder<'_>, x: &Value) -> Result<Self> {
        let (front, rows) = match x.dims() {
            [front @ .., rows, columns] if rows == columns && (1..=MAX_ROWS).contains(rows) => {
                (front.to_vec(), *rows)
            }
            _ => {
                return Err(beyond(&format!(
                    "matrices must have 1 to {MAX_ROWS} rows and as many columns, got {}",
                    x.spec
                )));
            }
        };
        let wide = b.widened(x)?;
        let flat = b.reshape(&wide, [&front, &[rows * rows][..]].concat())?;
        let each = (0..rows * rows).map(|k| {
            let part = b.cut(&flat, front.len(), k, k + 1)?;
            b.reshape(&part, front.clone())
        });
        let each = each.collect::<Result<Vec<_>>>()?;
        Ok(Self { front, rows, each })
    }
}

/// The determinant of the rows from `row` on and of these columns, by its first row.
fn expanded(
    w: &mut Writer,
    numbers: &[usize],
    rows: usize,
    row: usize,
    columns: &[usize],
) -> usize {
    let mut sum = w.real(if columns.is_empty() { 1.0 } else { 0.0 });
    for (k, &column) in columns.iter().enumerate() {
        let others: Vec<usize> = columns.iter().copied().filter(|&other| other != column).collect();
        let minor = expanded(w, numbers, rows, row + 1, &others);
        let product = w.mul(numbers[row * rows + column], minor);
        sum = if k.is_multiple_of(2) { w.add(sum, product) } else { w.sub(sum, product) };
    }
    sum
}

/// The axes of an operand or of the result: a letter for each, and those that an ellipsis stands
/// for.
type Labels = Vec<Label>;

/// Axes of an ellipsis are counted from the last, so that they are broadcast as shapes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

fn einsum(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let equation: String =
        call.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation.as_str(), None),
    };
    let operands = call.all()?;
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != operands.len() {
        return Err(format!("equation {equation:?} of {} operands", operands.len()));
    }
    let labelled = terms.iter().zip(&operands).map(|(term, value)| labels(term, value.rank()));
    let labelled = labelled.collect::<Result<Vec<_>>>()?;
    let sizes = sizes(&labelled, &operands)?;
    let result = match output {
        Some(output) => result_of(output, &sizes)?,
        None => implied(&labelled),
    };
    let last = last_terms(&labelled);
    let mut all = operands.iter().zip(labelled).enumerate();
    let (_, (first, mut have)) = all.next().ok_or("no operands")?;
    let mut made = (*first).clone();
    for (k, (value, labels)) in all {
        let is_read = |label: &Label| result.contains(label) || last[label] > k;
        let is_there = |label: &Label| have.contains(label) || labels.contains(label);
        let kept: Labels = sizes.keys().copied().filter(is_read).filter(is_there).collect();
        made = contracted(b, [&made, value], [&have, &labels], &kept, &sizes)?;
        have = kept;
    }
    if have == result {
        return Ok(made);
    }
    let one = b.scalar(made.element(), 1.0)?;
    contracted(b, [&made, &one], [&have, &Vec::new()], &result, &sizes)
}

/// Number of the last term that has each label.
fn last_terms(labelled: &[Labels]) -> BTreeMap<Label, usize> {
    let mut last = BTreeMap::new();
    for (k, labels) in labelled.iter().enumerate() {
        last.extend(labels.iter().map(|&label| (label, k)));
    }
    last
}

fn labels(term: &str, rank: usize) -> Result<Labels> {
    let letters = |text: &str| text.chars().map(Label::Letter).collect::<Labels>();
    let made = match term.split_once("...") {
        None => letters(term),
        Some((before, after)) => {
            let open = rank.saturating_sub(before.len() + after.len());
            let open: Labels = (0..open).rev().map(Label::Ellipsis).collect();
            [letters(before), open, letters(after)].concat()
        }
    };
    let sound =
        made.iter().all(|label| !matches!(label, Label::Letter(c) if !c.is_ascii_alphabetic()));
    if made.len() == rank && sound {
        Ok(made)
    } else {
        Err(format!("term {term:?} of an operand with {rank} dimensions"))
    }
}

fn result_of(output: &str, sizes: &BTreeMap<Label, usize>) -> Result<Labels> {
    let open = sizes.keys().filter(|label| matches!(label, Label::Ellipsis(_))).count();
    let letters = output.replace("...", "").chars().count();
    let made = labels(output, letters + if output.contains("...") { open } else { 0 })?;
    match made.iter().find(|label| !sizes.contains_key(label)) {
        Some(label) => Err(format!("{label:?} of {output:?} is in no operand")),
        None => Ok(made),
    }
}

/// Without an arrow: what an ellipsis stands for, then letters that are there once, in the
/// alphabet's order.
fn implied(labelled: &[Labels]) -> Labels {
    let mut counts: BTreeMap<Label, usize> = BTreeMap::new();
    labelled.iter().flatten().for_each(|&label| *counts.entry(label).or_default() += 1);
    let is_open = |label: &Label| matches!(label, Label::Ellipsis(_));
    let open = counts.keys().rev().copied().filter(is_open);
    let once = counts.iter().filter(|(label, count)| !is_open(label) && **count == 1);
    open.chain(once.map(|(label, _)| *label)).collect()
}

fn sizes(labelled: &[Labels], operands: &[&Value]) -> Result<BTreeMap<Label, usize>> {
    let mut sizes = BTreeMap::new();
    for (labels, value) in labelled.iter().zip(operands) {
        for (&label, &size) in labels.iter().zip(value.dims()) {
            let have = sizes.entry(label).or_insert(size);
            match (*have, size) {
                (1, size) => *have = size,
                (have, size) if size == 1 || have == size => {}
                (have, size) => return Err(format!("{label:?} is {have} and {size}")),
            }
        }
    }
    Ok(sizes)
}

/// The sum over all labels of two tensors that aren't kept.
fn contracted(
    b: &mut Builder<'_>,
    values: [&Value; 2],
    labels: [&Labels; 2],
    kept: &Labels,
    sizes: &BTreeMap<Label, usize>,
) -> Result<Value> {
    let used = |label: &&Label| labels.iter().any(|labels| labels.contains(label));
    let summed: Labels =
        sizes.keys().filter(|label| !kept.contains(label)).filter(used).copied().collect();
    let view = |k: usize, wanted: &Labels| {
        let dense = View::dense(values[k].dims());
        let stride = |label: &Label| -> usize {
            let axes = labels[k]
                .iter()
                .enumerate()
                .filter(|(axis, other)| *other == label && values[k].dims()[*axis] > 1);
            axes.map(|(axis, _)| dense.strides[axis]).sum()
        };
        View {
            dims: wanted.iter().map(|label| sizes[label]).collect(),
            strides: wanted.iter().map(stride).collect(),
        }
    };
    let dims: Vec<usize> = kept.iter().map(|label| sizes[label]).collect();
    crate::tensors::axes::elements(&dims)?;
    let (keeps, sums) = ([view(0, kept), view(1, kept)], [view(0, &summed), view(1, &summed)]);
    same_element(values[0], values[1])?;
    b.contract(values, keeps, sums, dims, values[0].element())
}
