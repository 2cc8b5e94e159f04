//! A range of outputs that is to be computed.

use crate::tensor::array::{Array, Values};
use crate::tensor::number::Number;
use crate::tensor::view::View;
use std::ops::Range;

/// Elements that are read, computed and written at a time: they stay in the nearest cache.
pub(crate) const TILE: usize = 1024;

/// Range of outputs to compute, the inputs, and the stop flag.
pub(crate) struct Job<'a> {
    pub(crate) inputs: &'a [Values<'a>],
    pub(crate) range: Range<usize>,
    /// Gets the outputs of the range, in order.
    pub(crate) output: Array,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// The outputs, or `None` if the job was stopped.
pub(crate) type Outputs = Option<Array>;

impl Job<'_> {
    /// The range in pieces of at most [`TILE`].
    pub(crate) fn tiles(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let end = self.range.end;
        self.range.clone().step_by(TILE).map(move |start| start..end.min(start + TILE))
    }

    pub(crate) fn stopped(&self) -> bool {
        (self.stop)()
    }

    pub(crate) fn push<T: Number>(&mut self, numbers: &[T]) {
        T::store(numbers, &mut self.output);
    }

    /// All of an input.
    pub(crate) fn singles(&self, input: usize) -> Vec<f32> {
        let len = self.inputs[input].len();
        let mut singles = vec![0.0; len];
        self.load(input, &View::dense(&[len]), 0, &mut singles);
        singles
    }

    /// Reads elements of input `input` as `view` sees it.
    pub(crate) fn load<T: Number>(&self, input: usize, view: &View, first: usize, to: &mut [T]) {
        view.load(&self.inputs[input], 0, first, to);
    }
}

/// Calls `$body` with the type that a domain computes with as `$name`.
macro_rules! with_domain {
    ($domain:expr, $name:ident => $body:expr) => {
        match $domain {
            $crate::tensor::element::Domain::F32 => {
                type $name = f32;
                $body
            }
            $crate::tensor::element::Domain::F64 => {
                type $name = f64;
                $body
            }
            $crate::tensor::element::Domain::I64 => {
                type $name = i64;
                $body
            }
            $crate::tensor::element::Domain::U64 => {
                type $name = u64;
                $body
            }
        }
    };
}
pub(crate) use with_domain;
