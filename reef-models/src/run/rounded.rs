//! Activations that are rounded where they are written, because all their readers round them.

use crate::model::image_model::{ImageModel, Layer};
use reef_op::rounding::{Rounded, Rounding};
use reef_op::{Operators, Tensor};
use std::collections::HashSet;

/// Storages that a step reads, the one it writes, and its rounding.
type Use<'a> = (&'a [usize], usize, Rounding);

/// Numbers of each step that are rounded; those of 8 bits are that in any case.
pub(crate) fn rounded<D: Operators>(device: &D, model: &ImageModel) -> Vec<Rounded> {
    device.foresee(&model.layers().iter().map(|layer| &layer.op).collect::<Vec<_>>());
    let steps = model.graph().steps.iter().zip(model.layers());
    let uses: Vec<Use<'_>> = steps
        .map(|(step, layer)| (&step.reads[..], step.writes, device.rounding(&layer.op)))
        .collect();
    let storages = storages(&uses);
    let is_float = |tensor: &Tensor| tensor.layout.quantized().is_none();
    let of = |((reads, writes, _), layer): (&Use<'_>, &Layer)| Rounded {
        input: storages.contains(&reads[0]) && is_float(layer.op.input()),
        output: storages.contains(writes) && is_float(layer.op.output()),
    };
    uses.iter().zip(model.layers()).map(of).collect()
}

/// Storages that have writers and readers, and that each of these treats as it must: writers round,
/// readers do it first of all, or they only pass on what is rounded on their other side as well.
/// The storage that the last step writes is the network's output, which others read too.
fn storages(uses: &[Use<'_>]) -> HashSet<usize> {
    let read: HashSet<usize> = uses.iter().map(|(reads, ..)| reads[0]).collect();
    let written = uses.iter().map(|&(_, writes, _)| writes);
    let mut rounded: HashSet<usize> = written.filter(|storage| read.contains(storage)).collect();
    if let Some((_, output, _)) = uses.last() {
        rounded.remove(output);
    }
    loop {
        let count = rounded.len();
        for (reads, to, rounding) in uses {
            if !(rounding.input || rounding.keeps && rounded.contains(to)) {
                rounded.remove(&reads[0]);
            }
            if !(rounding.output || rounding.keeps && rounded.contains(&reads[0])) {
                rounded.remove(to);
            }
            for other in &reads[1..] {
                rounded.remove(other);
            }
        }
        if rounded.len() == count {
            return rounded;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONV: Rounding = Rounding { input: true, output: true, keeps: false };
    const POOL: Rounding = Rounding { input: false, output: false, keeps: true };
    const LINEAR: Rounding = Rounding { input: false, output: false, keeps: false };

    fn found(uses: &[Use<'_>]) -> Vec<usize> {
        let mut found: Vec<_> = storages(uses).into_iter().collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn storage_is_rounded_if_convolutions_alone_read_it() {
        let block: [Use<'_>; 4] =
            [(&[0], 1, CONV), (&[1], 2, CONV), (&[2, 1], 3, CONV), (&[3], 4, LINEAR)];
        assert_eq!(found(&block), [2], "0 comes from outside, 1 is a residual, 3 goes to another");
    }

    #[test]
    fn maxima_pass_on_what_is_rounded_on_both_sides() {
        let through = |last| found(&[(&[0], 1, CONV), (&[1], 2, POOL), (&[2], 3, last)]);
        assert_eq!(through(CONV), [1, 2]);
        assert_eq!(through(LINEAR), [0; 0]);
        assert_eq!(found(&[(&[0], 1, LINEAR), (&[1], 2, POOL), (&[2], 3, CONV)]), [0; 0]);
    }

    #[test]
    fn output_that_a_convolution_reads_is_not_rounded() {
        assert_eq!(found(&[(&[0], 1, CONV), (&[1], 2, CONV), (&[2], 1, CONV)]), [2]);
    }

    #[test]
    fn of_a_storage_with_several_writers_all_have_to_round() {
        let joined = |second| found(&[(&[0], 1, CONV), (&[0], 1, second), (&[1], 2, CONV)]);
        assert_eq!(joined(CONV), [1]);
        assert_eq!(joined(LINEAR), [0; 0]);
    }
}
