//! Elements from elsewhere, as they are.

use super::formula::Scalar;
use super::job::{Job, Outputs, TILE};
use crate::tensor::array::{Array, ElementType, Values, with_values};
use crate::tensor::number::Number;
use crate::tensor::spec::Spec;
use crate::tensor::stored::Stored;
use crate::tensor::view::product;
use reef_core::{Error, Result};

/// Entry in a table of [`Move`] for a place without an element: it gets the filling.
pub const NOWHERE: usize = usize::MAX;

/// `output[i₀, i₁, …] = input[tables[0][i₀] + tables[1][i₁] + …]`, counted in elements; where a
/// table has [`NOWHERE`], it is `fill`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Move {
    /// For each axis of the output.
    pub tables: Vec<Vec<usize>>,
    /// Value where no element comes from the input.
    pub fill: Scalar,
}

/// Tensors one after the other along an axis: input `k` is `outer` times `lens[k]` elements.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Concat {
    /// Rows.
    pub outer: usize,
    /// Elements of each input in a row.
    pub lens: Vec<usize>,
}

impl Move {
    /// Returns the position in the input at which row `row` begins, for axes with these tables,
    /// none of which is empty; `None` if it doesn't come from there. Rows are counted in row-major
    /// order.
    pub fn base(tables: &[Vec<usize>], mut row: usize) -> Option<usize> {
        let mut base = 0;
        for table in tables.iter().rev() {
            match table[row % table.len()] {
                NOWHERE => return None,
                at => base += at,
            }
            row /= table.len();
        }
        Some(base)
    }

    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let dims: Vec<usize> = self.tables.iter().map(Vec::len).collect();
        let farthest = |table: &Vec<usize>| {
            table.iter().copied().filter(|&at| at != NOWHERE).max().unwrap_or(0)
        };
        let reach = self.tables.iter().map(farthest).fold(0, usize::saturating_add);
        let [input] = inputs else {
            return Err(Error::invalid("move", format!("must have 1 input, got {}", inputs.len())));
        };
        let inside = reach < input.elements() || output.elements() == 0;
        if !inside || product(&dims) != output.elements() || input.element != output.element {
            return Err(Error::invalid(
                "move",
                format!("{dims:?} of {input} cannot make {output}"),
            ));
        }
        Ok(())
    }

    pub(crate) fn compute(&self, job: Job<'_>) -> Outputs {
        let values = job.inputs[0];
        with_values!(Values, values, from => self.run(from, &job).map(ElementType::wrap))
    }

    fn run<S: Stored>(&self, from: &[S], job: &Job<'_>) -> Option<Vec<S>> {
        let fill = match self.fill {
            Scalar::Real(number) => S::from_f64(number),
            Scalar::Whole(number) => S::from_i64(number),
        };
        let one = [vec![0]];
        let (tables, last) = match self.tables.split_last() {
            Some((last, tables)) => (tables, last),
            None => (&[][..], &one[0]),
        };
        let mut to = Vec::with_capacity(job.range.len());
        while to.len() < job.range.len() {
            if job.stopped() {
                return None;
            }
            let at = job.range.start + to.len();
            let (row, column) = (at / last.len(), at % last.len());
            let run = (last.len() - column).min(job.range.len() - to.len()).min(TILE);
            let columns = &last[column..column + run];
            match Self::base(tables, row) {
                None => to.extend(std::iter::repeat_n(fill, run)),
                Some(base) => {
                    let element = |&at: &usize| if at == NOWHERE { fill } else { from[base + at] };
                    to.extend(columns.iter().map(element));
                }
            }
        }
        Some(to)
    }
}

impl Concat {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let fits = |(input, &len): (&Spec, &usize)| {
            input.element == output.element && input.elements() == self.outer.saturating_mul(len)
        };
        let whole = inputs.iter().map(Spec::elements).fold(0, usize::saturating_add);
        let fit = inputs.len() == self.lens.len() && inputs.iter().zip(&self.lens).all(fits);
        if fit && whole == output.elements() {
            return Ok(());
        }
        Err(Error::invalid("concatenation", format!("{self:?} cannot make {output}")))
    }

    pub(crate) fn compute(&self, mut job: Job<'_>) -> Outputs {
        let row: usize = self.lens.iter().sum();
        let mut at = job.range.start;
        while at < job.range.end {
            if job.stopped() {
                return None;
            }
            let (outer, mut column) = (at / row, at % row);
            let mut input = 0;
            while column >= self.lens[input] {
                column -= self.lens[input];
                input += 1;
            }
            let run = (self.lens[input] - column).min(job.range.end - at).min(16 * TILE);
            copy(&job.inputs[input], outer * self.lens[input] + column, run, &mut job.output);
            at += run;
        }
        Some(job.output)
    }
}

/// Appends `run` elements of the same type from `start` on.
fn copy(from: &Values<'_>, start: usize, run: usize, to: &mut Array) {
    macro_rules! same {
        ($($variant:ident)*) => {
            match (from, to) {
                $((Values::$variant(from), Array::$variant(to)) => to.extend_from_slice(&from[start..start + run]),)*
                (from, to) => {
                    let mut numbers = vec![0.0f64; run];
                    f64::load(from, start, 1, &mut numbers);
                    f64::store(&numbers, to);
                }
            }
        };
    }
    same!(F32 F16 BF16 F64 I64 I32 I16 I8 U64 U32 U16 U8 Bool);
}
