//! Storages that may have numbers of 8 bits.

use crate::model::image_model::ImageModel;
use reef_op::{Layout, Op, Quantization, Tensor};

/// A step as far as numbers of 8 bits are concerned.
#[derive(Debug, Clone, Copy)]
struct Use {
    input: usize,
    second: Option<Second>,
    writes: usize,
    allowed: Quantization,
}

/// The second storage that a step reads.
#[derive(Debug, Clone, Copy)]
enum Second {
    /// It is laid out like the output.
    Residual(usize),
    Factor(usize),
}

/// Storages of `model` that have numbers of 8 bits on a device whose kernels take what `allowed`
/// says. Each has the number of the storage that it shares its scale with, which is the first of
/// them.
pub(super) fn storages(
    model: &ImageModel,
    allowed: impl Fn(&Op) -> Quantization,
) -> Vec<Option<usize>> {
    let steps = model.graph().steps.iter().zip(model.layers());
    let uses: Vec<Use> = steps
        .map(|(step, layer)| Use {
            input: step.reads[0],
            second: step.reads.get(1).map(|&read| match layer.op {
                Op::Conv2d(_) => Second::Residual(read),
                _ => Second::Factor(read),
            }),
            writes: step.writes,
            allowed: allowed(&layer.op),
        })
        .collect();
    let possible = inner(model, &uses);
    groups(&uses, &settled(&uses, possible))
}

/// Storages between input and output, of tensors with the device's layout alone.
fn inner(model: &ImageModel, uses: &[Use]) -> Vec<bool> {
    let mut inner = vec![false; model.graph().storages.len()];
    for each in uses {
        inner[each.writes] = true;
    }
    if let Some(last) = uses.last() {
        inner[last.writes] = false;
    }
    for (step, layer) in model.graph().steps.iter().zip(model.layers()) {
        let tensors = [Some(layer.op.input()), layer.op.second(), Some(layer.op.output())];
        let storages = [Some(step.reads[0]), step.reads.get(1).copied(), Some(step.writes)];
        let is_native = |tensor: &Tensor| tensor.layout == Layout::Native;
        for (at, tensor) in storages.into_iter().zip(tensors).filter_map(|(a, b)| a.zip(b)) {
            inner[at] &= is_native(tensor);
        }
    }
    inner
}

/// Takes away storages until each writer, reader and residual agrees with those that are left.
fn settled(uses: &[Use], mut eight: Vec<bool>) -> Vec<bool> {
    loop {
        let before = eight.clone();
        for each in uses {
            let Use { input, writes, allowed, .. } = *each;
            eight[input] &= allowed.input || allowed.keeps && eight[writes];
            eight[writes] &= allowed.output || allowed.keeps && eight[input];
            match each.second {
                Some(Second::Residual(residual)) => {
                    let both = eight[residual] && eight[writes];
                    (eight[residual], eight[writes]) = (both, both);
                }
                Some(Second::Factor(factor)) => eight[factor] = false,
                None => {}
            }
        }
        if eight == before {
            return eight;
        }
    }
}

/// Numbers of the groups that share a scale.
fn groups(uses: &[Use], eight: &[bool]) -> Vec<Option<usize>> {
    let number = |(at, &eight): (usize, &bool)| eight.then_some(at);
    let mut groups: Vec<Option<usize>> = eight.iter().enumerate().map(number).collect();
    for Use { input, second, writes, allowed } in uses {
        let is_bound = allowed.keeps && !(allowed.input && allowed.output);
        if is_bound {
            join(&mut groups, *input, *writes);
        }
        if let Some(Second::Residual(residual)) = second {
            join(&mut groups, *residual, *writes);
        }
    }
    groups
}

/// Puts the groups of two storages together, if both have one.
fn join(groups: &mut [Option<usize>], a: usize, b: usize) {
    if let (Some(a), Some(b)) = (groups[a], groups[b]) {
        let all = groups.iter_mut().flatten().filter(|group| **group == a || **group == b);
        all.for_each(|group| *group = a.min(b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Quantization = Quantization { input: false, output: false, keeps: false };
    const CONV: Quantization = Quantization { input: true, output: true, keeps: false };
    const POOL: Quantization = Quantization { input: false, output: false, keeps: true };

    fn step(input: usize, writes: usize, allowed: Quantization) -> Use {
        Use { input, second: None, writes, allowed }
    }

    fn adding(input: usize, residual: usize, writes: usize) -> Use {
        Use { second: Some(Second::Residual(residual)), ..step(input, writes, CONV) }
    }

    /// Groups of storages of which the first is the input and the last the output.
    fn found(uses: &[Use]) -> Vec<Option<usize>> {
        let last = uses.last().unwrap().writes;
        let inner = (0..=last).map(|at| at > 0 && at < last).collect();
        groups(uses, &settled(uses, inner))
    }

    #[test]
    fn residual_has_the_scale_of_the_output() {
        let block = [step(0, 1, CONV), step(1, 2, CONV), adding(2, 1, 3), step(3, 4, CONV)];
        assert_eq!(found(&block), [None, Some(1), Some(2), Some(1), None]);
    }

    #[test]
    fn chain_of_residuals_ends_in_floats_with_its_last_reader() {
        let chain = [
            step(0, 1, CONV),
            step(1, 2, CONV),
            adding(2, 1, 3),
            step(3, 4, CONV),
            adding(4, 3, 5),
            step(5, 6, NONE),
        ];
        assert_eq!(found(&chain), [None, None, Some(2), None, Some(4), None, None]);
    }

    #[test]
    fn pool_ties_both_sides_or_leaves_both() {
        let through = |first, last| found(&[step(0, 1, first), step(1, 2, POOL), step(2, 3, last)]);
        assert_eq!(through(CONV, CONV), [None, Some(1), Some(1), None]);
        assert_eq!(through(CONV, NONE), [None; 4]);
        assert_eq!(through(NONE, CONV), [None; 4]);
    }

    #[test]
    fn storage_with_several_writers_needs_all_of_them() {
        let joined = |second| found(&[step(0, 1, CONV), step(0, 1, second), step(1, 2, CONV)]);
        assert_eq!(joined(CONV), [None, Some(1), None]);
        assert_eq!(joined(NONE), [None; 3]);
        let pooled = [step(0, 1, CONV), step(1, 2, POOL), step(1, 2, CONV), step(2, 3, CONV)];
        assert_eq!(found(&pooled), [None, Some(1), Some(1), None]);
    }

    #[test]
    fn factor_stays_as_it_is() {
        let factor = Use { second: Some(Second::Factor(1)), ..step(2, 3, NONE) };
        let uses = [step(0, 1, CONV), step(0, 2, CONV), factor, step(1, 4, CONV)];
        assert_eq!(found(&uses), [None; 5]);
    }
}
