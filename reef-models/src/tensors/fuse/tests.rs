use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::tensors::builder::Builder;
use crate::tensors::model::TensorModel;
use crate::tensors::value::Value;
use proptest::prelude::*;
use reef_op::tensor::{Array, Binary, Element, FoldKind, Kind, Spec, Term, Unary};

/// Writes a network and gives what its values are.
type Write<'a> = &'a dyn Fn(&mut Builder<'_>, &Value) -> Vec<Value>;

/// The network that `write` writes over an input of `dims` singles. Each value is an output if
/// `all` is so, and else the last one alone.
fn model(dims: &[usize], write: Write<'_>, all: bool) -> TensorModel {
    let ledger = Ledger::new(&Budget::new(1 << 30));
    let mut b = Builder::new(&ledger);
    let x = b.input("x", Spec { element: Element::F32, dims: dims.to_vec() }).unwrap();
    let values = write(&mut b, &x);
    let kept = if all { values.len() } else { 1 };
    let outputs = values.into_iter().rev().take(kept).enumerate();
    b.finish("m", outputs.map(|(k, value)| (format!("y{k}"), value)).collect()).unwrap()
}

/// Number of steps with and without intermediate values, after both gave the same bits.
fn steps(dims: &[usize], write: Write<'_>) -> [usize; 2] {
    let [plain, fused] = [true, false].map(|all| model(dims, write, all));
    let count: usize = dims.iter().product();
    let x = Array::F32((0..count).map(|i| i as f32 * 0.37 - 2.0).collect());
    let [want, have] =
        [&plain, &fused].map(|model| model.execute(std::slice::from_ref(&x)).unwrap());
    assert_eq!(format!("{:?}", want[0]), format!("{:?}", have[0]));
    [plain.steps().len(), fused.steps().len()]
}

#[test]
fn a_chain_is_one_step() {
    let write: Write<'_> = &|b, x| {
        let bias = b.constant(vec![4], Array::F32(vec![0.5, -1.0, 2.0, 0.25])).unwrap();
        let sum = b.binary(Binary::Add, x, &bias).unwrap();
        let gelu = b.map(Element::F32, &[&sum], |w| {
            let x = w.input(0);
            w.gelu(x)
        });
        let gelu = gelu.unwrap();
        let shorter = b.reshape(&gelu, vec![12]).unwrap();
        let square = b.binary(Binary::Mul, &shorter, &shorter).unwrap();
        vec![sum, gelu, square]
    };
    // With a reshape between: `bias` is broadcast to rows that the reader doesn't see, so it stays
    // in front.
    assert_eq!(steps(&[3, 4], write), [3, 2]);
}

#[test]
fn ways_that_meet_again_are_one_step() {
    let write: Write<'_> = &|b, x| {
        let shared = b.unary(Unary::Exp, x).unwrap();
        let [left, right] = [Unary::Sqrt, Unary::Neg].map(|f| b.unary(f, &shared).unwrap());
        let sum = b.binary(Binary::Add, &left, &right).unwrap();
        vec![shared, left, right, sum]
    };
    assert_eq!(steps(&[5], write), [4, 1]);
}

#[test]
fn value_with_another_reader_stays() {
    let write: Write<'_> = &|b, x| {
        let shared = b.unary(Unary::Exp, x).unwrap();
        let sum = b.fold_axes(&shared, &[0], FoldKind::Sum).unwrap();
        let share = b.binary(Binary::Div, &shared, &sum).unwrap();
        vec![shared, sum, share]
    };
    assert_eq!(steps(&[5], write), [3, 3]);
}

#[test]
fn rounded_value_stays() {
    let write: Write<'_> = &|b, x| {
        let half = b.cast(x, Element::F16).unwrap();
        let single = b.cast(&half, Element::F32).unwrap();
        vec![half, single]
    };
    assert_eq!(steps(&[5], write), [2, 2]);
}

#[test]
fn formulas_stay_short() {
    let write: Write<'_> = &|b, x| {
        let mut values = vec![x.clone()];
        for _ in 0..100 {
            values.push(b.with_number(Binary::Add, values.last().unwrap(), 1.0).unwrap());
        }
        values.split_off(1)
    };
    let fused = model(&[5], write, false);
    let terms = fused.steps().iter().map(|step| match &step.op.kind {
        Kind::Map(map) => map.formula.0.len(),
        other => panic!("{other:?}"),
    });
    assert!(terms.max() <= Some(super::formulas::TERMS));
    assert_eq!(steps(&[5], write), [100, 7]);
}

#[test]
fn known_numbers_are_terms_and_small_powers_products() {
    let write: Write<'_> = &|b, x| {
        let three = b.constant(vec![1, 1], Array::F32(vec![3.0])).unwrap();
        vec![b.binary(Binary::Pow, x, &three).unwrap()]
    };
    let made = model(&[5], write, false);
    let [step] = made.steps() else { panic!("{:?}", made.steps()) };
    let Kind::Map(map) = &step.op.kind else { panic!("{step:?}") };
    let pow = |term: &Term| matches!(term, Term::Binary(Binary::Pow, ..));
    assert!(step.reads.len() == 1 && !map.formula.0.iter().any(pow), "{map:?}");
    let x = Array::F32(vec![-2.0, -0.5, 0.0, 1.5, 10.0]);
    let want = vec![-8.0, -0.125, 0.0, 3.375, 1000.0];
    assert_eq!(made.execute(&[x]).unwrap(), [Array::F32(want)]);
}

/// An operation, and the two of the values so far that it works on.
type Choice = (u8, prop::sample::Index, prop::sample::Index);

fn apply(b: &mut Builder<'_>, values: &[Value], choice: &Choice) -> Value {
    let (what, x, y) = choice;
    let (x, y) = (x.get(values), y.get(values));
    let flat = |b: &mut Builder<'_>| b.reshape(x, vec![x.spec.elements()]);
    let made = match what % 9 {
        0 => b.binary(Binary::Add, x, y),
        1 => b.binary(Binary::Max, x, y),
        2 => b.unary(Unary::Neg, x),
        3 => b.cast(x, Element::F16).and_then(|half| b.cast(&half, Element::F32)),
        4 => flat(b),
        5 => b.constant(vec![3, 1], Array::F32(vec![1.0, -0.5, 3.0])),
        _ => b
            .map(Element::Bool, &[x, y], |w| {
                let (x, y) = (w.input(0), w.input(1));
                w.bin(Binary::Less, x, y)
            })
            .and_then(|less| {
                b.map(Element::F32, &[&less, x, y], |w| {
                    let (less, x, y) = (w.input(0), w.input(1), w.input(2));
                    w.select(less, x, y)
                })
            }),
    };
    // Sizes that don't fit each other make nothing.
    made.unwrap_or_else(|_| x.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_network_of_formulas_gives_the_same_bits(
        choices in prop::collection::vec(any::<Choice>(), 1..12),
    ) {
        let write: Write<'_> = &|b, x| {
            let mut values = vec![x.clone()];
            for choice in &choices {
                values.push(apply(b, &values, choice));
            }
            values.split_off(1)
        };
        let [plain, fused] = steps(&[3, 4], write);
        prop_assert!(fused <= plain);
    }
}
