//! Steps of a network of tensors, and operations that several of them share: layers repeat.

use reef_op::tensor::{Kind, Map, Scalar, TensorOp, Term};
use std::collections::VecDeque;
use std::sync::Arc;

/// One operation of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorStep {
    /// Of the node that it belongs to.
    pub name: String,
    /// Its operation.
    pub op: Arc<TensorOp>,
    /// Storages that it reads, in the operation's order.
    pub reads: Vec<usize>,
    /// The storage that it fills.
    pub writes: usize,
}

/// Operations that a new one is compared with.
const MAX_RECENT: usize = 32;

/// Operations of the last steps, the newest first.
#[derive(Default)]
pub(super) struct Recent(VecDeque<Arc<TensorOp>>);

impl Recent {
    /// `op`, or the recent one that is the same.
    pub(super) fn share(&mut self, op: TensorOp) -> Arc<TensorOp> {
        if let Some(same) = self.0.iter().find(|recent| is_same(recent, &op)) {
            return same.clone();
        }
        let op = Arc::new(op);
        self.0.truncate(MAX_RECENT - 1);
        self.0.push_front(op.clone());
        op
    }
}

/// Returns whether two operations are the same to the last bit. Kinds that it does not know never
/// are.
pub(super) fn is_same(a: &TensorOp, b: &TensorOp) -> bool {
    let are_exact = match (&a.kind, &b.kind) {
        // Zeros of both signs are equal.
        (Kind::Map(a), Kind::Map(b)) => numbers(a).eq(numbers(b)),
        (Kind::Move(a), Kind::Move(b)) => bits(a.fill) == bits(b.fill),
        (Kind::Contract(_), Kind::Contract(_)) | (Kind::Fold(_), Kind::Fold(_)) => true,
        (Kind::Concat(_), Kind::Concat(_)) | (Kind::Scan(_), Kind::Scan(_)) => true,
        (Kind::Gather(_), Kind::Gather(_)) | (Kind::TopK(_), Kind::TopK(_)) => true,
        (Kind::Suppress(_), Kind::Suppress(_)) => true,
        _ => false,
    };
    are_exact && a == b
}

/// Bits of a formula's numbers.
fn numbers(map: &Map) -> impl Iterator<Item = u64> + '_ {
    map.formula.0.iter().filter_map(|term| match *term {
        Term::Scalar(number) => Some(bits(number)),
        _ => None,
    })
}

fn bits(number: Scalar) -> u64 {
    match number {
        Scalar::Real(number) => number.to_bits(),
        Scalar::Whole(number) => number as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Binary, Domain, Element, Formula, Move, NOWHERE, Spec};

    /// `max(x, bound)` of `len` numbers.
    fn bounded(bound: f64, len: usize) -> TensorOp {
        let terms = vec![
            Term::Input(0),
            Term::Scalar(Scalar::Real(bound)),
            Term::Binary(Binary::Max, 0, 1),
        ];
        let kind = Kind::Map(Map { formula: Formula(terms), domain: Domain::F32 });
        let spec = Spec { element: Element::F32, dims: vec![len] };
        TensorOp { kind, inputs: vec![spec.clone()], output: spec }
    }

    /// A number, and `fill` behind it.
    fn padded(fill: Scalar) -> TensorOp {
        let kind = Kind::Move(Move { tables: vec![vec![0, NOWHERE]], fill });
        let spec = |len| Spec { element: Element::F32, dims: vec![len] };
        TensorOp { kind, inputs: vec![spec(1)], output: spec(2) }
    }

    #[test]
    fn equal_operations_are_one_and_others_are_not() {
        let mut recent = Recent::default();
        let first = recent.share(bounded(0.0, 4));
        let other = recent.share(bounded(0.0, 5));
        assert!(Arc::ptr_eq(&first, &recent.share(bounded(0.0, 4))));
        assert!(!Arc::ptr_eq(&first, &other));
        let negative = recent.share(bounded(-0.0, 4));
        assert_eq!(first, negative, "as numbers");
        assert!(!Arc::ptr_eq(&first, &negative), "1 / -0 is another number than 1 / 0");
        let zeros = [0.0, 0.0, -0.0].map(|zero| recent.share(padded(Scalar::Real(zero))));
        assert!(Arc::ptr_eq(&zeros[0], &zeros[1]) && !Arc::ptr_eq(&zeros[0], &zeros[2]));
    }

    #[test]
    fn recent_operations_are_few() {
        let mut recent = Recent::default();
        let first = recent.share(bounded(0.0, 1));
        (2..=MAX_RECENT).for_each(|len| drop(recent.share(bounded(0.0, len))));
        assert!(Arc::ptr_eq(&first, &recent.share(bounded(0.0, 1))));
        recent.share(bounded(0.0, MAX_RECENT + 1));
        assert!(!Arc::ptr_eq(&first, &recent.share(bounded(0.0, 1))));
        assert_eq!(recent.0.len(), MAX_RECENT);
    }
}
