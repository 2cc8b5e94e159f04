//! Finds `x / 2 * (1 + erf(x / √2))`, which files hold as five terms, in a formula.

use reef_op::tensor::{Binary, Scalar, Term, Unary};
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// Largest error of constants in files.
const NEAR: f64 = 1e-6;

/// A step of a formula.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Term(Term),
    /// GELU of an earlier step.
    Gelu(usize),
    /// No later term reads it.
    Unused,
}

/// The steps of `terms`: what only makes a GELU is unused.
pub(super) fn steps(terms: &[Term]) -> Vec<Step> {
    let mut steps: Vec<Step> = terms.iter().copied().map(Step::Term).collect();
    for (k, step) in steps.iter_mut().enumerate() {
        if let Some(x) = Terms(terms).gelu(k) {
            *step = Step::Gelu(x);
        }
    }
    let mut read = vec![false; terms.len()];
    if let Some(last) = read.last_mut() {
        *last = true;
    }
    for k in (0..terms.len()).rev() {
        match steps[k] {
            _ if !read[k] => steps[k] = Step::Unused,
            Step::Gelu(x) => read[x] = true,
            Step::Term(Term::Unary(_, a)) => read[a] = true,
            Step::Term(Term::Binary(_, a, b)) => [a, b].iter().for_each(|&k| read[k] = true),
            Step::Term(Term::Select(a, b, c)) => [a, b, c].iter().for_each(|&k| read[k] = true),
            Step::Term(_) | Step::Unused => {}
        }
    }
    steps
}

struct Terms<'a>(&'a [Term]);

impl Terms<'_> {
    /// The term that term `k` is the GELU of.
    fn gelu(&self, k: usize) -> Option<usize> {
        // Three factors in any order: x, a half, and 1 + erf(x / √2).
        let [a, b] = self.product(k)?;
        let splits = [(a, b), (b, a)].into_iter().filter_map(|(whole, last)| {
            let [c, d] = self.product(whole)?;
            Some([c, d, last])
        });
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        splits.flat_map(|of| orders.map(|order| order.map(|k| of[k]))).find_map(|[x, half, sum]| {
            let is = self.is(half, 0.5) && self.one_and_error(sum)? == x;
            is.then_some(x)
        })
    }

    /// The term `x` of `1 + erf(x / √2)`.
    fn one_and_error(&self, k: usize) -> Option<usize> {
        let Term::Binary(Binary::Add, a, b) = self.0[k] else { return None };
        let (_, error) = [(a, b), (b, a)].into_iter().find(|(one, _)| self.is(*one, 1.0))?;
        let Term::Unary(Unary::Erf, scaled) = self.0[error] else { return None };
        match self.0[scaled] {
            Term::Binary(Binary::Div, x, root) => self.is(root, SQRT_2).then_some(x),
            Term::Binary(Binary::Mul, a, b) => [(a, b), (b, a)]
                .into_iter()
                .find(|(_, factor)| self.is(*factor, FRAC_1_SQRT_2))
                .map(|(x, _)| x),
            _ => None,
        }
    }

    fn product(&self, k: usize) -> Option<[usize; 2]> {
        match self.0[k] {
            Term::Binary(Binary::Mul, a, b) => Some([a, b]),
            _ => None,
        }
    }

    fn is(&self, k: usize, number: f64) -> bool {
        match self.0[k] {
            Term::Scalar(Scalar::Real(real)) => (real - number).abs() < NEAR,
            Term::Scalar(Scalar::Whole(whole)) => whole as f64 == number,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GELU as networks have it: the half in front or behind, its root as a divisor or a factor.
    fn terms(half_last: bool, divided: bool) -> Vec<Term> {
        use Binary::{Add, Div, Mul};
        let real = |number| Term::Scalar(Scalar::Real(number));
        let scaled = if divided {
            [real(f64::from(SQRT_2 as f32)), Term::Binary(Div, 0, 1)]
        } else {
            [real(f64::from(FRAC_1_SQRT_2 as f32)), Term::Binary(Mul, 1, 0)]
        };
        let sum = [Term::Unary(Unary::Erf, 2), real(1.0), Term::Binary(Add, 3, 4), real(0.5)];
        let product = if half_last {
            [Term::Binary(Mul, 0, 5), Term::Binary(Mul, 7, 6)]
        } else {
            [Term::Binary(Mul, 6, 0), Term::Binary(Mul, 5, 7)]
        };
        [&[Term::Input(0)][..], &scaled, &sum, &product].concat()
    }

    #[test]
    fn a_gelu_is_one_step_however_it_is_written() {
        for (half_last, divided) in [(false, false), (false, true), (true, false), (true, true)] {
            let made = steps(&terms(half_last, divided));
            assert!(matches!(made[8], Step::Gelu(0)), "{made:?}");
            assert!(made[1..8].iter().all(|step| matches!(step, Step::Unused)), "{made:?}");
        }
    }

    #[test]
    fn gelu_read_elsewhere_or_with_other_numbers_stays() {
        let mut others = terms(true, true);
        others.push(Term::Binary(Binary::Add, 8, 3));
        let made = steps(&others);
        assert!(matches!(made[8], Step::Gelu(0)) && matches!(made[3], Step::Term(_)), "{made:?}");
        let mut other = terms(true, true);
        other[6] = Term::Scalar(Scalar::Real(0.4));
        assert!(steps(&other).iter().all(|step| matches!(step, Step::Term(_))));
    }
}
