//! Finds `(x - mean) / √(variance + ε)`, which is a dozen terms, in a formula of rows.

use reef_op::tensor::{Binary, FoldKind, RowTerm, Term, Unary};

/// A step of a formula of rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowStep {
    Row(RowTerm),
    /// An earlier step, less its mean, by the root of its variance and this number.
    Standard(usize, f32),
    /// No later term reads it.
    Unused,
}

/// The steps of `terms` over rows of `width` elements: what only standardises a row is unused.
pub(super) fn steps(terms: &[RowTerm], width: usize) -> Vec<RowStep> {
    let terms = Terms { terms, width: width as f64 };
    let all = 0..terms.terms.len();
    let step = |k: usize| match terms.standard(k) {
        Some((x, epsilon)) => RowStep::Standard(x, epsilon),
        None => RowStep::Row(terms.terms[k]),
    };
    let mut steps: Vec<RowStep> = all.clone().map(step).collect();
    let mut read = vec![false; steps.len()];
    if let Some(last) = read.last_mut() {
        *last = true;
    }
    for k in all.rev() {
        let reads = match steps[k] {
            _ if !read[k] => {
                steps[k] = RowStep::Unused;
                [None; 3]
            }
            RowStep::Standard(x, _) | RowStep::Row(RowTerm::Fold(_, x)) => [Some(x), None, None],
            RowStep::Row(RowTerm::Element(term)) => match term {
                Term::Unary(_, a) => [Some(a), None, None],
                Term::Binary(_, a, b) => [Some(a), Some(b), None],
                Term::Select(a, b, c) => [Some(a), Some(b), Some(c)],
                Term::Input(_) | Term::Scalar(_) => [None; 3],
            },
            RowStep::Unused => [None; 3],
        };
        reads.into_iter().flatten().for_each(|k| read[k] = true);
    }
    steps
}

struct Terms<'a> {
    terms: &'a [RowTerm],
    width: f64,
}

impl Terms<'_> {
    /// The term that term `k` is the standardised row of, and the number added to its variance.
    fn standard(&self, k: usize) -> Option<(usize, f32)> {
        let [centred, inverse] = self.binary(k, Binary::Mul)?;
        let [x, mean] = self.binary(centred, Binary::Sub)?;
        let of_mean = self.mean(mean, FoldKind::Sum)?;
        let [one, root] = self.binary(inverse, Binary::Div)?;
        let RowTerm::Element(Term::Unary(Unary::Sqrt, sum)) = self.terms[root] else { return None };
        let [variance, epsilon] = self.binary(sum, Binary::Add)?;
        let of_variance = self.mean(variance, FoldKind::SumSquares)?;
        let fits = of_mean == x && of_variance == centred && self.number(one)? == 1.0;
        fits.then_some((x, self.number(epsilon)? as f32))
    }

    /// The term that term `k` is the mean of, or the mean of whose squares.
    fn mean(&self, k: usize, kind: FoldKind) -> Option<usize> {
        let [sum, count] = self.binary(k, Binary::Div)?;
        match self.terms[sum] {
            RowTerm::Fold(of, x) if of == kind && self.number(count)? == self.width => Some(x),
            _ => None,
        }
    }

    fn binary(&self, k: usize, kind: Binary) -> Option<[usize; 2]> {
        self.terms[k].binary(kind)
    }

    fn number(&self, k: usize) -> Option<f64> {
        self.terms[k].number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::Scalar;

    /// A row of eight, standardised, as networks have it.
    fn terms() -> Vec<RowTerm> {
        use RowTerm::{Element, Fold};
        let real = |number| Element(Term::Scalar(Scalar::Real(number)));
        let of = |kind, a, b| Element(Term::Binary(kind, a, b));
        vec![
            Element(Term::Input(0)),
            Fold(FoldKind::Sum, 0),
            real(8.0),
            of(Binary::Div, 1, 2),
            of(Binary::Sub, 0, 3),
            Fold(FoldKind::SumSquares, 4),
            of(Binary::Div, 5, 2),
            real(1e-5),
            of(Binary::Add, 6, 7),
            Element(Term::Unary(Unary::Sqrt, 8)),
            real(1.0),
            of(Binary::Div, 10, 9),
            of(Binary::Mul, 4, 11),
        ]
    }

    #[test]
    fn a_standardised_row_is_one_step() {
        let made = steps(&terms(), 8);
        assert!(matches!(made[12], RowStep::Standard(0, _)), "{made:?}");
        assert!(made[1..12].iter().all(|step| matches!(step, RowStep::Unused)), "{made:?}");
    }

    #[test]
    fn mean_of_another_row_is_none_and_term_read_elsewhere_stays() {
        assert!(steps(&terms(), 9).iter().all(|step| matches!(step, RowStep::Row(_))));
        let mut others = terms();
        others.push(RowTerm::Element(Term::Binary(Binary::Add, 12, 3)));
        let made = steps(&others, 8);
        assert!(matches!(made[12], RowStep::Standard(..)), "{made:?}");
        assert!(matches!(made[3], RowStep::Row(_)) && matches!(made[4], RowStep::Unused));
    }
}
