//! From a node to its directions, and from those to its results.

use super::cell::{Cell, Rounding, State};
use super::function::{Function, functions};
use super::inputs::Inputs;
use super::kind::Kind;
use super::sequence::{lengths, run};
use crate::onnx::fault::Result;
use crate::onnx::general::call::Call;
use crate::onnx::general::operators::quantized::linear::{Factor, dequantized};
use crate::tensors::builder::Builder;
use crate::tensors::value::{Value, wide};
use reef_op::tensor::{Binary, Element, Spec};

/// Operations that a node may be unrolled to.
const MAX_OPERATIONS: usize = 1 << 17;

pub(in crate::onnx::general::operators) fn recurrent(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    let kind = match call.op() {
        "RNN" => Kind::Rnn,
        "GRU" => Kind::Gru { linear_before_reset: call.flag("linear_before_reset", false)? },
        "LSTM" => Kind::Lstm { coupled: call.flag("input_forget", false)? },
        _ => return Ok(None),
    };
    Node::of(b, call, kind, None)?.results(b).map(Some)
}

/// As [`recurrent`], of ONNX Runtime's domain: an LSTM whose weights have 8 bits, and whose inputs
/// and states are rounded to as many by their ranges.
pub(in crate::onnx::general::operators) fn recurrent_of_microsoft(
    b: &mut Builder<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    if call.op() != "DynamicQuantizeLSTM" {
        return Ok(None);
    }
    let coupled = call.flag("input_forget", false)?;
    let weights = [weights(b, call, 1, 8)?, weights(b, call, 2, 10)?];
    Node::of(b, call, Kind::Lstm { coupled }, Some(weights))?.results(b).map(Some)
}

/// Floats of weights of 8 bits, a row for each element of each gate. Their scales and zero points
/// are two operands, with a number for each direction, or for each of its rows.
fn weights(b: &mut Builder<'_>, call: &Call<'_>, index: usize, scales: usize) -> Result<Value> {
    let value = call.get(index)?;
    let &[directions, _, rows] = value.dims() else {
        return Err(format!("operand {index} must have three dimensions, got {}", value.spec));
    };
    let factor = |b: &Builder<'_>, operand: usize| {
        let of = call.get(operand)?;
        let each = of.spec.elements().checked_div(directions).unwrap_or_default();
        let fits = each * directions == of.spec.elements() && (each == 1 || each == rows);
        if !fits {
            return Err(format!("operand {operand} is {} for {}", of.spec, value.spec));
        }
        Factor::of(b, &b.reshape(of, vec![directions, 1, each])?)
    };
    let (scale, zero) = (factor(b, scales)?, factor(b, scales + 1)?);
    let made = dequantized(b, value, &scale, &zero, Element::F32)?;
    b.transpose(&made, &[0, 2, 1])
}

/// A node whose operands fit. Sequences have steps before batches.
struct Node<'a, 'c> {
    call: &'a Call<'c>,
    kind: Kind,
    element: Element,
    x: Value,
    /// Steps, batches, elements of a state.
    sizes: [usize; 3],
    /// True if batches come first in the node's operands and results.
    batch_first: bool,
    /// For each direction, whether it goes from the last step to the first.
    reverse: &'static [bool],
    functions: Vec<Function>,
    lengths: Option<Value>,
    /// Weights of inputs and of states, if they are not operands as they are. Inputs and states
    /// have 8 bits then.
    weights: Option<[Value; 2]>,
}

impl<'a, 'c> Node<'a, 'c> {
    fn of(
        b: &mut Builder<'_>,
        call: &'a Call<'c>,
        kind: Kind,
        weights: Option<[Value; 2]>,
    ) -> Result<Self> {
        let (x, batch_first) = (call.get(0)?, call.flag("layout", false)?);
        let (element, x) = (x.element(), b.widened(x)?);
        if x.rank() != 3 || !element.is_float() {
            return Err(format!("a sequence of {}", x.spec));
        }
        let x = if batch_first { b.transpose(&x, &[1, 0, 2])? } else { x };
        let reverse: &[bool] = match call.text("direction", "forward")? {
            "forward" => &[false],
            "reverse" => &[true],
            "bidirectional" => &[false, true],
            other => return Err(format!("attribute direction = {other:?}")),
        };
        let (steps, batch) = (x.dims()[0], x.dims()[1]);
        let recurrent = weights.as_ref().map_or(call.get(2)?, |[_, recurrent]| recurrent);
        let hidden = recurrent.dims().last().copied().unwrap_or(0);
        let said = call.int("hidden_size", hidden as i64)?;
        if steps == 0 || batch == 0 || hidden == 0 || said != hidden as i64 {
            return Err(format!(
                "a sequence of {} with states of {hidden}, attribute hidden_size = {said}",
                x.spec
            ));
        }
        let rounding = if weights.is_some() { Rounding::OPERATIONS } else { 0 };
        let operations = steps.saturating_mul(reverse.len() * (kind.operations() + rounding));
        if operations > MAX_OPERATIONS {
            return Err(format!(
                "{steps} steps are {operations} operations, {MAX_OPERATIONS} are possible"
            ));
        }
        let functions = functions(call, kind.usual(), reverse.len())?;
        let sizes = [steps, batch, hidden];
        let lengths = lengths(b, call, sizes, x.element())?;
        let x = if weights.is_some() { Rounding::apply(b, &x)? } else { x };
        Ok(Self {
            call,
            kind,
            element,
            x,
            sizes,
            batch_first,
            reverse,
            functions,
            lengths,
            weights,
        })
    }

    /// All hidden states, the last ones, and an LSTM's last cells.
    fn results(&self, b: &mut Builder<'_>) -> Result<Vec<Value>> {
        let (mut all, mut last) = (Vec::new(), Vec::new());
        for direction in 0..self.reverse.len() {
            let (states, end) = self.direction(b, direction)?;
            all.push(states);
            last.push(end);
        }
        let mut results = vec![self.states(b, &all)?];
        let hidden: Vec<_> = last.iter().map(|state| &state.hidden).collect();
        results.push(self.ends(b, &hidden)?);
        let cells: Vec<_> = last.iter().filter_map(|state| state.cell.as_ref()).collect();
        if !cells.is_empty() {
            results.push(self.ends(b, &cells)?);
        }
        results.iter().map(|value| b.cast(value, self.element)).collect()
    }

    /// All states of a direction, in the order of steps, and the last one.
    fn direction(&self, b: &mut Builder<'_>, direction: usize) -> Result<(Vec<Value>, State)> {
        let [_, batch, hidden] = self.sizes;
        let rows = self.kind.gates() * hidden;
        let weights = self.part(b, direction, 1, &[rows, self.x.dims()[2]])?;
        let weights = weights.ok_or("operand 1 is missing")?;
        let recurrent =
            self.part(b, direction, 2, &[rows, hidden])?.ok_or("operand 2 is missing")?;
        let mut cut = |&[from, to]: &[usize; 2]| b.cut(&recurrent, 0, from * hidden, to * hidden);
        let recurrent = self.kind.joint_gates().iter().map(&mut cut).collect::<Result<_>>()?;
        let (bias, own) = match self.part(b, direction, 3, &[2 * rows])? {
            Some(bias) => self.biases(b, &bias)?,
            None => (None, None),
        };
        let peepholes = match (self.kind, self.call.maybe(7)) {
            (Kind::Lstm { .. }, Some(_)) => {
                let all =
                    self.part(b, direction, 7, &[3 * hidden])?.ok_or("operand 7 is missing")?;
                let mut part = |k: usize| b.cut(&all, 0, k * hidden, (k + 1) * hidden);
                Some([part(0)?, part(1)?, part(2)?])
            }
            _ => None,
        };
        let count = self.kind.usual().len();
        let cell = Cell {
            kind: self.kind,
            functions: &self.functions[direction * count..][..count],
            clip: self.call.maybe_float("clip")?,
            hidden,
            recurrent,
            bias: own,
            peepholes,
            lengths: self.lengths.clone(),
            rounds: self.weights.is_some(),
        };
        let first = State {
            hidden: self.first(b, direction, 5, [batch, hidden])?,
            cell: match self.kind {
                Kind::Lstm { .. } => Some(self.first(b, direction, 6, [batch, hidden])?),
                _ => None,
            },
        };
        let inputs = Inputs::of(b, &self.x, &weights, bias.as_ref(), hidden)?;
        run(b, &cell, &inputs, first, self.reverse[direction])
    }

    /// Bias of all gates of a step, and bias of the recurrent product of a hidden gate that is
    /// reset behind it.
    fn biases(&self, b: &mut Builder<'_>, both: &Value) -> Result<(Option<Value>, Option<Value>)> {
        let (hidden, rows) = (self.sizes[2], self.kind.gates() * self.sizes[2]);
        let [input, recurrent] = [b.cut(both, 0, 0, rows)?, b.cut(both, 0, rows, 2 * rows)?];
        if self.kind != (Kind::Gru { linear_before_reset: true }) {
            return Ok((Some(b.binary(Binary::Add, &input, &recurrent)?), None));
        }
        let own = b.cut(&recurrent, 0, 2 * hidden, rows)?;
        let [front, gates] = [&input, &recurrent].map(|value| b.cut(value, 0, 0, 2 * hidden));
        let front = b.binary(Binary::Add, &front?, &gates?)?;
        let behind = b.cut(&input, 0, 2 * hidden, rows)?;
        Ok((Some(b.concat(&[&front, &behind], 0)?), Some(own)))
    }

    /// The part of an operand that is of a direction, which has these sizes.
    fn part(
        &self,
        b: &mut Builder<'_>,
        direction: usize,
        operand: usize,
        dims: &[usize],
    ) -> Result<Option<Value>> {
        let own = match (&self.weights, operand) {
            (Some(weights), 1 | 2) => Some(&weights[operand - 1]),
            _ => self.call.maybe(operand),
        };
        let Some(value) = own else { return Ok(None) };
        self.ensure_is(operand, value, &[&[self.reverse.len()], dims].concat())?;
        let value = b.widened(value)?;
        let part = b.cut(&value, 0, direction, direction + 1)?;
        b.reshape(&part, dims.to_vec()).map(Some)
    }

    fn ensure_is(&self, operand: usize, value: &Value, dims: &[usize]) -> Result<()> {
        let wanted = Spec { element: self.element, dims: dims.to_vec() };
        if value.spec == wanted {
            Ok(())
        } else {
            Err(format!("operand {operand} must be {wanted}, got {}", value.spec))
        }
    }

    /// The state before the first step: an operand, or zeros.
    fn first(
        &self,
        b: &mut Builder<'_>,
        direction: usize,
        operand: usize,
        [batch, hidden]: [usize; 2],
    ) -> Result<Value> {
        let directions = self.reverse.len();
        if let Some(value) = self.call.maybe(operand).filter(|_| self.batch_first) {
            self.ensure_is(operand, value, &[batch, directions, hidden])?;
            let value = b.widened(value)?;
            let part = b.cut(&value, 1, direction, direction + 1)?;
            return b.reshape(&part, vec![batch, hidden]);
        }
        if let Some(value) = self.part(b, direction, operand, &[batch, hidden])? {
            return Ok(value);
        }
        let zero = b.scalar(wide(self.element), 0.0)?;
        b.expand(&zero, &[batch, hidden])
    }

    /// States of all directions, step by step; zeros where a batch has ended.
    fn states(&self, b: &mut Builder<'_>, all: &[Vec<Value>]) -> Result<Value> {
        let [steps, batch, hidden] = self.sizes;
        let (directions, at) = (all.len(), usize::from(self.batch_first));
        let row = if self.batch_first { vec![batch, 1, hidden] } else { vec![1, batch, hidden] };
        let rows = (0..steps).flat_map(|step| all.iter().map(move |states| &states[step]));
        let rows = rows.map(|state| b.reshape(state, row.clone())).collect::<Result<Vec<_>>>()?;
        let made = b.concat(&rows.iter().collect::<Vec<_>>(), at)?;
        let (dims, of_step, of_batch) = if self.batch_first {
            ([batch, steps, directions, hidden], [1, steps, 1, 1], [batch, 1, 1, 1])
        } else {
            ([steps, directions, batch, hidden], [steps, 1, 1, 1], [1, 1, batch, 1])
        };
        let made = b.reshape(&made, dims.to_vec())?;
        let Some(lengths) = &self.lengths else { return Ok(made) };
        let lengths = b.reshape(lengths, of_batch.to_vec())?;
        let places = b.whole(of_step.to_vec(), (0..steps as i64).collect())?;
        let places = b.cast(&places, made.element())?;
        b.map(made.element(), &[&places, &lengths, &made], |w| {
            let (place, length, state) = (w.input(0), w.input(1), w.input(2));
            let (lasts, zero) = (w.bin(Binary::Less, place, length), w.real(0.0));
            w.select(lasts, state, zero)
        })
    }

    /// The last states of all directions.
    fn ends(&self, b: &mut Builder<'_>, states: &[&Value]) -> Result<Value> {
        let [_, batch, hidden] = self.sizes;
        let row = if self.batch_first { vec![batch, 1, hidden] } else { vec![1, batch, hidden] };
        let rows = states.iter().map(|state| b.reshape(state, row.clone()));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        b.concat(&rows.iter().collect::<Vec<_>>(), usize::from(self.batch_first))
    }
}
