//! Operands of rows of attention, viewed where they come from.

use super::places::{arithmetic, split, split_last, through};
use super::scores::{Change, Read};
use super::steps::Steps;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Binary, Kind, Move, Placed, Scalar, ScoreStep, Spec, TensorOp, Term, View};

/// A storage, where each row begins in it, and the axes inside of a row.
pub(super) struct Operand {
    pub(super) storage: usize,
    pub(super) spec: Spec,
    pub(super) rows: Placed,
    axes: Vec<(usize, usize)>,
}

impl Operand {
    /// Input `input` of `step`, of which each row sees its part of `rows` and these axes.
    pub(super) fn of(read: (&TensorStep, usize), rows: View, axes: &[(usize, usize)]) -> Self {
        let (step, input) = read;
        let rows = Placed { first: 0, view: rows };
        Self {
            storage: step.reads[input],
            spec: step.op.inputs[input].clone(),
            rows,
            axes: axes.to_vec(),
        }
    }

    /// Operand that scores are changed with.
    pub(super) fn of_scores(read: &Read) -> Option<Self> {
        let (rows, stride) = split_last(&read.view)?;
        let axes = vec![(*read.view.dims.last()?, stride)];
        let rows = Placed { first: 0, view: rows };
        Some(Self { storage: read.storage, spec: read.spec.clone(), rows, axes })
    }

    /// Operand before it was moved, and, if `scale` takes factors, before it was multiplied.
    pub(super) fn at_source(mut self, steps: &Steps<'_>, mut scale: Option<&mut f64>) -> Self {
        while let Some(maker) = steps.maker(self.storage) {
            match (&maker.op.kind, &mut scale) {
                (Kind::Move(op), _) => match through(&self.placed(self.rows.clone()), op) {
                    Ok(before) => self.place(&before),
                    Err(uneven) => match split(&mut self.rows.view, uneven) {
                        Some(()) => continue,
                        None => break,
                    },
                },
                (_, Some(scale)) => match factor(&maker.op) {
                    Some(factor) => **scale *= factor,
                    None => break,
                },
                _ => break,
            }
            (self.storage, self.spec) = (maker.reads[0], maker.op.inputs[0].clone());
        }
        self
    }

    /// With rows that begin so.
    pub(super) fn placed(&self, rows: Placed) -> Placed {
        let (dims, strides) = self.axes.iter().copied().unzip();
        Placed { first: rows.first, view: rows.view.then(&View { dims, strides }) }
    }

    fn place(&mut self, placed: &Placed) {
        let inner = placed.view.dims.len() - self.axes.len();
        let strides = &placed.view.strides[inner..];
        self.axes.iter_mut().zip(strides).for_each(|(axis, &stride)| axis.1 = stride);
        let view = placed.view.axes(&(0..inner).collect::<Vec<_>>());
        self.rows = Placed { first: placed.first, view };
    }
}

/// The number that an operation multiplies its only input with.
fn factor(op: &TensorOp) -> Option<f64> {
    let (Kind::Map(map), [input]) = (&op.kind, op.inputs.as_slice()) else { return None };
    let terms = &map.formula.0;
    let number = |k: usize| match terms[k] {
        Term::Scalar(Scalar::Real(number)) => Some(number),
        _ => None,
    };
    let is_input = |k: usize| terms[k] == Term::Input(0);
    let factor = match *terms.last()? {
        Term::Binary(Binary::Mul, a, b) if is_input(a) => number(b),
        Term::Binary(Binary::Mul, a, b) if is_input(b) => number(a),
        Term::Binary(Binary::Div, a, b) if is_input(a) => number(b).map(|number| 1.0 / number),
        _ => None,
    };
    let same = input.element == op.output.element && input.elements() == op.output.elements();
    factor.filter(|_| same)
}

/// A step of the scores that reads `placed`.
pub(super) fn score_step(change: &Change, placed: Placed) -> Option<ScoreStep> {
    let Placed { first: 0, view } = placed else { return None };
    match change {
        Change::Scale(_) => None,
        Change::Add(_) => Some(ScoreStep::Add(view)),
        Change::Choose { keep, other, .. } => {
            Some(ScoreStep::Choose { view, keep: *keep, other: *other })
        }
    }
}

/// Row of the source for each row of a move's result, if it moves whole rows of `width` elements.
pub(super) fn whole_rows(op: &Move, width: usize) -> Option<Placed> {
    let axes = op.tables.iter().map(|table| arithmetic(table)).collect::<Option<Vec<_>>>()?;
    let (last, tables) = op.tables.split_last()?;
    let whole = last.len() == width && (width == 1 || axes[tables.len()].1 == 1);
    let first: usize = axes.iter().map(|(start, _)| start).sum();
    let strides: Vec<usize> = axes[..tables.len()].iter().map(|(_, stride)| *stride).collect();
    let of_rows = strides.iter().chain([&first]).all(|place| place.is_multiple_of(width));
    let dims = tables.iter().map(Vec::len).collect();
    let view = View { dims, strides: strides.iter().map(|stride| stride / width).collect() };
    (whole && of_rows).then_some(Placed { first: first / width, view })
}
