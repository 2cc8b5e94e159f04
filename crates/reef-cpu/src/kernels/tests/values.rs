//! Outputs of operators, compared with their definitions.

use super::case::{Case, floats, position};
use super::drawn::{random_conv, random_depthwise, random_pointwise, random_pool};
use super::ops::{native, pool, window};
use super::reference::{Random, indices};
use super::table::table;
use reef_op::{Op, PoolKind};

#[test]
fn odd_shapes_give_what_the_definition_says() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        case.run();
        case.check();
    }
}

/// Puts `value` at a few places.
fn sprinkle(value: f32) -> impl Fn(&mut [f32], &mut Random) {
    move |values, random| {
        for _ in 0..values.len().min(3) {
            values[random.below(values.len())] = value;
        }
    }
}

/// NaN stays NaN, in just those outputs that are made from it: no ReLU, bound or maximum makes a
/// number of it.
#[test]
fn nan_in_gives_nan_out_and_nowhere_else() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::of(op, &mut Random::new(i as u64), sprinkle(f32::NAN));
        assert!(case.want.iter().any(|value| value.is_nan()), "no NaN is expected: {op:?}");
        case.run();
        case.check();
    }
}

/// Activations and pools have values for infinities too; a sum of products may have none.
#[test]
fn infinities_give_what_the_definition_says() {
    for (i, op) in table().into_iter().enumerate() {
        for value in [f32::INFINITY, f32::NEG_INFINITY] {
            let case = Case::of(op, &mut Random::new(i as u64), sprinkle(value));
            case.run();
            case.check();
        }
    }
}

/// Four million values near 1000, added up one after the other, would give 2 % less.
#[test]
fn means_of_large_images_are_exact() {
    for (channels, size) in [(1, 2048), (3, 300), (70, 65)] {
        let whole = window([size; 2], [1, 1], [0, 0]);
        let op = Op::Pool2d(pool(PoolKind::Average, native([1, channels, size, size]), whole));
        let near = |values: &mut [f32], _: &mut Random| {
            values.iter_mut().for_each(|value| *value += 1000.0);
        };
        let case = Case::of(op, &mut Random::new(size as u64), near);
        case.run();
        for (index, want) in indices(op.output()).zip(&case.want) {
            let have = floats(&case.output.buffer)[16 + position(op.output(), index)];
            let off = (f64::from(have) - want).abs() / want;
            assert!(off < 2e-6, "{size}: {have}, not {want}: off by {off:.1e}");
        }
    }
}

#[test]
fn random_shapes_give_what_the_definition_says() {
    for seed in 0..250 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let op = match seed % 5 {
            0 => random_pool(&mut random),
            1 => random_pointwise(&mut random),
            2 => random_depthwise(&mut random),
            _ => random_conv(&mut random),
        };
        let case = Case::new(op, &mut random);
        case.run();
        case.check();
    }
}
