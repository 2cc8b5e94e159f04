//! Sizes that data decide, of results.

use super::points::{only, open, whole};
use super::shapes::same_place;
use crate::onnx::fault::{Result, beyond};
use crate::onnx::general::call::Call;
use crate::tensors::axes::{axes, axis};
use crate::tensors::builder::Builder;
use crate::tensors::value::{Bound, Value, ValueData};
use reef_op::tensor::{Binary, Element, FoldKind};

/// Operators that compute each element by itself.
const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BiasGelu",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Cast",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "DequantizeLinear",
    "Div",
    "Dropout",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "FastGelu",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "PRelu",
    "QLinearAdd",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearWhere",
    "QuantizeLinear",
    "QuickGelu",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "SwiGLU",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Where",
    "Xor",
];

/// Operators whose results are those of the real rows, and have sizes of their own.
const COUNTING: &[&str] = &["Compress", "NonMaxSuppression", "NonZero", "Shape", "Size"];

/// Operators that compute each of a batch, the first axis of their first operand, by itself.
const OF_BATCHES: &[&str] = &[
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DepthToSpace",
    "FusedConv",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GroupNormalization",
    "InstanceNormalization",
    "LRN",
    "LinearClassifier",
    "LinearRegressor",
    "LpPool",
    "MaxPool",
    "NhwcConv",
    "NhwcFusedConv",
    "NhwcMaxPool",
    "QLinearAveragePool",
    "QLinearConv",
    "QLinearGlobalAveragePool",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "SpaceToDepth",
    "TreeEnsemble",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
];

/// Operators that compute each row of their first operand, a matrix or several, by itself.
const OF_ROWS: &[&str] = &[
    "DynamicQuantizeMatMul",
    "FusedMatMul",
    "MatMul",
    "MatMulBnb4",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "QLinearMatMul",
    "TransposeMatMul",
];

/// Fate of a size that data decide.
enum Passed {
    Refused,
    /// The results depend on real rows alone and have fixed sizes.
    Nothing,
    On(Bound),
}

impl From<Option<Bound>> for Passed {
    fn from(bound: Option<Bound>) -> Self {
        bound.map_or(Self::Refused, Self::On)
    }
}

/// The size that data decide about the results of a node, of which some operand has one.
///
/// # Errors
///
/// In words that follow the node's name, if the operator can't have such an operand.
pub(in crate::onnx::general) fn of_results(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    results: &mut [Value],
) -> Result<Vec<Option<Bound>>> {
    let none = vec![None; results.len()];
    if !call.bounds.borrow().is_empty() {
        return if says_all(call)? { Ok(none) } else { Err(refusal(0)) };
    }
    if results.is_empty() {
        return Ok(none);
    }
    if let Some(bound) = of_numbers(b, call, &results[0])? {
        return Ok(vec![Some(bound); results.len()]);
    }
    let given = &*call.given;
    let Some(first) = given.iter().position(Option::is_some) else {
        ensure_fixed_shape(call)?;
        return Ok(none);
    };
    let passed = match (call.operands.get(first).copied().flatten(), &given[first]) {
        (Some(x), Some(bound)) => passed(b, call, [x, &results[0]], bound, first)?,
        _ => Passed::Refused,
    };
    match passed {
        // The others are one scale and one zero point.
        Passed::On(bound) if call.op() == "DynamicQuantizeLinear" => {
            Ok([Some(bound), None, None].into_iter().take(results.len()).collect())
        }
        Passed::On(bound) => Ok(vec![Some(bound); results.len()]),
        Passed::Nothing if call.op() == "ReduceMean" => {
            results[0] = of_real_rows(b, call, &results[0])?;
            Ok(none)
        }
        Passed::Nothing if call.op().starts_with("Arg") => {
            results[0] = among_real_rows(b, call, &results[0])?;
            Ok(none)
        }
        Passed::Nothing => Ok(none),
        Passed::Refused => Err(refusal(first)),
    }
}

/// Refuses a shape that data decide for elements whose number they don't: its other sizes would
/// have to follow.
fn ensure_fixed_shape(call: &Call<'_>) -> Result<()> {
    let points = call.points(1).filter(|_| call.op() == "Reshape");
    if points.is_none_or(|[least, most, _]| whole(least) == whole(most)) {
        return Ok(());
    }
    Err(beyond(
        "data decide about a shape of a fixed number of elements: export the file with a fixed \
         shape",
    ))
}

fn refusal(operand: usize) -> String {
    beyond(&format!(
        "data decide about a size of operand {operand}, which this operator can't have: let the \
         network end before it, or export the file with a fixed number"
    ))
}

/// True if an operator that has said how many results there are may have its operands.
fn says_all(call: &Call<'_>) -> Result<bool> {
    let Some(bound) = call.bound(0) else { return Ok(true) };
    let x = call.get(0)?;
    Ok(match call.op() {
        "Concat" | "NonMaxSuppression" | "NonZero" => true,
        "Compress" => match call.maybe_int("axis")? {
            Some(number) => axis(number, x.rank())? == bound.axis,
            None => is_first(x, bound),
        },
        "TopK" => call.axis(-1, x.rank())? == bound.axis,
        _ => false,
    })
}

/// Returns the fate of the size of operand `first`, the first one that has one.
fn passed(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    [x, result]: [&Value; 2],
    bound: &Bound,
    first: usize,
) -> Result<Passed> {
    let (given, at) = (&*call.given, bound.axis);
    let of = |axis: usize| Some(Bound { axis, size: bound.size.clone() });
    let is_alone = given.iter().flatten().count() == 1;
    let is_only = is_alone && first == 0;
    let has = |operand: usize| given.get(operand).is_some_and(Option::is_some);
    let found = match call.op() {
        "Compress" if first == 0 => return compressed(call, x, bound),
        op if COUNTING.contains(&op) => return Ok(Passed::Nothing),
        op if ELEMENTWISE.contains(&op) => elementwise(call, given, result).and_then(of),
        // Statistics of a batch in training mode are of all its rows.
        "BatchNormalization" if call.flag("training_mode", false)? || call.wants(1) => None,
        op if OF_BATCHES.contains(&op) && is_only => {
            of(0).filter(|_| at == 0 && x.rank() > 1 && result.dims()[0] == x.dims()[0])
        }
        // With what is added to it.
        "FusedConv" | "NhwcFusedConv"
            if first == 0 && has(3) && is_same(given, result.rank(), 2) =>
        {
            of(0).filter(|_| at == 0)
        }
        "Resize" | "Upsample" if is_only && at == 0 && keeps_images(call)? => of(0),
        "ReduceLogSumExp" if is_only && !x.element().is_float() => {
            reduced(call, x, at)?.and_then(of) // integers have no exponential of 0
        }
        op if is_only && (op.starts_with("Reduce") || op.starts_with("Arg")) => {
            let Some(axis) = reduced(call, x, at)? else { return Ok(Passed::Nothing) };
            of(axis)
        }
        "TopK" if first == 0 && call.axis(-1, x.rank())? == at => return Ok(Passed::Nothing),
        "TopK" if is_only => of(at),
        "CumSum" if is_only => of(at).filter(|_| call.flag("reverse", false) == Ok(false)),
        "Softmax" | "LogSoftmax" if is_only => of(at),
        "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" if is_only => {
            of(at).filter(|_| call.axis(-1, x.rank()) > Ok(at))
        }
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization"
            if first == 0 && has(1) && is_same(given, result.rank(), 2) =>
        {
            of(at).filter(|_| at + 1 < x.rank())
        }
        "CastLike" | "DynamicQuantizeLinear" | "QLinearSoftmax" if is_only => of(at),
        "LpNormalization" if is_only => of(at).filter(|_| call.axis(-1, x.rank()) != Ok(at)),
        "OneHot" if is_only => {
            let new = call.axis(-1, result.rank())?;
            of(at + usize::from(new <= at))
        }
        "Gemm" | "FusedGemm" | "QGemm" if is_only => {
            of(0).filter(|_| at == 0 && call.flag("transA", false) == Ok(false))
        }
        "Expand" if is_only => {
            let axis = result.rank() - x.rank() + at;
            let asked = call.upper_bounds(1)?.unwrap_or_default();
            let place = (axis + asked.len()).checked_sub(result.rank());
            of(axis).filter(|_| place.is_none_or(|place| asked[place] == 1))
        }
        "Pad" if call.points(1).is_some() => return Ok(Passed::Nothing),
        "Pad" | "Tile" if is_only && !is_cut(call)? => {
            of(at).filter(|_| result.dims()[at] == x.dims()[at])
        }
        "Unsqueeze" if is_only => moved_by_new(call, result, at)?.and_then(of),
        "Squeeze" if is_only => without(call, x, at)?.and_then(of),
        "Transpose" => {
            let usual: Vec<i64> = (0..x.rank() as i64).rev().collect();
            let order = call.ints("perm")?.map_or(usual, <[i64]>::to_vec);
            order.iter().position(|&from| from == at as i64).and_then(of)
        }
        "Gather" | "GatherElements" if first == 0 && call.axis(0, x.rank())? == at => {
            return Ok(looked_up(call, at));
        }
        "Gather" if is_alone => gathered(call, first, at)?.and_then(of),
        "GatherElements" if first == 1 || is_same(given, result.rank(), 2) => of(at),
        "GatherND" => return looked_up_by_tuples(call, bound, first),
        // Places [batch, ..., 2 or 3]; results have their channels second.
        "GridSample" if is_alone && first == 1 => {
            of(at + 1).filter(|_| at > 0 && at + 1 < x.rank())
        }
        "RoiAlign" if first == 1 && given.get(2).is_some_and(|of| is_along(of, 0, bound)) => of(0),
        "Scatter" | "ScatterElements" | "ScatterND" => return Ok(updated(given)),
        "Slice" if first == 0 => sliced(b, call, bound, x, result)?,
        "QLinearConcat" if is_same(given, result.rank(), call.operands.len() / 3) => {
            let along = axis(call.int("axis", 0)?, result.rank())?;
            of(at).filter(|_| along != at)
        }
        "Concat" if is_same(given, result.rank(), call.operands.len()) => {
            let along = axis(call.int("axis", 0)?, result.rank())?;
            of(at).filter(|_| along != at)
        }
        "Split" if is_alone => {
            let along = axis(call.int("axis", 0)?, x.rank())?;
            of(at).filter(|_| along != at)
        }
        "Reshape" | "Flatten" if is_only => same_place(b, call, bound, result)?,
        op if OF_ROWS.contains(&op) => return multiplied(call, result),
        _ => None,
    };
    Ok(found.into())
}

const TWO_NUMBERS: &str = "data decide about two numbers of rows, of which one may be expanded to \
                           the other: let the network end before it";
const FIXED_TO_NUMBER: &str = "data decide to what a fixed size is expanded: export the file with a \
                               fixed number";

/// The size of a result that numbers of an operand decide.
fn of_numbers(b: &mut Builder<'_>, call: &Call<'_>, result: &Value) -> Result<Option<Bound>> {
    let index = match call.op() {
        "ConstantOfShape" => 0,
        "Expand" | "Range" => 1,
        "Slice" => 2,
        _ => return Ok(None),
    };
    let Some((place, size)) = only(open(b, call, index)?)? else { return Ok(None) };
    let axis = match call.op() {
        "Expand" => result.rank() - call.get(1)?.spec.elements() + place,
        "Slice" => end_of_slice(call, place)?,
        _ => place,
    };
    let x = call.maybe(0).filter(|_| index > 0 && call.op() != "Range");
    let missing = x.map_or(0, |x| result.rank() - x.rank());
    match call.bound(0) {
        Some(own) if own.axis + missing != axis => Err(beyond(
            "data decide about two sizes of its result, of which there may be one: export the file \
             with fixed numbers",
        )),
        Some(own) if call.op() == "Expand" => {
            let asked = Bound { axis, size };
            // At least one, as the larger one of its own size and 1: of no rows none are made.
            let [least, _, marked] = call.points(index).map_or([0; 3], |points| {
                points.each_ref().map(|point| whole(point).get(place).copied().unwrap_or_default())
            });
            let is_own = call.marks.is(&own.size, marked) && least <= 1;
            if is_own || same_size(own, &asked) {
                return Ok(Some(Bound { axis, size: own.size.clone() }));
            }
            Err(beyond(TWO_NUMBERS))
        }
        None if call.op() == "Expand"
            && x.is_some_and(|x| axis >= missing && x.dims()[axis - missing] != 1) =>
        {
            Err(beyond(FIXED_TO_NUMBER))
        }
        own if call.op() == "Slice" => {
            let own = own.map(|own| own.size.clone());
            let len = x.map_or(0, |x| x.dims()[axis]);
            let ends = call.points(index).map(|points| [whole(&points[0]), whole(&points[1])]);
            let is_within =
                ends.is_some_and(|[least, most]| least[place] >= 0 && most[place] <= len as i64);
            let size = match own {
                None if is_within => size,
                own => rows_before(b, &size, own.as_ref(), len)?,
            };
            Ok(Some(Bound { axis, size }))
        }
        _ => {
            let least = call.points(index).map(|points| whole(&points[0]));
            let may_be_below = least.is_some_and(|least| least[place] < 0);
            let size = if may_be_below { b.with_number(Binary::Max, &size, 0.0)? } else { size };
            Ok(Some(Bound { axis, size }))
        }
    }
}

/// The axis of which data decide where a part ends, if the part begins with the first row.
fn end_of_slice(call: &Call<'_>, place: usize) -> Result<usize> {
    let x = call.get(0)?;
    let starts = call.ints_of("starts", 1)?.unwrap_or_default();
    let all: Vec<i64> = (0..starts.len() as i64).collect();
    let list = call.ints_of("axes", 3)?.unwrap_or(all);
    let steps = call.numbers(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    match (starts.get(place), steps.get(place), list.get(place)) {
        (Some(0), Some(1), Some(&number)) => axis(number, x.rank()),
        _ => Err(beyond(
            "data decide where a part ends that doesn't begin with the first row: fix its end",
        )),
    }
}

/// Number of rows before an end, of `len` or of as many as `own` says. A negative end counts from
/// the last of them.
fn rows_before(b: &mut Builder<'_>, end: &Value, own: Option<&Value>, len: usize) -> Result<Value> {
    let inputs: Vec<&Value> = [end].into_iter().chain(own).collect();
    b.map(Element::I64, &inputs, |w| {
        let (end, zero) = (w.input(0), w.whole(0));
        let len = if inputs.len() > 1 { w.input(1) } else { w.whole(len as i64) };
        let from_last = w.add(end, len);
        let is_negative = w.bin(Binary::Less, end, zero);
        let end = w.select(is_negative, from_last, end);
        let end = w.bin(Binary::Max, end, zero);
        w.bin(Binary::Min, end, len)
    })
}

/// Mean of the real rows, as large as that of all.
fn of_real_rows(b: &mut Builder<'_>, call: &Call<'_>, mean: &Value) -> Result<Value> {
    let (x, bound) = (call.get(0)?, call.bound(0).ok_or("no size")?);
    let gone = gone(call, x)?;
    let others = gone.iter().filter(|&&axis| axis != bound.axis).map(|&axis| x.dims()[axis]);
    let others = others.product::<usize>() as i64;
    let wide = b.widened(x)?;
    let sum = b.fold_axes(&wide, &gone, FoldKind::Sum)?;
    let sum = b.reshape(&sum, mean.dims().to_vec())?;
    let made = b.map(sum.element(), &[&sum, &bound.size], |w| {
        let (sum, size, others) = (w.input(0), w.input(1), w.whole(others));
        let count = w.mul(size, others);
        w.div(sum, count)
    })?;
    b.cast(&made, mean.element())
}

/// Places of which those behind the real rows are the last of these: integers behind them may be
/// equal to the best ones.
fn among_real_rows(b: &mut Builder<'_>, call: &Call<'_>, places: &Value) -> Result<Value> {
    let bound = call.bound(0).ok_or("no size")?;
    b.map(Element::I64, &[places, &bound.size], |w| {
        let (place, size, one, zero) = (w.input(0), w.input(1), w.whole(1), w.whole(0));
        let last = w.sub(size, one);
        let last = w.bin(Binary::Max, last, zero);
        w.bin(Binary::Min, place, last)
    })
}

/// Axes that a reduction folds.
fn gone(call: &Call<'_>, x: &Value) -> Result<Vec<usize>> {
    if call.op().starts_with("Arg") {
        return Ok(vec![call.axis(0, x.rank())?]);
    }
    Ok(match call.axes_of(1, x.rank())?.filter(|axes| !axes.is_empty()) {
        Some(axes) => axes,
        None if call.flag("noop_with_empty_axes", false)? => Vec::new(),
        None => (0..x.rank()).collect(),
    })
}

/// The axis after a reduction over others; `None` if it is one of them.
fn reduced(call: &Call<'_>, x: &Value, at: usize) -> Result<Option<usize>> {
    let gone = gone(call, x)?;
    let before = gone.iter().filter(|&&axis| axis < at).count();
    let axis = if call.flag("keepdims", true)? { at } else { at - before };
    Ok(Some(axis).filter(|_| !gone.contains(&at)))
}

/// The size in a product: of a matrix's rows, of the columns of the other one, or of both where
/// they are summed over.
fn multiplied(call: &Call<'_>, result: &Value) -> Result<Passed> {
    let (x, y) = (call.get(0)?, call.get(1)?);
    if turns_batches(call)? {
        return Ok(Passed::Refused);
    }
    let other = match call.op() {
        "MatMulBnb4" | "MatMulNBits" => None, // one matrix, packed
        "QLinearMatMul" => Some(call.get(3)?),
        _ => Some(y),
    };
    let is_one = |behind: usize| {
        let axis = other.and_then(|other| Some((other, other.rank().checked_sub(behind)?)));
        behind == 2 || axis.is_none_or(|(other, axis)| other.dims()[axis] == 1)
    };
    let place = |bound: &Bound, value: &Value, turns: bool| match value.rank() - bound.axis {
        1 if turns => 2,
        2 if turns => 1,
        behind => behind,
    };
    let turns = [call.flag("transA", false)?, call.flag("transB", false)?];
    let fits = |axis: usize, len: usize| result.dims().get(axis) == Some(&len);
    Ok(match (call.bound(0), call.bound(1), call.given.iter().flatten().count()) {
        (Some(own), None, 1) if x.rank() > 1 && result.rank() == x.rank() => {
            let behind = place(own, x, turns[0]);
            let axis = x.rank() - behind;
            let is_row = behind > 1 && is_one(behind) && fits(axis, x.dims()[own.axis]);
            is_row.then(|| Bound { axis, size: own.size.clone() }).into()
        }
        (None, Some(own), 1) if is_plain(call) && y.rank() > 1 => {
            let axis = result.rank().saturating_sub(1);
            let is_column = place(own, y, turns[1]) == 1 && fits(axis, y.dims()[own.axis]);
            is_column.then(|| Bound { axis, size: own.size.clone() }).into()
        }
        (Some(own), Some(other), 2) if is_plain(call) && x.rank() > 1 && y.rank() > 1 => {
            let is_summed = place(own, x, turns[0]) == 1 && place(other, y, turns[1]) == 2;
            if is_summed && same_size(own, other) { Passed::Nothing } else { Passed::Refused }
        }
        _ => Passed::Refused,
    })
}

/// True if a product is one of floats as they are, whose other operand may have such a size.
fn is_plain(call: &Call<'_>) -> bool {
    matches!(call.op(), "MatMul" | "FusedMatMul" | "TransposeMatMul")
}

/// True if the first axis of an operand of a product is that of its rows.
fn turns_batches(call: &Call<'_>) -> Result<bool> {
    Ok(call.flag("transBatchA", false)? || call.flag("transBatchB", false)?)
}

/// The size of what a known condition selects: that of another axis stays, and of this one the
/// selected rows are known.
fn compressed(call: &Call<'_>, x: &Value, bound: &Bound) -> Result<Passed> {
    let Some(number) = call.maybe_int("axis")? else {
        return Ok(if is_first(x, bound) { Passed::Nothing } else { Passed::Refused });
    };
    let is_other = axis(number, x.rank())? != bound.axis;
    Ok(if is_other { Passed::On(bound.clone()) } else { Passed::Nothing })
}

/// True if the real elements come first in a row of all.
fn is_first(x: &Value, bound: &Bound) -> bool {
    x.dims()[..bound.axis].iter().all(|&size| size == 1)
}

/// True if a size is the same one along an axis.
fn is_along(of: &Option<Bound>, axis: usize, bound: &Bound) -> bool {
    of.as_ref().is_some_and(|of| of.axis == axis && same_size(of, bound)) && bound.axis == axis
}

/// Rows along an axis at places, which are those of real rows: as many as there are places.
fn looked_up(call: &Call<'_>, at: usize) -> Passed {
    let before = if call.op() == "Gather" { at } else { 0 };
    match call.bound(1) {
        Some(places) => Passed::On(Bound { axis: before + places.axis, ..places.clone() }),
        None => Passed::Nothing,
    }
}

/// As [`looked_up`], of places along several axes.
fn looked_up_by_tuples(call: &Call<'_>, bound: &Bound, first: usize) -> Result<Passed> {
    let (places, batches) = (call.get(1)?, call.int("batch_dims", 0)?);
    let depth = places.dims().last().copied().unwrap_or_default();
    if first == 0 && (batches != 0 || bound.axis >= depth) {
        return Ok(Passed::Refused);
    }
    Ok(match call.bound(1) {
        Some(of) if of.axis + 1 < places.rank() => Passed::On(of.clone()),
        Some(_) => Passed::Refused,
        None => Passed::Nothing,
    })
}

/// The size of a tensor some rows of which are replaced: by as many as there are places and
/// updates.
fn updated(given: &[Option<Bound>]) -> Passed {
    let fits = match given.get(1..3) {
        Some([None, None]) => true,
        Some([Some(places), Some(updates)]) => places.axis == updates.axis,
        _ => false,
    };
    match &given[0] {
        _ if !fits => Passed::Refused,
        Some(own) => Passed::On(own.clone()),
        None => Passed::Nothing,
    }
}

/// True if two sizes are the same value.
pub(crate) fn same_size(a: &Bound, b: &Bound) -> bool {
    matches!((&a.size.data, &b.size.data), (ValueData::Storage(a), ValueData::Storage(b)) if a == b)
}

/// True if all operands have the same size along the same axis.
fn is_same(given: &[Option<Bound>], rank: usize, operands: usize) -> bool {
    let mut all = given.iter().flatten();
    let Some(first) = all.next() else { return false };
    let same = |other: &Bound| other.axis == first.axis && same_size(first, other);
    first.axis < rank && given.iter().flatten().count() == operands && all.all(same)
}

/// Axis of a result to which operands are broadcast: other operands have one element along it, or
/// the same number.
fn elementwise(call: &Call<'_>, given: &[Option<Bound>], result: &Value) -> Option<usize> {
    let mut found: Option<(usize, &Bound)> = None;
    for (operand, bound) in call.operands.iter().zip(given) {
        let (Some(operand), Some(bound)) = (operand, bound) else { continue };
        let axis = result.rank() - operand.rank() + bound.axis;
        match found {
            Some((other, first)) if other != axis || !same_size(first, bound) => return None,
            _ => found = Some((axis, bound)),
        }
    }
    let (axis, _) = found?;
    let fits = |(operand, bound): (&Option<&Value>, &Option<Bound>)| match (operand, bound) {
        (Some(operand), None) => {
            let missing = result.rank() - operand.rank();
            axis < missing || operand.dims()[axis - missing] == 1
        }
        _ => true,
    };
    call.operands.iter().zip(given).all(fits).then_some(axis)
}

/// True if negative padding takes elements away.
fn is_cut(call: &Call<'_>) -> Result<bool> {
    let pads = if call.op() == "Pad" { call.ints_of("pads", 1)? } else { None };
    Ok(pads.is_some_and(|pads| pads.iter().any(|&more| more < 0)))
}

/// True if a node that resizes images leaves their number, the first axis, as it is.
fn keeps_images(call: &Call<'_>) -> Result<bool> {
    let (x, is_old) = (call.get(0)?, call.op() == "Upsample" || call.opset < 11);
    let place = match call.ints("axes")? {
        Some(list) => list.iter().position(|&number| axis(number, x.rank()) == Ok(0)),
        None => Some(0),
    };
    let Some(place) = place else { return Ok(true) };
    let factor = match call.floats("scales")? {
        Some(list) => list.get(place).map(|&factor| f64::from(factor)),
        None => call.reals(if is_old { 1 } else { 2 })?.and_then(|list| list.get(place).copied()),
    };
    // A known size is that of the most images. One that data decide is known to be theirs.
    // By its policy a node may stretch all axes as one of them.
    let is_free = call.text("keep_aspect_ratio_policy", "stretch")? == "stretch";
    let is_kept = factor.map_or(is_free && call.points(3).is_some(), |factor| factor == 1.0);
    let cuts = call.text("coordinate_transformation_mode", "")? == "tf_crop_and_resize";
    let part = if cuts { call.reals(1)?.filter(|part| !part.is_empty()) } else { None };
    let is_whole = part.is_none_or(|part| {
        let [begin, end] = [place, part.len() / 2 + place].map(|k| part.get(k).copied());
        (begin, end) == (Some(0.0), Some(1.0))
    });
    Ok(is_kept && is_whole)
}

/// Number of an axis among new ones.
fn moved_by_new(call: &Call<'_>, result: &Value, at: usize) -> Result<Option<usize>> {
    let Some(list) = call.ints_of("axes", 1)? else { return Ok(None) };
    let new = axes(&list, result.rank())?;
    Ok((0..result.rank()).filter(|axis| !new.contains(axis)).nth(at))
}

/// Number of an axis when others are gone.
fn without(call: &Call<'_>, x: &Value, at: usize) -> Result<Option<usize>> {
    let Some(list) = call.ints_of("axes", 1)?.filter(|list| !list.is_empty()) else {
        return Ok(None);
    };
    let gone = axes(&list, x.rank())?;
    Ok((0..x.rank()).filter(|axis| !gone.contains(axis)).position(|axis| axis == at))
}

/// Axis of what is looked up: along another one, or by as many indices.
fn gathered(call: &Call<'_>, operand: usize, at: usize) -> Result<Option<usize>> {
    let (x, indices) = (call.get(0)?, call.get(1)?);
    let along = call.axis(0, x.rank())?;
    Ok(match operand {
        1 => Some(along + at),
        _ if along == at => None,
        _ if at < along => Some(at),
        _ => Some(at - 1 + indices.rank()),
    })
}

/// Size of a part: of other axes all of it, of this one the first rows.
fn sliced(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    bound: &Bound,
    x: &Value,
    result: &Value,
) -> Result<Option<Bound>> {
    let Some(starts) = call.ints_of("starts", 1)? else { return Ok(None) };
    let all: Vec<i64> = (0..starts.len() as i64).collect();
    let list = call.ints_of("axes", 3)?.unwrap_or(all);
    let steps = call.numbers(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let ends = call.ints_of("ends", 2)?.unwrap_or_default();
    axes(&list, x.rank())?; // none of them twice
    let list = list.iter().map(|&number| axis(number, x.rank())).collect::<Result<Vec<_>>>()?;
    let along = list.iter().position(|&axis| axis == bound.axis);
    let Some(k) = along else { return Ok(Some(bound.clone())) };
    if (starts[k], steps[k]) != (0, 1) || ends[k] < 0 {
        return Ok(None);
    }
    let most = result.dims()[bound.axis] as i64;
    if most == x.dims()[bound.axis] as i64 {
        return Ok(Some(bound.clone())); // all rows
    }
    let size = b.map(Element::I64, &[&bound.size], |w| {
        let (size, most) = (w.input(0), w.whole(most));
        w.bin(Binary::Min, size, most)
    })?;
    Ok(Some(Bound { axis: bound.axis, size }))
}
