//! Steps around one formula that look at rows alone: what they are of a row, and how they see each
//! other.

use super::readers::Readers;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Domain, Element, FoldKind, Kind, Spec, View};
use std::collections::{HashMap, HashSet};

/// Result of a step on rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Makes {
    /// An element for each of all rows.
    Elements,
    /// One for each row.
    OneOfARow,
}

/// Number of rows, and elements of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) width: usize,
}

impl Rows {
    /// Rows that a formula makes.
    pub(super) fn of(step: &TensorStep) -> Option<Self> {
        let width = *step.op.output.dims.last()?;
        let rows = Self { count: step.op.output.elements().checked_div(width)?, width };
        (width > 1 && rows.makes(step) == Some(Makes::Elements)).then_some(rows)
    }

    /// Result of `step` on rows, if it does nothing else.
    pub(super) fn makes(self, step: &TensorStep) -> Option<Makes> {
        let output = &step.op.output;
        if output.element != Element::F32 {
            return None;
        }
        match &step.op.kind {
            Kind::Map(map) if map.domain == Domain::F32 => match output.elements() {
                all if all == self.count * self.width => {
                    (output.dims.last() == Some(&self.width)).then_some(Makes::Elements)
                }
                rows if rows == self.count => Some(Makes::OneOfARow),
                _ => None,
            },
            Kind::Fold(fold) => {
                use FoldKind::{Max, Min, Sum, SumSquares};
                let known = match fold.kind {
                    Sum | SumSquares => fold.domain == Domain::F64,
                    Max | Min => fold.domain == Domain::F32,
                    _ => false,
                };
                let rows = View { dims: vec![self.count], strides: vec![self.width] }.merged();
                let row = View { dims: vec![self.width], strides: vec![1] };
                let input = &step.op.inputs[0];
                let all = input.element == Element::F32
                    && input.elements() == self.count * self.width
                    && fold.kept.merged() == rows
                    && fold.folded.merged() == row;
                (known && all).then_some(Makes::OneOfARow)
            }
            _ => None,
        }
    }

    /// Returns whether `reader` sees its operand as it is. `what` has the results of both.
    pub(super) fn sees(self, reader: &TensorStep, seen: &Spec, what: [Makes; 2]) -> bool {
        if matches!(reader.op.kind, Kind::Fold(_)) {
            return what[1] == Makes::Elements;
        }
        let view = View::broadcast(&seen.dims, &reader.op.output.dims).map(|view| view.merged());
        let want = match what {
            [Makes::Elements, Makes::OneOfARow] => {
                View { dims: vec![self.count, self.width], strides: vec![1, 0] }
            }
            [made, seen] if made == seen => View::dense(&[reader.op.output.elements()]),
            _ => return false,
        };
        view == Some(want.merged())
    }
}

/// Maximum number of steps of a cluster, which bounds the depth to which they are followed.
const MAX_STEPS: usize = 64;

/// The steps that `last` can take in, by what they write: they make rows, are seen as they are, and
/// no other step reads them.
pub(super) fn cluster<'a>(
    rows: Rows,
    last: (usize, &'a TensorStep),
    makers: &HashMap<usize, (usize, &'a TensorStep)>,
    readers: &Readers,
) -> HashMap<usize, &'a TensorStep> {
    let mut outside: HashSet<usize> = HashSet::new();
    loop {
        let mut found: HashMap<usize, (usize, &TensorStep)> = HashMap::new();
        let mut open = vec![last.1];
        while let Some(reader) = open.pop() {
            let Some(makes) = rows.makes(reader) else { continue };
            for (read, seen) in reader.reads.iter().zip(&reader.op.inputs) {
                let Some(&(at, maker)) = makers.get(read).filter(|_| !outside.contains(read))
                else {
                    continue;
                };
                match rows.makes(maker) {
                    Some(made) if rows.sees(reader, seen, [makes, made]) => {
                        if found.insert(*read, (at, maker)).is_none() {
                            open.push(maker);
                        }
                        if found.len() > MAX_STEPS {
                            return HashMap::new(); // more than a kernel's formula could hold
                        }
                    }
                    _ => {
                        outside.insert(*read);
                    }
                }
            }
        }
        let inside: HashSet<usize> = found.values().map(|(at, _)| *at).chain([last.0]).collect();
        let alone = |storage: &usize| readers.all(*storage).iter().all(|k| inside.contains(k));
        let shared: Vec<usize> = found
            .keys()
            .copied()
            .filter(|storage| !alone(storage) || outside.contains(storage))
            .collect();
        if shared.is_empty() {
            return found.into_iter().map(|(storage, (_, step))| (storage, step)).collect();
        }
        outside.extend(shared);
    }
}
