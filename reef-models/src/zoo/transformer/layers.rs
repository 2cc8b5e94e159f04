//! Layers with tensors of their own: linear ones, normalisations, tables.

use crate::model::tensor::{Kind, TensorSpec};
use crate::model::tensors::Tensors;
use crate::tensors::axes::Result;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Element, FoldKind, Gather, Kind as Operation, Spec, Target, Unary};

/// A network under construction, and where its tensors come from.
pub(in crate::zoo) struct Layers<'a> {
    pub(in crate::zoo) b: Builder<'a>,
    pub(in crate::zoo) tensors: Tensors,
    /// Added to variances.
    pub(in crate::zoo) epsilon: f64,
}

impl Layers<'_> {
    /// A linear layer for each row of `x`, and what `after` makes of each element of its output and
    /// of the one of `residual` at the same place.
    pub(in crate::zoo) fn linear(
        &mut self,
        module: &str,
        x: &Value,
        outputs: usize,
        residual: Option<&Value>,
        after: impl FnOnce(&mut Writer, usize) -> usize,
    ) -> Result<Value> {
        let names = ["weight", "bias"].map(|part| format!("{module}.{part}"));
        self.linear_of(names, x, outputs, residual, after)
    }

    /// As [`linear`](Self::linear), with a weight and a bias of these names.
    pub(in crate::zoo) fn linear_of(
        &mut self,
        [weight, bias]: [String; 2],
        x: &Value,
        outputs: usize,
        residual: Option<&Value>,
        after: impl FnOnce(&mut Writer, usize) -> usize,
    ) -> Result<Value> {
        let fan_in = x.dims()[1];
        let weight = self.tensor(weight, Kind::Weight { fan_in }, vec![outputs, fan_in])?;
        let bias = self.tensor(bias, Kind::Bias, vec![outputs])?;
        let product = self.b.gemm(x, &weight, [false, true])?;
        let inputs: Vec<&Value> = [&product, &bias].into_iter().chain(residual).collect();
        self.b.map(Element::F32, &inputs, |w| {
            let (x, bias) = (w.input(0), w.input(1));
            let mut sum = w.add(x, bias);
            if residual.is_some() {
                let residual = w.input(2);
                sum = w.add(sum, residual);
            }
            after(w, sum)
        })
    }

    /// Each row of `x` with a mean of 0 and a variance of 1, times a factor and plus a summand for
    /// each column.
    pub(in crate::zoo) fn normalised(&mut self, module: &str, x: &Value) -> Result<Value> {
        let (width, epsilon) = (x.dims()[1], self.epsilon);
        let gain = self.tensor(format!("{module}.weight"), Kind::Gain, vec![width])?;
        let shift = self.tensor(format!("{module}.bias"), Kind::Bias, vec![width])?;
        let sum = self.b.fold_axes(x, &[1], FoldKind::Sum)?;
        let centred = self.b.map(Element::F32, &[x, &sum], |w| {
            let (x, sum, count) = (w.input(0), w.input(1), w.real(width as f64));
            let mean = w.div(sum, count);
            w.sub(x, mean)
        })?;
        let squares = self.b.fold_axes(&centred, &[1], FoldKind::SumSquares)?;
        self.b.map(Element::F32, &[&centred, &squares, &gain, &shift], |w| {
            let (squares, count, epsilon) = (w.input(1), w.real(width as f64), w.real(epsilon));
            let mean = w.div(squares, count);
            let variance = w.add(mean, epsilon);
            let deviation = w.un(Unary::Sqrt, variance);
            let (centred, gain, shift) = (w.input(0), w.input(2), w.input(3));
            let standard = w.div(centred, deviation);
            let product = w.mul(standard, gain);
            w.add(product, shift)
        })
    }

    /// Rows of a table, by their numbers.
    pub(in crate::zoo) fn rows(
        &mut self,
        module: &str,
        [rows, width]: [usize; 2],
        numbers: &Value,
    ) -> Result<Value> {
        let table =
            self.tensor(format!("{module}.weight"), Kind::Weight { fan_in: 1 }, vec![rows, width])?;
        let tuples = numbers.spec.elements();
        let target =
            Target::Tuples { batches: 1, shared: true, sizes: vec![rows], inner: width, tuples };
        let dims = [numbers.dims(), &[width]].concat();
        let spec = Spec { element: Element::F32, dims };
        self.b.emit(Operation::Gather(Gather { target }), &[&table, numbers], spec)
    }

    /// A tensor. The operations that come next are called after its module.
    pub(in crate::zoo) fn tensor(
        &mut self,
        name: String,
        kind: Kind,
        dims: Vec<usize>,
    ) -> Result<Value> {
        name.rsplit_once('.')
            .map_or(name.as_str(), |(module, _)| module)
            .clone_into(&mut self.b.node);
        let spec = TensorSpec { name, elements: dims.iter().product(), kind };
        match &mut self.tensors {
            Tensors::Seeded(seed) => self.b.made_up(*seed, spec, dims),
            Tensors::Read(params) => {
                let values = params.take(&spec).map_err(|error| error.to_string())?;
                self.b.constant(dims, Array::F32(values))
            }
        }
    }
}

/// A layer's output with nothing behind it.
pub(in crate::zoo) fn as_it_is(_: &mut Writer, x: usize) -> usize {
    x
}
