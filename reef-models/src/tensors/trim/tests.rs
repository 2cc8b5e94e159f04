//! Networks that read a part of a result, compared with ones that give all of it.

use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::tensors::axes::Result;
use crate::tensors::builder::Builder;
use crate::tensors::model::TensorModel;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Element, Spec, Unary};

const TOKENS: usize = 6;
const WIDTH: usize = 8;

/// The network that makes places `places` of axis 1 of what `layer` makes of `[1, TOKENS, WIDTH]`,
/// and all of that, if `whole`.
fn model(
    layer: impl Fn(&mut Builder<'_>, &Value) -> Result<Value>,
    places: &[usize],
    whole: bool,
) -> TensorModel {
    let ledger = Ledger::new(&Budget::default());
    let mut b = Builder::new(&ledger);
    let x = b.input("x", Spec { element: Element::F32, dims: vec![1, TOKENS, WIDTH] }).unwrap();
    let made = layer(&mut b, &x).unwrap();
    let part = b.pick_axis(&made, 1, places.to_vec()).unwrap();
    let part = b.reshape(&part, vec![places.len() * WIDTH]).unwrap();
    let all = whole.then(|| ("all".to_owned(), made));
    b.finish("m", [("part".to_owned(), part)].into_iter().chain(all).collect()).unwrap()
}

fn weights(b: &Builder<'_>, seed: usize) -> Value {
    let values = (0..WIDTH * WIDTH).map(|k| ((k * 7 + seed) as f32).sin()).collect();
    b.constant(vec![WIDTH, WIDTH], Array::F32(values)).unwrap()
}

fn linear(b: &mut Builder<'_>, x: &Value, seed: usize) -> Result<Value> {
    let bias = b.constant(vec![WIDTH], Array::F32(vec![0.25; WIDTH]))?;
    let product = b.matmul(x, &weights(b, seed))?;
    b.binary(Binary::Add, &product, &bias)
}

/// Two heads of attention and a layer behind it, with residuals and a normalisation.
fn layer(b: &mut Builder<'_>, x: &Value) -> Result<Value> {
    let heads = |b: &mut Builder<'_>, seed: usize| -> Result<Value> {
        let made = linear(b, x, seed)?;
        let split = b.reshape(&made, vec![1, TOKENS, 2, WIDTH / 2])?;
        b.transpose(&split, &[0, 2, 1, 3])
    };
    let [q, k, v] = [heads(b, 1)?, heads(b, 2)?, heads(b, 3)?];
    let k = b.transpose(&k, &[0, 1, 3, 2])?;
    let scores = b.matmul(&q, &k)?;
    let weights = b.softmax(&scores, &[3], false)?;
    let sums = b.matmul(&weights, &v)?;
    let joined = b.transpose(&sums, &[0, 2, 1, 3])?;
    let joined = b.reshape(&joined, vec![1, TOKENS, WIDTH])?;
    let y = linear(b, &joined, 4)?;
    let y = b.binary(Binary::Add, &y, x)?;
    let [normal, ..] = b.standardise(&y, &[2], 1e-5)?;
    let z = linear(b, &normal, 5)?;
    let z = b.map(z.element(), &[&z], |w| {
        let x = w.input(0);
        w.un(Unary::Abs, x)
    })?;
    b.binary(Binary::Add, &y, &z)
}

/// Elements that all steps of a network make.
fn elements(model: &TensorModel) -> usize {
    model.steps.iter().map(|step| step.op.output.elements()).sum()
}

fn input() -> Array {
    Array::F32((0..TOKENS * WIDTH).map(|k| (k as f32 * 0.7).cos()).collect())
}

#[test]
fn places_that_are_read_have_the_bits_of_the_whole() {
    for places in [&[0][..], &[3], &[5], &[1, 4], &[4, 1, 1], &[0, 1, 2, 3, 4]] {
        let [part, whole] = [false, true].map(|whole| model(layer, places, whole));
        let have = part.execute(&[input()]).unwrap();
        let want = whole.execute(&[input()]).unwrap();
        assert_eq!(have[0], want[0], "{places:?}");
    }
}

#[test]
fn only_places_that_are_read_are_made() {
    let [part, whole] = [false, true].map(|whole| elements(&model(layer, &[0], whole)));
    // Keys and values of all tokens are left, each once by its product and once by its heads' move.
    assert!(part < whole / 2 && part >= 4 * TOKENS * WIDTH, "{part} of {whole}");
    let many = elements(&model(layer, &[0, 1, 2, 3], false));
    assert!(many + TOKENS * WIDTH >= whole, "{many} of {whole}: most are read");
}

#[test]
fn results_that_others_read_too_stay_whole() {
    let both = |b: &mut Builder<'_>, x: &Value| {
        let y = linear(b, x, 1)?;
        let last = b.pick_axis(&y, 1, vec![TOKENS - 1])?;
        b.binary(Binary::Sub, &y, &last)
    };
    let model = model(both, &[0], false);
    let product = model.steps.iter().find(|step| step.op.name() == "contract");
    let output = &product.expect("a product").op.output;
    assert_eq!(output.elements(), TOKENS * WIDTH, "the first and the last are different parts");
}

#[test]
fn constants_are_not_taken_apart_at_each_inference() {
    let placed = |b: &mut Builder<'_>, x: &Value| {
        let all = (0..TOKENS * WIDTH).map(|k| k as f32).collect();
        let places = b.constant(vec![1, TOKENS, WIDTH], Array::F32(all))?;
        b.binary(Binary::Mul, x, &places)
    };
    let model = model(placed, &[2], false);
    let constants: Vec<usize> = model.constants.iter().map(|(storage, _)| *storage).collect();
    let moves = model.steps.iter().filter(|step| step.op.name() == "move");
    assert!(moves.clone().count() == 1, "the part itself");
    assert!(moves.flat_map(|step| &step.reads).all(|read| !constants.contains(read)));
}

#[test]
fn two_results_may_be_the_same_place() {
    let ledger = Ledger::new(&Budget::default());
    let mut b = Builder::new(&ledger);
    let x = b.input("x", Spec { element: Element::F32, dims: vec![1, TOKENS, WIDTH] }).unwrap();
    let made = layer(&mut b, &x).unwrap();
    let first = b.pick_axis(&made, 1, vec![0]).unwrap();
    let used = b.binary(Binary::Add, &first, &first).unwrap();
    let second = b.pick_axis(&made, 1, vec![0]).unwrap();
    let later = b.binary(Binary::Mul, &first, &second).unwrap();
    let outputs = [("first", first), ("second", second), ("used", used), ("later", later)];
    let outputs = outputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let have = b.finish("m", outputs).unwrap().execute(&[input()]).unwrap();
    let want = model(layer, &[0], true).execute(&[input()]).unwrap();
    let values = |array: &Array| -> Vec<f32> {
        let Array::F32(values) = array else { panic!("singles") };
        values.clone()
    };
    let (first, want) = (values(&have[0]), values(&want[0]));
    assert_eq!([&first, &values(&have[1])], [&want, &want]);
    assert_eq!(values(&have[2]), want.iter().map(|x| x + x).collect::<Vec<_>>());
    assert_eq!(values(&have[3]), want.iter().map(|x| x * x).collect::<Vec<_>>());
}

#[test]
fn part_of_an_input_is_one_move() {
    let model = model(|_, x| Ok(x.clone()), &[2], false);
    assert_eq!(model.steps.len(), 1);
    let Array::F32(all) = input() else { panic!("singles") };
    let want = vec![Array::F32(all[2 * WIDTH..3 * WIDTH].to_vec())];
    assert_eq!(model.execute(&[input()]).unwrap(), want);
}
