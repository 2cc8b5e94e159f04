//! Small encoders against plain loops over the same tensors, and what the large ones are made of.

use super::by_name::{TEXT_NAMES, build_text};
use super::encoder::Encoder;
use super::names::{self, Names, Pooled};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::model::seeded::Seeded;
use crate::model::tensor::{Kind, TensorSpec};
use crate::model::tensors::Tensors;
use crate::run::constants::TensorWeights;
use crate::run::network::Network;
use crate::tensors::builder::Builder;
use reef_conformance::Null;
use reef_op::tensor::Array;

const SEED: Seeded = Seeded(5);
const TEXTS: usize = 2;
const TOKENS: usize = 5;
const WIDTH: usize = 16;
const HEADS: usize = 2;
const INNER: usize = 24;
const IDS: [i64; TEXTS * TOKENS] = [3, 1, 10, 0, 7, 9, 9, 2, 4, 5];
const MASK: [i64; TEXTS * TOKENS] = [1, 1, 1, 0, 0, 1, 1, 1, 1, 0];

fn tiny(names: Names, segments: usize) -> Encoder {
    Encoder {
        names,
        vocabulary: 11,
        positions: 9,
        segments,
        layers: 2,
        heads: HEADS,
        width: WIDTH,
        inner: INNER,
        classes: 3,
    }
}

/// Rows of numbers.
type Rows = Vec<Vec<f64>>;

fn tensor(module: &str, part: &str, elements: usize, kind: Kind) -> Vec<f64> {
    let name = format!("{module}.{part}");
    SEED.make_tensor(&TensorSpec { name, elements, kind }).into_iter().map(f64::from).collect()
}

fn table(module: &str, row: usize, rows: usize) -> Vec<f64> {
    let all = tensor(module, "weight", rows * WIDTH, Kind::Weight { fan_in: 1 });
    all[row * WIDTH..][..WIDTH].to_vec()
}

fn linear(module: &str, x: &Rows, outputs: usize) -> Rows {
    let fan_in = x[0].len();
    let weight = tensor(module, "weight", outputs * fan_in, Kind::Weight { fan_in });
    let bias = tensor(module, "bias", outputs, Kind::Bias);
    let output = |row: &Vec<f64>, k: usize| {
        bias[k] + (0..fan_in).map(|j| row[j] * weight[k * fan_in + j]).sum::<f64>()
    };
    x.iter().map(|row| (0..outputs).map(|k| output(row, k)).collect()).collect()
}

fn norm(module: &str, x: &Rows) -> Rows {
    let gain = tensor(module, "weight", WIDTH, Kind::Gain);
    let shift = tensor(module, "bias", WIDTH, Kind::Bias);
    let row = |row: &Vec<f64>| {
        let mean = row.iter().sum::<f64>() / WIDTH as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
        let root = (variance + 1e-12).sqrt();
        (0..WIDTH).map(|k| (row[k] - mean) / root * gain[k] + shift[k]).collect()
    };
    x.iter().map(row).collect()
}

fn add(a: &Rows, b: &Rows) -> Rows {
    let sum = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
    a.iter().zip(b).map(sum).collect()
}

/// Attention over the rows of one text.
fn attend([q, k, v]: [&Rows; 3], mask: &[i64]) -> Rows {
    let columns = WIDTH / HEADS;
    let mut seen = vec![vec![0.0; WIDTH]; TOKENS];
    for head in 0..HEADS {
        let own = head * columns..(head + 1) * columns;
        for i in 0..TOKENS {
            let score = |j: usize| own.clone().map(|c| q[i][c] * k[j][c]).sum::<f64>();
            let power =
                |j| if mask[j] == 0 { 0.0 } else { (score(j) / (columns as f64).sqrt()).exp() };
            let sum: f64 = (0..TOKENS).map(power).sum();
            for c in own.clone() {
                seen[i][c] = (0..TOKENS).map(|j| power(j) / sum * v[j][c]).sum();
            }
        }
    }
    seen
}

fn gelu(x: f64) -> f64 {
    // The integral of the bell curve by Simpson's rule: another way than the kernels go.
    let bell = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (steps, width) = (2000, x / 2000.0);
    let weight = |k: usize| if k == 0 || k == steps { 1.0 } else { 2.0 + 2.0 * (k % 2) as f64 };
    let area: f64 = (0..=steps).map(|k| weight(k) * bell(k as f64 * width)).sum();
    x * (0.5 + area * width / 3.0)
}

/// Logits of one text.
fn reference(encoder: &Encoder, ids: &[i64], mask: &[i64]) -> Vec<f64> {
    let names = encoder.names;
    let module = |part: &str| format!("{}.{part}", names.embeddings);
    let token = |(place, &id): (usize, &i64)| {
        let mut x = vec![table(&module("word_embeddings"), id as usize, encoder.vocabulary)];
        let place = table(&module("position_embeddings"), place, encoder.positions);
        x = add(&x, &vec![place]);
        if encoder.segments > 0 {
            x = add(&x, &vec![table(&module("token_type_embeddings"), 0, encoder.segments)]);
        }
        x.remove(0)
    };
    let mut x = norm(&module("LayerNorm"), &ids.iter().enumerate().map(token).collect());
    for layer in 0..encoder.layers {
        let module = |part: &str| format!("{}.{layer}.{part}", names.layer);
        let [q, k, v] =
            [names.query, names.key, names.value].map(|part| linear(&module(part), &x, WIDTH));
        let mixed = linear(&module(names.mix), &attend([&q, &k, &v], mask), WIDTH);
        x = norm(&module(names.mix_norm), &add(&mixed, &x));
        let mut inner = linear(&module(names.expand), &x, INNER);
        inner.iter_mut().flatten().for_each(|x| *x = gelu(*x));
        x = norm(&module(names.norm), &add(&linear(&module(names.contract), &inner, WIDTH), &x));
    }
    let mut pooled = linear(names.pool, &vec![x.remove(0)], WIDTH);
    pooled[0].iter_mut().for_each(|x| match names.pooled {
        Pooled::Tanh => *x = x.tanh(),
        Pooled::Relu => *x = x.max(0.0),
    });
    linear("classifier", &pooled, encoder.classes).remove(0)
}

#[test]
fn logits_are_those_of_plain_loops() {
    for (names, segments) in [(names::BERT, 2), (names::DISTILBERT, 0)] {
        let encoder = tiny(names, segments);
        let ledger = Ledger::new(&Budget::default());
        let tensors = Tensors::Seeded(SEED);
        let model = encoder.build("tiny", [TEXTS, TOKENS], tensors, Builder::new(&ledger)).unwrap();
        let made = model.execute(&[IDS, MASK].map(|input| Array::I64(input.into()))).unwrap();
        let Array::F32(logits) = &made[0] else { panic!("{made:?}") };
        let rows = 0..TEXTS;
        let rows = rows.map(|text| text * TOKENS..(text + 1) * TOKENS);
        let want: Vec<f64> =
            rows.flat_map(|row| reference(&encoder, &IDS[row.clone()], &MASK[row])).collect();
        let close = |(&made, want): (&f32, &f64)| (f64::from(made) - want).abs() < 1e-5;
        assert!(logits.len() == want.len(), "{logits:?} {want:?}");
        assert!(logits.iter().zip(&want).all(close), "{logits:?} {want:?}");
    }
}

#[test]
fn a_device_without_kernels_refuses_by_the_name_of_a_layer() {
    let ledger = Ledger::new(&Budget::default());
    let (encoder, tensors) = (tiny(names::BERT, 2), Tensors::Seeded(SEED));
    let model = encoder.build("tiny", [TEXTS, TOKENS], tensors, Builder::new(&ledger)).unwrap();
    let device = Null::computing(|_, _, _| {});
    let weights = TensorWeights::upload(&device, &model, None).unwrap();
    let said = Network::of_tensors(&device, &model, &weights).unwrap_err().to_string();
    assert!(said.starts_with("node \"bert.embeddings.word_embeddings\": "), "{said}");
    assert!(said.contains("no kernel for gather"), "{said}");
}

/// As the transformers library counts them: 109,483,778 and 66,955,010.
#[test]
fn base_sizes_have_their_parameters_and_take_tokens() {
    for (name, parameters) in TEXT_NAMES.iter().zip([109_483_778, 66_955_010]) {
        let model = build_text(name, None, 1, Tensors::Seeded(SEED)).unwrap();
        // But for the numbers of positions, and of the segment.
        let indices = model.parameters() - parameters;
        assert_eq!(indices, if *name == "bert" { 129 } else { 128 }, "{name}");
        let inputs: Vec<_> =
            model.inputs.iter().map(|port| (port.name.as_str(), port.spec.to_string())).collect();
        assert_eq!(inputs[0].0, "input_ids");
        assert_eq!(inputs[1].0, "attention_mask");
        assert_eq!(model.outputs[0].spec.dims, [1, 2]);
    }
    let said = build_text("bert", Some(513), 1, Tensors::Seeded(SEED)).unwrap_err().to_string();
    assert_eq!(said, "bert: tokens 513, possible are 1 to 512");
}

#[test]
fn tensors_of_a_file_must_all_be_there() {
    let read = Tensors::Read(Default::default());
    let said = build_text("distilbert", Some(4), 1, read).unwrap_err().to_string();
    assert_eq!(said, "distilbert: no tensor \"distilbert.embeddings.word_embeddings.weight\"");
}
