//! Convolutions over one to three axes, and those that are transposed.

use super::window::{Sliding, factors, kernel};
use crate::onnx::fault::Result;
use crate::onnx::general::call::{Call, one};
use crate::tensors::axes::size;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::same_element;
use crate::tensors::value::{Value, wide};
use crate::tensors::windows::convolution as views;
use reef_op::MAX_ELEMENTS;
use reef_op::tensor::{Binary, Kind, NOWHERE, Scalar, Spec};

pub(in crate::onnx::general::operators) fn convolution(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Conv" => {
            let made = convolved(b, call, call.get(0)?, call.get(1)?)?;
            one(biased(b, made, call.maybe(2))?)
        }
        "ConvTranspose" => one(transposed(b, call)?),
        _ => Ok(None),
    }
}

/// The convolution of `x` with `w` that the attributes describe.
pub(in crate::onnx::general::operators) fn convolved(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    x: &Value,
    w: &Value,
) -> Result<Value> {
    check(x, w)?;
    check_kernel(call, w)?;
    let window = Sliding::of(call, w.dims()[2..].to_vec(), &x.dims()[2..])?;
    let groups = groups(call)?;
    convolve(b, x, w, &window, groups)
}

/// Refuses an input and weights of other types or numbers of dimensions.
fn check(x: &Value, w: &Value) -> Result<()> {
    same_element(x, w)?;
    if x.rank() == w.rank() && x.rank() >= 3 {
        Ok(())
    } else {
        Err(format!("a convolution of {} with {}", x.spec, w.spec))
    }
}

/// Refuses a `kernel_shape` that is not that of the filters, which have their sizes last.
pub(in crate::onnx::general::operators) fn check_kernel(call: &Call<'_>, w: &Value) -> Result<()> {
    let taps = &w.dims()[2..];
    match kernel(call, "kernel_shape", taps.len())? {
        Some(list) if list != taps => {
            Err(format!("attribute kernel_shape = {list:?} for filters {}", w.spec))
        }
        _ => Ok(()),
    }
}

fn groups(call: &Call<'_>) -> Result<usize> {
    match size(call.int("group", 1)?)? {
        0 => Err("attribute group = 0".into()),
        groups => Ok(groups),
    }
}

pub(in crate::onnx::general::operators) fn biased(
    b: &mut Builder<'_>,
    made: Value,
    bias: Option<&Value>,
) -> Result<Value> {
    let Some(bias) = bias else { return Ok(made) };
    let mut dims = vec![1; made.rank() - 1];
    dims[0] = made.dims()[1];
    let bias = b.reshape(bias, dims)?;
    b.binary(Binary::Add, &made, &bias)
}

/// A sum of products over what the window sees of the padded input.
fn convolve(
    b: &mut Builder<'_>,
    x: &Value,
    w: &Value,
    window: &Sliding,
    groups: usize,
) -> Result<Value> {
    let (channels, outputs, each) = (x.dims()[1], w.dims()[0], w.dims()[1]);
    if channels != each.saturating_mul(groups) || !outputs.is_multiple_of(groups) {
        return Err(format!("{} with {} in {groups} groups", x.spec, w.spec));
    }
    let (before, after) = ([&[0, 0], &*window.before].concat(), [&[0, 0], &*window.after].concat());
    let x = b.pad(x, &before, &after, Scalar::Whole(0))?;
    let element = x.element();
    let Sliding { stride, dilation, count, .. } = window;
    let domain = wide(element).domain();
    let made = views(x.dims(), w.dims(), groups, count, stride, dilation, domain);
    let dims = [&[x.dims()[0], outputs], &**count].concat();
    b.emit(Kind::Contract(made), &[&x, w], Spec { element, dims })
}

/// A convolution of the input, with zeros between its elements, with filters turned round.
fn transposed(b: &mut Builder<'_>, call: &Call<'_>) -> Result<Value> {
    let (x, w) = (call.get(0)?, call.get(1)?);
    check(x, w)?;
    check_kernel(call, w)?;
    let (groups, rank) = (groups(call)?, x.rank() - 2);
    let (taps, over) = (&w.dims()[2..], &x.dims()[2..]);
    let [stride, dilation] = ["strides", "dilations"].map(|name| factors(call, name, rank));
    let (stride, dilation) = (stride?, dilation?);
    let reach: Vec<usize> =
        (0..rank).map(|k| taps[k].saturating_sub(1) * dilation[k] + 1).collect();
    let spread: Vec<usize> = (0..rank).map(|k| over[k].saturating_sub(1) * stride[k] + 1).collect();
    if reach.iter().chain(&spread).any(|&len| len > MAX_ELEMENTS) {
        return Err(format!("a transposed convolution of {} with {}", x.spec, w.spec));
    }
    let [before, after] = cut(call, &spread, &reach, &stride, over)?;
    if taps.contains(&0)
        || over.contains(&0)
        || x.dims()[1] != w.dims()[0]
        || !w.dims()[0].is_multiple_of(groups)
    {
        return Err(format!("a transposed convolution of {} with {}", x.spec, w.spec));
    }
    // Elements before the first one and behind the last, so that each filter sees one of these.
    let more = |k: usize| [before[k], after[k]].map(|less| reach[k] as i64 - 1 - less);
    let len = |k: usize| size(spread[k] as i64 + more(k).iter().sum::<i64>());
    let lens = (0..rank).map(len).collect::<Result<Vec<_>>>()?;
    b.ensure_places(&[&x.dims()[..2], &*lens].concat())?;
    let mut places = b.places(&x.dims()[..2])?;
    for (k, &len) in lens.iter().enumerate() {
        let [left, _] = more(k);
        let place = |i: usize| match usize::try_from(i as i64 - left) {
            Ok(at) if at.is_multiple_of(stride[k]) && at < spread[k] => at / stride[k],
            _ => NOWHERE,
        };
        places.push((0..len).map(place).collect());
    }
    let wide = b.pick(x, places, Scalar::Whole(0))?;
    let filters = turned(b, w, groups)?;
    let count = (0..rank).map(|k| wide.dims()[k + 2].checked_sub(reach[k]).map(|steps| steps + 1));
    let count = count.collect::<Option<_>>().ok_or("no outputs")?;
    let (zero, one) = (vec![0; rank], vec![1; rank]);
    let size = taps.to_vec();
    let window = Sliding { size, stride: one, dilation, before: zero.clone(), after: zero, count };
    let made = convolve(b, &wide, &filters, &window, groups)?;
    biased(b, made, call.maybe(2))
}

/// Elements to cut off of all that filters reach, before and after.
fn cut(
    call: &Call<'_>,
    spread: &[usize],
    reach: &[usize],
    stride: &[usize],
    over: &[usize],
) -> Result<[Vec<i64>; 2]> {
    let rank = spread.len();
    let zeros = vec![0; rank];
    let more = call.ints("output_padding")?.unwrap_or(&zeros);
    let auto = call.text("auto_pad", "NOTSET")?;
    let none = vec![0; 2 * rank];
    let pads = call.ints("pads")?.unwrap_or(&none);
    let shape = call.ints("output_shape")?;
    if more.len() != rank
        || pads.len() != 2 * rank
        || shape.is_some_and(|shape| shape.len() != rank)
    {
        return Err(format!(
            "output_padding {more:?}, pads {pads:?}, output_shape {shape:?} for {rank} axes"
        ));
    }
    let limit = |number: i64| (-(1 << 28)..=1 << 28).contains(&number);
    if !more.iter().chain(pads).chain(shape.into_iter().flatten()).all(|&number| limit(number)) {
        return Err(format!("output_padding {more:?}, pads {pads:?}, output_shape {shape:?}"));
    }
    let same = matches!(auto, "SAME_UPPER" | "SAME_LOWER");
    let mut made = [Vec::new(), Vec::new()];
    for k in 0..rank {
        let all = (spread[k] + reach[k] - 1) as i64;
        let wanted = match shape {
            Some(shape) => Some(shape[k]),
            None => same.then_some((over[k] * stride[k]) as i64),
        };
        let (before, after) = match wanted {
            None => (pads[k], pads[rank + k] - more[k]),
            Some(wanted) => {
                // Nothing is added before the first element. Behind the last one `output_shape`
                // may add some, `auto_pad` none, as in ONNX Runtime.
                let total = (all + more[k] - wanted).max(0);
                let (less, greater) = (total / 2, total - total / 2);
                let before = if auto == "SAME_UPPER" { less } else { greater };
                let wanted = if shape.is_some() { wanted } else { all + more[k] - total };
                (before, all - before - wanted)
            }
        };
        made[0].push(before);
        made[1].push(after);
    }
    Ok(made)
}

/// Filters `[inputs, outputs / groups, …]` as `[outputs, inputs / groups, …]`, each turned round.
fn turned(b: &mut Builder<'_>, w: &Value, groups: usize) -> Result<Value> {
    let mut places = b.places(w.dims())?;
    places[2..].iter_mut().for_each(|places| places.reverse());
    let turned = b.pick(w, places, Scalar::Whole(0))?;
    let (inputs, outputs) = (w.dims()[0] / groups, w.dims()[1]);
    let space = &w.dims()[2..];
    let split = b.reshape(&turned, [&[groups, inputs, outputs], space].concat())?;
    let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..split.rank()).collect();
    let ordered = b.transpose(&split, &order)?;
    b.reshape(&ordered, [&[groups * outputs, inputs], space].concat())
}
