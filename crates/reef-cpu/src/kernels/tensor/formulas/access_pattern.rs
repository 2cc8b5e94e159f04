//! Access patterns: how a formula reads an input for each of its outputs.

use reef_op::tensor::{Element, Spec, View};

/// Value of an earlier term.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand<'a> {
    /// A value for each output.
    Each(&'a [f32]),
    /// One value for all of them.
    All(f32),
}

/// An input of singles, broadcast to the outputs.
#[derive(Debug)]
pub(super) enum AccessPattern {
    /// One element for each output.
    Whole,
    /// Repeated after this number of elements.
    Repeated(usize),
    /// Each for this number of outputs.
    Stretched(usize),
    /// Any other access.
    View(View),
}

impl AccessPattern {
    /// `None` if `input` doesn't hold singles that can be broadcast to `output`.
    pub(super) fn of(input: &Spec, output: &Spec) -> Option<Self> {
        let view = View::broadcast(&input.dims, &output.dims)?.merged();
        if input.element != Element::F32 {
            return None;
        }
        Some(match (&*view.dims, &*view.strides) {
            ([_], [1]) => Self::Whole,
            (&[_, inner], [0, 1]) => Self::Repeated(inner),
            (&[_, inner], [1, 0]) => Self::Stretched(inner),
            _ => Self::View(view),
        })
    }

    /// Elements that the outputs from `first` on read: the elements themselves if they lie in one
    /// piece or are all the same one; else copies of them, in `to`.
    pub(super) fn load<'a>(
        &self,
        from: &'a [f32],
        first: usize,
        to: &mut [f32],
    ) -> Option<Operand<'a>> {
        let len = to.len();
        match *self {
            Self::Whole => Some(Operand::Each(&from[first..first + len])),
            Self::Repeated(inner) if first % inner + len <= inner => {
                Some(Operand::Each(&from[first % inner..][..len]))
            }
            Self::Stretched(inner) if first % inner + len <= inner => {
                Some(Operand::All(from[first / inner]))
            }
            Self::Repeated(inner) => {
                let mut at = 0;
                while at < len {
                    let place = (first + at) % inner;
                    let run = (inner - place).min(len - at);
                    to[at..at + run].copy_from_slice(&from[place..place + run]);
                    at += run;
                }
                None
            }
            Self::Stretched(inner) => {
                let mut at = 0;
                while at < len {
                    let run = (inner - (first + at) % inner).min(len - at);
                    to[at..at + run].fill(from[(first + at) / inner]);
                    at += run;
                }
                None
            }
            Self::View(ref view) => copy(from, view, first, to),
        }
    }
}

fn copy<'a>(from: &'a [f32], view: &View, first: usize, to: &mut [f32]) -> Option<Operand<'a>> {
    let (mut at, step) = (0, view.step());
    for (start, run) in view.runs(first, to.len()) {
        if run == to.len() && step == 1 {
            return Some(Operand::Each(&from[start..start + run]));
        }
        if run == to.len() && step == 0 {
            return Some(Operand::All(from[start]));
        }
        let to = &mut to[at..at + run];
        match step {
            0 => to.fill(from[start]),
            1 => to.copy_from_slice(&from[start..start + run]),
            _ => to.iter_mut().enumerate().for_each(|(i, to)| *to = from[start + i * step]),
        }
        at += run;
    }
    None
}
