//! One step: what becomes of the state.

use super::function::Function;
use super::inputs::Inputs;
use super::kind::Kind;
use crate::onnx::fault::Result;
use crate::onnx::general::operators::quantized::linear::{Factor, dequantized, quantize_by_range};
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::Binary;

/// One direction of a node.
pub(super) struct Cell<'a> {
    pub(super) kind: Kind,
    pub(super) functions: &'a [Function],
    /// Sums of gates are kept within this of 0.
    pub(super) clip: Option<f64>,
    pub(super) hidden: usize,
    /// Recurrent weights, a row for each element of each gate: those of [`Kind::joint_gates`], in
    /// its order.
    pub(super) recurrent: Vec<Value>,
    /// Added to the recurrent product of a hidden gate that comes before the reset gate.
    pub(super) bias: Option<Value>,
    /// Weights of an LSTM's own state for its input, output and forget gates.
    pub(super) peepholes: Option<[Value; 3]>,
    /// Number of steps of each batch, in the states' type; `None` if all have all.
    pub(super) lengths: Option<Value>,
    /// States are rounded before they are multiplied with the recurrent weights.
    pub(super) rounds: bool,
}

/// Rounding of floats to 8 bits by the range of all, as `DynamicQuantizeLinear` does.
pub(super) struct Rounding;

impl Rounding {
    /// Operations that it takes, at most.
    pub(super) const OPERATIONS: usize = 6;

    pub(super) fn apply(b: &mut Builder<'_>, x: &Value) -> Result<Value> {
        let [numbers, scale, zero] = quantize_by_range(b, x)?;
        let [scale, zero] = [Factor::of(b, &scale)?, Factor::of(b, &zero)?];
        dequantized(b, &numbers, &scale, &zero, x.element())
    }
}

/// A row for each batch.
#[derive(Clone)]
pub(super) struct State {
    pub(super) hidden: Value,
    /// Of an LSTM.
    pub(super) cell: Option<Value>,
}

impl Cell<'_> {
    /// The state after step `at`.
    pub(super) fn step(
        &self,
        b: &mut Builder<'_>,
        inputs: &Inputs,
        state: &State,
        at: usize,
    ) -> Result<State> {
        match self.kind {
            Kind::Rnn => self.rnn(b, inputs, state, at),
            Kind::Gru { linear_before_reset } => {
                self.gru(b, inputs, state, at, linear_before_reset)
            }
            Kind::Lstm { coupled } => self.lstm(b, inputs, state, at, coupled),
        }
    }

    fn rnn(&self, b: &mut Builder<'_>, x: &Inputs, state: &State, at: usize) -> Result<State> {
        let (h, sum) = (&state.hidden, self.sum(b, x, &state.hidden, at, 0)?);
        let hidden = self.map(b, &[&sum, h], at, 1, |w, [sum, ..]| self.function(w, 0, sum))?;
        Ok(State { hidden, cell: None })
    }

    /// Gates are update, reset, hidden.
    fn gru(
        &self,
        b: &mut Builder<'_>,
        x: &Inputs,
        state: &State,
        at: usize,
        linear_before_reset: bool,
    ) -> Result<State> {
        let h = &state.hidden;
        let gates = self.sum(b, x, h, at, 0)?;
        let [update, reset] = [self.gate(b, &gates, 0)?, self.gate(b, &gates, 1)?];
        let blend = |w: &mut Writer, [update, inner, h]: [usize; 3]| {
            let (update, inner) = (self.function(w, 0, update), self.function(w, 1, inner));
            let one = w.real(1.0);
            let rest = w.sub(one, update);
            let (new, old) = (w.mul(rest, inner), w.mul(update, h));
            w.add(new, old)
        };
        if !linear_before_reset {
            let part = b.map(h.element(), &[&reset, h], |w| {
                let (reset, h) = (w.input(0), w.input(1));
                let reset = self.function(w, 0, reset);
                w.mul(reset, h)
            })?;
            let inner = self.sum(b, x, &part, at, 1)?;
            let terms = [&update, &inner, h];
            let hidden = self
                .map(b, &terms, at, 2, |w, [update, inner, h, ..]| blend(w, [update, inner, h]))?;
            return Ok(State { hidden, cell: None });
        }
        let mut product = self.product(b, h, 1)?;
        if let Some(bias) = &self.bias {
            product = b.binary(Binary::Add, &product, bias)?;
        }
        let given = self.input_part(b, x, at, 1)?;
        let terms = [&update, &reset, &given, &product, h];
        let hidden = self.map(b, &terms, at, 4, |w, [update, reset, given, product, h, ..]| {
            let reset = self.function(w, 0, reset);
            let part = w.mul(reset, product);
            let inner = w.add(given, part);
            blend(w, [update, inner, h])
        })?;
        Ok(State { hidden, cell: None })
    }

    /// Gates are input, output, forget, cell.
    fn lstm(
        &self,
        b: &mut Builder<'_>,
        x: &Inputs,
        state: &State,
        at: usize,
        coupled: bool,
    ) -> Result<State> {
        let (h, c) = (&state.hidden, state.cell.as_ref().ok_or("a state without a cell")?);
        let gates = self.sum(b, x, h, at, 0)?;
        let [input, output, forget, cell] = [0, 1, 2, 3].map(|gate| self.gate(b, &gates, gate));
        let (input, output, forget, cell) = (input?, output?, forget?, cell?);
        let mut terms = vec![&input, &forget, &cell, c];
        if let Some([to_input, _, to_forget]) = &self.peepholes {
            terms.extend([to_input, to_forget]);
        }
        let cell = self.map(b, &terms, at, 3, |w, [input, forget, cell, c, peep @ ..]| {
            let (mut input, mut forget) = (input, forget);
            if self.peepholes.is_some() {
                let (of_input, of_forget) = (w.mul(peep[0], c), w.mul(peep[1], c));
                (input, forget) = (w.add(input, of_input), w.add(forget, of_forget));
            }
            let input = self.function(w, 0, input);
            let forget = if coupled {
                let one = w.real(1.0);
                w.sub(one, input)
            } else {
                self.function(w, 0, forget)
            };
            let inner = self.function(w, 1, cell);
            let (old, new) = (w.mul(forget, c), w.mul(input, inner));
            w.add(old, new)
        })?;
        let mut terms = vec![&output, &cell, h];
        terms.extend(self.peepholes.as_ref().map(|[_, to_output, _]| to_output));
        let hidden = self.map(b, &terms, at, 2, |w, [output, cell, _, peep, ..]| {
            let output = if self.peepholes.is_some() {
                let of_output = w.mul(peep, cell);
                w.add(output, of_output)
            } else {
                output
            };
            let gate = self.function(w, 0, output);
            // Not kept within bounds: ONNX Runtime clips sums of gates alone.
            let inner = self.functions[2].write(w, cell);
            w.mul(gate, inner)
        })?;
        Ok(State { hidden, cell: Some(cell) })
    }

    /// A function of a term that is kept within bounds.
    fn function(&self, w: &mut Writer, which: usize, x: usize) -> usize {
        let x = match self.clip {
            None => x,
            Some(clip) => {
                let (least, most) = (w.real(-clip), w.real(clip));
                let low = w.bin(Binary::Max, x, least);
                w.bin(Binary::Min, low, most)
            }
        };
        self.functions[which].write(w, x)
    }

    /// The product of a state with the recurrent weights of some gates.
    fn product(&self, b: &mut Builder<'_>, h: &Value, which: usize) -> Result<Value> {
        let rounded = if self.rounds { Some(Rounding::apply(b, h)?) } else { None };
        b.gemm(rounded.as_ref().unwrap_or(h), &self.recurrent[which], [false, true])
    }

    /// Part of these gates that comes from the input.
    fn input_part(
        &self,
        b: &mut Builder<'_>,
        x: &Inputs,
        at: usize,
        which: usize,
    ) -> Result<Value> {
        x.at(b, at, self.kind.joint_gates()[which])
    }

    /// Sum of the recurrent product and the input's part.
    fn sum(
        &self,
        b: &mut Builder<'_>,
        x: &Inputs,
        h: &Value,
        at: usize,
        which: usize,
    ) -> Result<Value> {
        let product = self.product(b, h, which)?;
        let given = self.input_part(b, x, at, which)?;
        b.binary(Binary::Add, &product, &given)
    }

    fn gate(&self, b: &mut Builder<'_>, gates: &Value, gate: usize) -> Result<Value> {
        b.cut(gates, 1, gate * self.hidden, (gate + 1) * self.hidden)
    }

    /// A formula of `terms`, up to 6 of them. Batches without step `at` keep term `old`.
    fn map(
        &self,
        b: &mut Builder<'_>,
        terms: &[&Value],
        at: usize,
        old: usize,
        write: impl FnOnce(&mut Writer, [usize; 6]) -> usize,
    ) -> Result<Value> {
        let mut inputs = terms.to_vec();
        inputs.extend(&self.lengths);
        b.map(terms[0].element(), &inputs, |w| {
            let mut numbers = [0; 6];
            for (k, number) in numbers.iter_mut().enumerate().take(terms.len()) {
                *number = w.input(k);
            }
            let ends = self.lengths.as_ref().map(|_| (w.real(at as f64), w.input(terms.len())));
            let new = write(w, numbers);
            let Some((at, length)) = ends else { return new };
            let lasts = w.bin(Binary::Less, at, length);
            w.select(lasts, new, numbers[old])
        })
    }
}
