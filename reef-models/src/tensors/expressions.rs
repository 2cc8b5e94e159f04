//! Formulas of elements, as operations of a network.

use super::axes::{Result, broadcast, elements};
use super::builder::Builder;
use super::value::{Value, wide};
use reef_op::tensor::{
    Array, Binary, Domain, Element, Formula, Kind, Map, Scalar, Spec, Term, Unary,
};

/// A formula that is being written. Each function gives the number of its term.
#[derive(Default)]
pub(crate) struct Writer(Formula);

impl Writer {
    pub(crate) fn input(&mut self, input: usize) -> usize {
        self.0.push(Term::Input(input))
    }

    pub(crate) fn real(&mut self, number: impl Into<f64>) -> usize {
        self.0.push(Term::Scalar(Scalar::Real(number.into())))
    }

    pub(crate) fn whole(&mut self, number: i64) -> usize {
        self.0.push(Term::Scalar(Scalar::Whole(number)))
    }

    pub(crate) fn un(&mut self, function: Unary, a: usize) -> usize {
        self.0.push(Term::Unary(function, a))
    }

    pub(crate) fn bin(&mut self, function: Binary, a: usize, b: usize) -> usize {
        self.0.push(Term::Binary(function, a, b))
    }

    pub(crate) fn select(&mut self, which: usize, a: usize, b: usize) -> usize {
        self.0.push(Term::Select(which, a, b))
    }

    pub(crate) fn add(&mut self, a: usize, b: usize) -> usize {
        self.bin(Binary::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: usize, b: usize) -> usize {
        self.bin(Binary::Sub, a, b)
    }

    pub(crate) fn mul(&mut self, a: usize, b: usize) -> usize {
        self.bin(Binary::Mul, a, b)
    }

    pub(crate) fn div(&mut self, a: usize, b: usize) -> usize {
        self.bin(Binary::Div, a, b)
    }

    /// The formula so far.
    #[cfg(feature = "onnx")]
    pub(crate) fn into_formula(self) -> Formula {
        self.0
    }

    /// `1 / (1 + exp(-x))`.
    #[cfg(feature = "onnx")]
    pub(crate) fn sigmoid(&mut self, x: usize) -> usize {
        let (one, minus) = (self.real(1.0), self.un(Unary::Neg, x));
        let power = self.un(Unary::Exp, minus);
        let sum = self.add(one, power);
        self.div(one, sum)
    }

    /// `min(1, max(0, alpha * x + beta))`.
    #[cfg(feature = "onnx")]
    pub(crate) fn hard_sigmoid(&mut self, x: usize, alpha: f64, beta: f64) -> usize {
        let (alpha, beta) = (self.real(alpha), self.real(beta));
        let (zero, one) = (self.real(0.0), self.real(1.0));
        let scaled = self.mul(alpha, x);
        let sum = self.add(scaled, beta);
        let low = self.bin(Binary::Max, sum, zero);
        self.bin(Binary::Min, low, one)
    }

    /// `x * hard_sigmoid(x)` with a sixth and a half.
    #[cfg(feature = "onnx")]
    pub(crate) fn hard_swish(&mut self, x: usize) -> usize {
        let gate = self.hard_sigmoid(x, 1.0 / 6.0, 0.5);
        self.mul(x, gate)
    }

    /// `max(x, 0)`.
    pub(crate) fn relu(&mut self, x: usize) -> usize {
        let zero = self.real(0.0);
        self.bin(Binary::Max, x, zero)
    }

    /// `x * (1 + erf(x / √2)) / 2`.
    pub(crate) fn gelu(&mut self, x: usize) -> usize {
        let root = self.real(std::f64::consts::FRAC_1_SQRT_2);
        let scaled = self.mul(x, root);
        let error = self.un(Unary::Erf, scaled);
        self.half_of_product(x, error)
    }

    /// `x * (1 + y) / 2`.
    pub(crate) fn half_of_product(&mut self, x: usize, y: usize) -> usize {
        let (one, half) = (self.real(1.0), self.real(0.5));
        let sum = self.add(one, y);
        let product = self.mul(x, sum);
        self.mul(half, product)
    }
}

impl Builder<'_> {
    /// A formula of `inputs`, broadcast to each other, computed in `domain`. Its last term is the
    /// result.
    pub(crate) fn map_in(
        &mut self,
        domain: Domain,
        element: Element,
        inputs: &[&Value],
        write: impl FnOnce(&mut Writer) -> usize,
    ) -> Result<Value> {
        let dims = broadcast(inputs.iter().map(|value| value.dims()))?;
        let mut writer = Writer::default();
        let last = write(&mut writer);
        debug_assert_eq!(last + 1, writer.0.0.len(), "the last term is the result");
        self.emit(Kind::Map(Map { formula: writer.0, domain }), inputs, Spec { element, dims })
    }

    /// As [`map_in`](Self::map_in), in the domain of the result's type.
    pub(crate) fn map(
        &mut self,
        element: Element,
        inputs: &[&Value],
        write: impl FnOnce(&mut Writer) -> usize,
    ) -> Result<Value> {
        self.map_in(element.domain(), element, inputs, write)
    }

    /// A formula of each element, whose type the result has too.
    pub(crate) fn each(
        &mut self,
        value: &Value,
        write: impl FnOnce(&mut Writer, usize) -> usize,
    ) -> Result<Value> {
        self.map(value.element(), &[value], |w| {
            let x = w.input(0);
            write(w, x)
        })
    }

    pub(crate) fn unary(&mut self, function: Unary, value: &Value) -> Result<Value> {
        self.each(value, |w, x| w.un(function, x))
    }

    /// A function of two tensors of one type, which the result has too.
    pub(crate) fn binary(&mut self, function: Binary, a: &Value, b: &Value) -> Result<Value> {
        same_element(a, b)?;
        self.map(a.element(), &[a, b], |w| {
            let (x, y) = (w.input(0), w.input(1));
            w.bin(function, x, y)
        })
    }

    /// A function of a tensor and a number.
    pub(crate) fn with_number(
        &mut self,
        function: Binary,
        a: &Value,
        number: f64,
    ) -> Result<Value> {
        self.map(a.element(), &[a], |w| {
            let (x, y) = (w.input(0), w.real(number));
            w.bin(function, x, y)
        })
    }

    /// Converts the numbers to another type.
    pub(crate) fn cast(&mut self, value: &Value, to: Element) -> Result<Value> {
        let from = value.element();
        if from == to {
            return Ok(value.clone());
        }
        let domain = match (from.is_float(), to.is_float()) {
            (true, _) => from.domain(),
            (false, true) => Domain::F64,
            (false, false) if from == Element::U64 || to == Element::U64 => Domain::U64,
            (false, false) => Domain::I64,
        };
        let domain = if from == Element::U64 && to.is_float() { Domain::U64 } else { domain };
        self.map_in(domain, to, &[value], |w| w.input(0))
    }

    /// As a type in which results keep what they need for further computation.
    pub(crate) fn widened(&mut self, value: &Value) -> Result<Value> {
        self.cast(value, wide(value.element()))
    }

    /// One number of a type.
    pub(crate) fn scalar(&mut self, element: Element, number: f64) -> Result<Value> {
        let one = self.constant(Vec::new(), Array::F64(vec![number]))?;
        self.cast(&one, element)
    }

    /// Integers from 0 on, for which there is memory.
    pub(crate) fn count(&self, dims: Vec<usize>) -> Result<Value> {
        let count = elements(&dims)?;
        let _making = self.ledger.charge(8 * count as u64)?;
        self.whole(dims, (0..count as i64).collect())
    }

    /// The integer 0 everywhere, for which there is memory.
    #[cfg(feature = "onnx")]
    pub(crate) fn zeros(&self, dims: Vec<usize>) -> Result<Value> {
        let count = elements(&dims)?;
        let _making = self.ledger.charge(8 * count as u64)?;
        self.whole(dims, vec![0; count])
    }

    /// A list of integers.
    pub(crate) fn whole(&self, dims: Vec<usize>, numbers: Vec<i64>) -> Result<Value> {
        self.constant(dims, Array::I64(numbers))
    }
}

/// Refuses two types.
pub(crate) fn same_element(a: &Value, b: &Value) -> Result<()> {
    if a.element() == b.element() {
        Ok(())
    } else {
        Err(format!("operands of types {} and {}", a.element(), b.element()))
    }
}

/// Refuses a tensor of integers or truth values.
#[cfg(feature = "onnx")]
pub(crate) fn ensure_float(value: &Value) -> Result<()> {
    if value.element().is_float() {
        Ok(())
    } else {
        Err(format!("an operand must have floats, got {}", value.spec))
    }
}
