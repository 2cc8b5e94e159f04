//! Layers with tensors of their own: linear ones, normalisations, tables.

use crate::model::tensor::{Kind, TensorSpec};
use crate::model::tensors::Tensors;
use crate::tensors::axes::Result;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_core::tensor::{Array, Element, FoldKind, Gather, Kind as Operation, Spec, Target, Unary};

/// Added to variances.
const EPSILON: f64 = 1e-12;

/// A network under construction, and where its tensors come from.
pub(super) struct Layers<'a> {
    pub(super) b: Builder<'a>,
    pub(super) tensors: Tensors,
}

impl Layers<'_> {
    /// A linear layer for each row of `x`, and what `after` makes of each element of its output and of the one of
    /// `residual` at the same place.
    pub(super) fn linear(
        &mut self,
        module: &str,
        x: &Value,
        outputs: usize,
        residual: Option<&Value>,
        after: impl FnOnce(&mut Writer, usize) -> usize,
    ) -> Result<Value> {
        let fan_in = x.dims()[1];
        let weight =
            self.tensor(module, "weight", Kind::Weight { fan_in }, vec![outputs, fan_in])?;
        let bias = self.tensor(module, "bias", Kind::Bias, vec![outputs])?;
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

    /// Each row of `x` with a mean of 0 and a variance of 1, times a factor and plus a summand for each column.
    pub(super) fn normalised(&mut self, module: &str, x: &Value) -> Result<Value> {
        let width = x.dims()[1];
        let gain = self.tensor(module, "weight", Kind::Gain, vec![width])?;
        let shift = self.tensor(module, "bias", Kind::Bias, vec![width])?;
        let sum = self.b.fold_axes(x, &[1], FoldKind::Sum)?;
        let centred = self.b.map(Element::F32, &[x, &sum], |w| {
            let (x, sum, count) = (w.input(0), w.input(1), w.real(width as f64));
            let mean = w.div(sum, count);
            w.sub(x, mean)
        })?;
        let squares = self.b.fold_axes(&centred, &[1], FoldKind::SumSquares)?;
        self.b.map(Element::F32, &[&centred, &squares, &gain, &shift], |w| {
            let (squares, count, epsilon) = (w.input(1), w.real(width as f64), w.real(EPSILON));
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
    pub(super) fn rows(
        &mut self,
        module: &str,
        [rows, width]: [usize; 2],
        numbers: &Value,
    ) -> Result<Value> {
        let table = self.tensor(module, "weight", Kind::Weight { fan_in: 1 }, vec![rows, width])?;
        let tuples = numbers.spec.elements();
        let target =
            Target::Tuples { batches: 1, shared: true, sizes: vec![rows], inner: width, tuples };
        let dims = [numbers.dims(), &[width]].concat();
        let spec = Spec { element: Element::F32, dims };
        self.b.emit(Operation::Gather(Gather { target }), &[&table, numbers], spec)
    }

    /// A tensor of `module`, whose operations come next.
    fn tensor(&mut self, module: &str, part: &str, kind: Kind, dims: Vec<usize>) -> Result<Value> {
        self.b.node = module.into();
        let elements = dims.iter().product();
        let spec = TensorSpec { name: format!("{module}.{part}"), elements, kind };
        match &mut self.tensors {
            Tensors::Seeded(seed) => self.b.made_up(*seed, spec, dims),
            Tensors::Read(params) => {
                let values = params.take(&spec).map_err(|error| error.to_string())?;
                self.b.constant(dims, Array::F32(values))
            }
        }
    }
}
