//! Steps of optimizers (`ai.onnx.preview.training`), which are formulas of each element.

use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::{Writer, ensure_float, same_element};
use crate::tensors::value::Value;
use reef_op::tensor::{Binary, Domain, Unary};

/// Added to roots by default, so that nothing is divided by 0.
const EPSILON: f64 = 1e-6;

/// The learning rate, and the number of steps before this one: one number each.
struct Pace {
    rate: Value,
    count: Value,
}

/// The new values of a tensor and of what is kept of it, of these: the tensor, its gradient, and
/// what is kept.
type Step = fn(&mut Builder<'_>, &Call<'_>, &Pace, &[&Value]) -> Result<Vec<Value>>;

pub(in crate::onnx::general::operators) fn optimizer(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    match call.op() {
        "Adagrad" => steps(b, call, 1, adagrad).map(Some),
        "Adam" => steps(b, call, 2, adam).map(Some),
        "Momentum" => steps(b, call, 1, momentum).map(Some),
        _ => Ok(None),
    }
}

/// One step for each tensor. The operands are all tensors, all gradients, and all that is kept; the
/// results stand in the same order.
fn steps(b: &mut Builder<'_>, call: &Call<'_>, kept: usize, step: Step) -> Result<Vec<Value>> {
    let rate = b.reshape(call.get(0)?, Vec::new())?;
    let count = b.reshape(call.get(1)?, Vec::new())?;
    ensure_float(&rate)?;
    let pace = Pace { rate, count };
    let (each, given) = (kept + 2, call.operands.len() - 2);
    if given == 0 || !given.is_multiple_of(each) {
        return Err(format!("a step takes {each} operands for each tensor, got {given}"));
    }
    let tensors = given / each;
    let mut made = Vec::new();
    for k in 0..tensors {
        let group = (0..each).map(|part| call.get(2 + part * tensors + k));
        let group = group.collect::<Result<Vec<_>>>()?;
        ensure_float(group[0])?;
        for other in &group[1..] {
            same_element(group[0], other)?;
            if other.dims() != group[0].dims() {
                return Err(format!("{} for a tensor of {}", other.spec, group[0].spec));
            }
        }
        made.push(step(b, call, &pace, &group)?);
    }
    let mut results = Vec::new();
    for part in 0..=kept {
        results.extend(made.iter().map(|new: &Vec<Value>| new[part].clone()));
    }
    Ok(results)
}

/// The gradient, with that of a penalty for large numbers.
fn penalized(w: &mut Writer, x: usize, gradient: usize, factor: f64) -> usize {
    let factor = w.real(factor);
    let penalty = w.mul(factor, x);
    w.add(penalty, gradient)
}

fn adagrad(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    pace: &Pace,
    group: &[&Value],
) -> Result<Vec<Value>> {
    let (x, gradient, squares) = (group[0], group[1], group[2]);
    let (decay, epsilon) = (call.float("decay_factor", 0.0)?, call.float("epsilon", EPSILON)?);
    let penalty = call.float("norm_coefficient", 0.0)?;
    let rate = b.map_in(Domain::F64, x.element(), &[&pace.rate, &pace.count], |w| {
        let (rate, count, one, decay) = (w.input(0), w.input(1), w.real(1.0), w.real(decay));
        let decayed = w.mul(count, decay);
        let by = w.add(one, decayed);
        w.div(rate, by)
    })?;
    let squares = b.map(x.element(), &[x, gradient, squares], |w| {
        let (x, gradient, sum) = (w.input(0), w.input(1), w.input(2));
        let gradient = penalized(w, x, gradient, penalty);
        let square = w.mul(gradient, gradient);
        w.add(sum, square)
    })?;
    let new = b.map(x.element(), &[x, gradient, &squares, &rate], |w| {
        let (x, gradient, squares, rate) = (w.input(0), w.input(1), w.input(2), w.input(3));
        let gradient = penalized(w, x, gradient, penalty);
        let (root, epsilon) = (w.un(Unary::Sqrt, squares), w.real(epsilon));
        let (scaled, by) = (w.mul(rate, gradient), w.add(root, epsilon));
        let step = w.div(scaled, by);
        w.sub(x, step)
    })?;
    Ok(vec![new, squares])
}

fn adam(b: &mut Builder<'_>, call: &Call<'_>, pace: &Pace, group: &[&Value]) -> Result<Vec<Value>> {
    let (x, gradient, first, second) = (group[0], group[1], group[2], group[3]);
    let (alpha, beta) = (call.float("alpha", 0.9)?, call.float("beta", 0.999)?);
    let epsilon = call.float("epsilon", EPSILON)?;
    let penalty = call.float("norm_coefficient", 0.0)?;
    let shrinks = call.float("norm_coefficient_post", 0.0)?;
    // The first steps are larger, since both means began with 0.
    let rate = b.map_in(Domain::F64, x.element(), &[&pace.rate, &pace.count], |w| {
        let (rate, count, zero, one) = (w.input(0), w.input(1), w.real(0.0), w.real(1.0));
        let (alpha, beta) = (w.real(alpha), w.real(beta));
        let (of_first, of_second) =
            (w.bin(Binary::Pow, alpha, count), w.bin(Binary::Pow, beta, count));
        let (of_first, of_second) = (w.sub(one, of_first), w.sub(one, of_second));
        let root = w.un(Unary::Sqrt, of_second);
        let (larger, is_later) = (w.mul(rate, root), w.bin(Binary::Less, zero, count));
        let corrected = w.div(larger, of_first);
        w.select(is_later, corrected, rate)
    })?;
    let first = b.map(x.element(), &[x, gradient, first], |w| {
        let (x, gradient, mean) = (w.input(0), w.input(1), w.input(2));
        let gradient = penalized(w, x, gradient, penalty);
        let (old, new) = (w.real(alpha), w.real(1.0 - alpha));
        let (old, new) = (w.mul(old, mean), w.mul(new, gradient));
        w.add(old, new)
    })?;
    let second = b.map(x.element(), &[x, gradient, second], |w| {
        let (x, gradient, mean) = (w.input(0), w.input(1), w.input(2));
        let gradient = penalized(w, x, gradient, penalty);
        let square = w.mul(gradient, gradient);
        let (old, new) = (w.real(beta), w.real(1.0 - beta));
        let (old, new) = (w.mul(old, mean), w.mul(new, square));
        w.add(old, new)
    })?;
    let new = b.map(x.element(), &[x, &first, &second, &rate], |w| {
        let (x, first, second, rate) = (w.input(0), w.input(1), w.input(2), w.input(3));
        let (root, epsilon) = (w.un(Unary::Sqrt, second), w.real(epsilon));
        let by = w.add(root, epsilon);
        let ratio = w.div(first, by);
        let step = w.mul(rate, ratio);
        let (moved, kept) = (w.sub(x, step), w.real(1.0 - shrinks));
        w.mul(kept, moved)
    })?;
    Ok(vec![new, first, second])
}

fn momentum(
    b: &mut Builder<'_>,
    call: &Call<'_>,
    pace: &Pace,
    group: &[&Value],
) -> Result<Vec<Value>> {
    let (x, gradient, momentum) = (group[0], group[1], group[2]);
    let needed = |name| {
        let found = call.maybe_float(name)?;
        found.ok_or_else(|| format!("attribute {name} is missing"))
    };
    let (alpha, beta, penalty) = (needed("alpha")?, needed("beta")?, needed("norm_coefficient")?);
    let is_nesterov = match call.text("mode", "")? {
        "standard" => false,
        "nesterov" => true,
        other => return Err(format!("attribute mode = {other:?}")),
    };
    // The first gradient counts in full.
    let share = b.map_in(Domain::F64, x.element(), &[&pace.count], |w| {
        let (count, zero, one, beta) = (w.input(0), w.real(0.0), w.real(1.0), w.real(beta));
        let is_later = w.bin(Binary::Less, zero, count);
        w.select(is_later, beta, one)
    })?;
    let momentum = b.map(x.element(), &[x, gradient, momentum, &share], |w| {
        let (x, gradient, old, share) = (w.input(0), w.input(1), w.input(2), w.input(3));
        let gradient = penalized(w, x, gradient, penalty);
        let alpha = w.real(alpha);
        let (old, new) = (w.mul(alpha, old), w.mul(share, gradient));
        w.add(old, new)
    })?;
    let rate = b.cast(&pace.rate, x.element())?;
    let new = b.map(x.element(), &[x, gradient, &momentum, &rate], |w| {
        let (x, gradient, momentum, rate) = (w.input(0), w.input(1), w.input(2), w.input(3));
        let way = if is_nesterov {
            let gradient = penalized(w, x, gradient, penalty);
            let alpha = w.real(alpha);
            let ahead = w.mul(alpha, momentum);
            w.add(gradient, ahead)
        } else {
            momentum
        };
        let step = w.mul(rate, way);
        w.sub(x, step)
    })?;
    Ok(vec![new, momentum])
}
