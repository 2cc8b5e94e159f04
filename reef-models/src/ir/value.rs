//! Values of a network, and how each is made.

use crate::memory::budget::Exhausted;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use reef_op::{Function, PoolKind, Window};

/// A value's position in its network.
pub(crate) type Id = usize;

/// A window over one pixel.
pub(crate) const POINT: Window = Window { size: [1; 2], stride: [1; 2], padding: [0; 2] };

/// Bytes that a step takes besides its weights: its names, its operation and its storage, in the
/// network and in the schedule that it becomes.
pub(crate) const STEP: u64 = 8 << 10;
/// Bytes of the longest name, so that a parameter's fits its file.
pub(super) const MAX_NAME_LEN: usize = 240;

/// Values in the order in which they are made.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(super) values: Vec<Value>,
}

/// One tensor.
#[derive(Debug)]
pub(crate) struct Value {
    /// Name of the step that makes it. It need not be unique.
    pub(crate) name: String,
    /// Batch, channels, rows and columns.
    pub(crate) shape: [usize; 4],
    pub(crate) make: Make,
}

/// Origin of a value: the input, or an operation with its operands.
#[derive(Debug)]
pub(crate) enum Make {
    /// It is given: the network's input.
    Input,
    Conv(Conv),
    Affine(Affine),
    Pool {
        x: Id,
        kind: PoolKind,
        window: Window,
    },
    /// Negative values become zero.
    Relu {
        x: Id,
    },
    Add {
        a: Id,
        b: Id,
    },
    /// A function of each value.
    Activate {
        x: Id,
        function: Function,
    },
    /// The factor is as large as `x`, or has one row and column.
    Multiply {
        x: Id,
        factor: Id,
    },
    /// Channels of all, one after the other.
    Concat {
        parts: List<Id>,
    },
}

/// A convolution; a fully connected layer is one whose window is the whole image.
#[derive(Debug)]
pub(crate) struct Conv {
    pub(crate) x: Id,
    pub(crate) window: Window,
    pub(crate) groups: usize,
    /// As `reef_op::Conv2d` orders them.
    pub(crate) weights: List<f32>,
    /// One for each output channel.
    pub(crate) bias: List<f32>,
    /// Added before ReLU.
    pub(crate) residual: Option<Id>,
    pub(crate) relu: bool,
    /// Of each value in the end.
    pub(crate) function: Option<Function>,
}

/// A factor and a summand for each channel.
#[derive(Debug)]
pub(crate) struct Affine {
    pub(crate) x: Id,
    pub(crate) scale: List<f64>,
    pub(crate) shift: List<f64>,
    pub(crate) relu: bool,
}

impl Value {
    /// A value whose step is called `name`, or as much of it as a parameter's name may take.
    pub(crate) fn new(name: &str, shape: [usize; 4], make: Make) -> Self {
        let mut end = name.len().min(MAX_NAME_LEN);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Self { name: name[..end].into(), shape, make }
    }
}

impl Make {
    /// Values that it is made from.
    pub(super) fn operands(&self) -> impl Iterator<Item = Id> + '_ {
        let (pair, parts): ([Option<Id>; 2], &[Id]) = match self {
            Self::Input => ([None; 2], &[]),
            Self::Conv(conv) => ([Some(conv.x), conv.residual], &[]),
            Self::Affine(Affine { x, .. })
            | Self::Pool { x, .. }
            | Self::Relu { x }
            | Self::Activate { x, .. } => ([Some(*x), None], &[]),
            Self::Add { a, b } | Self::Multiply { x: a, factor: b } => ([Some(*a), Some(*b)], &[]),
            Self::Concat { parts } => ([None; 2], parts),
        };
        pair.into_iter().flatten().chain(parts.iter().copied())
    }
}

impl Net {
    /// Appends a value, whose operands are there already.
    pub(crate) fn push(&mut self, value: Value) -> Id {
        debug_assert!(value.make.operands().all(|operand| operand < self.values.len()));
        self.values.push(value);
        self.values.len() - 1
    }

    pub(crate) fn make_mut(&mut self, id: Id) -> &mut Make {
        &mut self.values[id].make
    }

    pub(crate) fn value(&self, id: Id) -> &Value {
        &self.values[id]
    }

    /// Number of uses of each value on the way to `output`, which counts as a use itself. 0 if it
    /// is never used.
    pub(super) fn uses(&self, output: Id) -> Vec<usize> {
        let mut uses = vec![0; self.values.len()];
        uses[output] = 1;
        for id in (0..=output).rev() {
            if uses[id] > 0 {
                self.values[id].make.operands().for_each(|operand| uses[operand] += 1);
            }
        }
        uses
    }
}

impl Affine {
    /// One scale and shift for all channels.
    pub(crate) fn uniform(
        x: Id,
        channels: usize,
        scale: f64,
        shift: f64,
        ledger: &Ledger,
    ) -> Result<Self, Exhausted> {
        let all = |value| List::filled(value, channels, ledger);
        Ok(Self { x, scale: all(scale)?, shift: all(shift)?, relu: false })
    }

    /// First this, then `next`.
    pub(super) fn then(&mut self, next: &Self) {
        for (i, (scale, shift)) in self.scale.iter_mut().zip(&mut *self.shift).enumerate() {
            *scale *= next.scale[i];
            *shift = *shift * next.scale[i] + next.shift[i];
        }
        self.relu = next.relu;
    }
}

impl Conv {
    /// One whose sums nothing happens to.
    pub(crate) fn plain(
        x: Id,
        window: Window,
        groups: usize,
        weights: List<f32>,
        bias: List<f32>,
    ) -> Self {
        Self { x, window, groups, weights, bias, residual: None, relu: false, function: None }
    }

    /// A convolution that changes nothing, for what only convolutions can do.
    pub(super) fn identity(x: Id, channels: usize, ledger: &Ledger) -> Result<Self, Exhausted> {
        let weights = List::filled(1.0, channels, ledger)?;
        Ok(Self::plain(x, POINT, channels, weights, List::filled(0.0, channels, ledger)?))
    }

    /// Returns whether its sums are its results: nothing is added, no function follows.
    pub(super) fn is_plain(&self) -> bool {
        self.residual.is_none() && !self.relu && self.function.is_none()
    }

    /// First this, which is plain, then `next`.
    pub(super) fn then(&mut self, next: &Affine) {
        let per_output = self.weights.len() / self.bias.len();
        let rows = self.weights.chunks_exact_mut(per_output).zip(&mut *self.bias);
        for (i, (row, bias)) in rows.enumerate() {
            let (scale, shift) = (next.scale[i], next.shift[i]);
            row.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * scale) as f32);
            *bias = (f64::from(*bias) * scale + shift) as f32;
        }
        self.relu = next.relu;
    }
}
