//! Softmax and normalisations, as operations of a network.

use super::axes::Result;
use super::builder::Builder;
use super::value::Value;
use reef_op::tensor::{Binary, FoldKind, Unary};

impl Builder<'_> {
    /// `exp(x) / sum(exp(x))` along axes, or its logarithm, in a wide type.
    pub(crate) fn softmax(
        &mut self,
        value: &Value,
        axes: &[usize],
        logarithm: bool,
    ) -> Result<Value> {
        let value = self.widened(value)?;
        let largest = self.fold_axes(&value, axes, FoldKind::Max)?;
        let powers = self.map(value.element(), &[&value, &largest], |w| {
            let (x, largest) = (w.input(0), w.input(1));
            let shifted = w.sub(x, largest);
            w.un(Unary::Exp, shifted)
        })?;
        let sum = self.fold_axes(&powers, axes, FoldKind::Sum)?;
        if !logarithm {
            return self.binary(Binary::Div, &powers, &sum);
        }
        self.map(value.element(), &[&value, &largest, &sum], |w| {
            let (x, largest, sum) = (w.input(0), w.input(1), w.input(2));
            let (shifted, logarithm) = (w.sub(x, largest), w.un(Unary::Log, sum));
            w.sub(shifted, logarithm)
        })
    }

    /// `(x - mean) / sqrt(variance + epsilon)` along axes, in a wide type. Also the mean and
    /// `1 / sqrt(…)`.
    pub(crate) fn standardise(
        &mut self,
        value: &Value,
        axes: &[usize],
        epsilon: f64,
    ) -> Result<[Value; 3]> {
        let value = self.widened(value)?;
        let mean = self.mean(&value, axes)?;
        let centred = self.binary(Binary::Sub, &value, &mean)?;
        let [scaled, inverse] = self.by_root_mean_square(&centred, axes, epsilon)?;
        Ok([scaled, mean, inverse])
    }

    /// `x / sqrt(mean(x²) + epsilon)` along axes, in a wide type, and the factor.
    pub(crate) fn by_root_mean_square(
        &mut self,
        value: &Value,
        axes: &[usize],
        epsilon: f64,
    ) -> Result<[Value; 2]> {
        let value = self.widened(value)?;
        let count: usize = axes.iter().map(|&axis| value.dims()[axis]).product();
        let squares = self.fold_axes(&value, axes, FoldKind::SumSquares)?;
        let inverse = self.map(value.element(), &[&squares], |w| {
            let (sum, count, epsilon, one) =
                (w.input(0), w.real(count as f64), w.real(epsilon), w.real(1.0));
            let mean = w.div(sum, count);
            let sum = w.add(mean, epsilon);
            let root = w.un(Unary::Sqrt, sum);
            w.div(one, root)
        })?;
        Ok([self.binary(Binary::Mul, &value, &inverse)?, inverse])
    }

    /// `x * scale + shift`, in the type of `x`.
    pub(crate) fn scaled(
        &mut self,
        value: &Value,
        scale: Option<&Value>,
        shift: Option<&Value>,
    ) -> Result<Value> {
        let mut made = value.clone();
        for (function, factor) in [(Binary::Mul, scale), (Binary::Add, shift)] {
            if let Some(factor) = factor {
                let factor = self.cast(factor, made.element())?;
                made = self.binary(function, &made, &factor)?;
            }
        }
        Ok(made)
    }
}
