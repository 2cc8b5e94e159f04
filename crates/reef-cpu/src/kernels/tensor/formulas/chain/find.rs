//! Chains in formulas, and what they make of values.

#[cfg(target_arch = "x86_64")]
use super::registers;
use super::steps::{ChainStep, Leaf, Link};
use crate::kernels::tensor::formulas::access_pattern::{AccessPattern, Operand};
use reef_op::tensor::Binary;

/// Most steps.
const STEPS: usize = 8;

/// A formula that is a chain.
#[derive(Debug)]
pub(in crate::kernels::tensor::formulas) struct Chain(Vec<(Link, Leaf)>);

impl Chain {
    /// `None` if `parts`, of which each reads earlier ones and the last one is the result, are not
    /// a chain, or this machine has no vectors for it.
    pub(in crate::kernels::tensor::formulas) fn of(parts: &[ChainStep]) -> Option<Self> {
        let leaf = |k: usize| match parts[k] {
            ChainStep::Leaf(leaf) => Some(leaf),
            _ => None,
        };
        let (mut last, mut links) = (None, Vec::new());
        for (k, part) in parts.iter().enumerate() {
            let (before, link) = match *part {
                ChainStep::Unused | ChainStep::Leaf(_) => continue,
                ChainStep::Start if last.is_none() => {
                    last = Some(k);
                    continue;
                }
                ChainStep::Unary(function, a) => (a, (Link::unary(function)?, Leaf::Number(0.0))),
                ChainStep::Gelu(a) => (a, (Link::Gelu, Leaf::Number(0.0))),
                ChainStep::Binary(function, a, b) => match (leaf(a), leaf(b)) {
                    (None, Some(leaf)) => (a, (Link::binary(function)?, leaf)),
                    (Some(leaf), None) if matches!(function, Binary::Add | Binary::Mul) => {
                        (b, (Link::binary(function)?, leaf))
                    }
                    _ => return None,
                },
                ChainStep::Start | ChainStep::Other => return None,
            };
            if last.replace(k) != Some(before) {
                return None;
            }
            links.push(link);
        }
        let is_last = last.is_some_and(|last| last + 1 == parts.len());
        let fits = is_last && links.len() <= STEPS && has_vectors();
        fits.then_some(Self(links))
    }

    /// Changes `values`, which are those of the outputs from `first` on. `input` gives the elements
    /// of an input, and `seen` says how they are read; `scratch` has as many floats as there are
    /// values for each of the inputs.
    pub(in crate::kernels::tensor::formulas) fn apply<'a>(
        &self,
        values: &mut [f32],
        first: usize,
        seen: &[AccessPattern],
        input: impl Fn(usize) -> &'a [f32],
        mut scratch: &mut [f32],
    ) {
        let mut links = [(Link::Abs, Operand::All(0.0)); STEPS];
        for (&(link, leaf), to) in self.0.iter().zip(&mut links) {
            let operand = match leaf {
                Leaf::Number(number) => Operand::All(number),
                Leaf::Input(k) => {
                    let (own, rest) = scratch.split_at_mut(values.len());
                    scratch = rest;
                    match seen[k].load(input(k), first, own) {
                        Some(operand) => operand,
                        None => Operand::Each(own),
                    }
                }
            };
            *to = (link, operand);
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has AVX-512, or there was no chain.
        unsafe {
            registers::apply(&links[..self.0.len()], values);
        }
    }
}

fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChainStep::{Gelu, Other, Start, Unused};

    const INPUT: ChainStep = ChainStep::Leaf(Leaf::Input(1));
    const TWO: ChainStep = ChainStep::Leaf(Leaf::Number(2.0));

    fn links(parts: &[ChainStep]) -> Option<Vec<(Link, Leaf)>> {
        Chain::of(parts).map(|chain| chain.0)
    }

    #[test]
    fn steps_one_after_the_other_are_a_chain() {
        if !has_vectors() {
            return reef_conformance::skip("no AVX-512");
        }
        let add = ChainStep::Binary(Binary::Add, 0, 1);
        let half = ChainStep::Binary(Binary::Div, 2, 4);
        let parts = [INPUT, Start, add, Unused, TWO, half, Gelu(5)];
        let want = [
            (Link::Add, Leaf::Input(1)),
            (Link::Div, Leaf::Number(2.0)),
            (Link::Gelu, Leaf::Number(0.0)),
        ];
        assert_eq!(links(&parts), Some(want.to_vec()));
        assert_eq!(links(&[Start]), Some(vec![]));
    }

    #[test]
    fn steps_that_read_others_than_the_last_are_no_chain() {
        let of = |function, a, b| ChainStep::Binary(function, a, b);
        for parts in [
            &[Start, of(Binary::Mul, 0, 0)][..],
            &[Start, INPUT, of(Binary::Sub, 1, 0)],
            &[Start, Gelu(0), TWO, of(Binary::Add, 0, 2)],
            &[Start, INPUT],
            &[Start, Start, of(Binary::Add, 0, 1)],
            &[Start, INPUT, of(Binary::Pow, 0, 1)],
            &[INPUT, TWO, of(Binary::Add, 0, 1)],
            &[Start, Other],
            &[],
        ] {
            assert_eq!(links(parts), None, "{parts:?}");
        }
        assert_eq!(links(&[vec![Start], (0..9).map(Gelu).collect()].concat()), None, "too long");
    }
}
