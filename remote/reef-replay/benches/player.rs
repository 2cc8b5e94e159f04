//! Time of an operation at its thread, without a line: followed, recorded, and passed on.
//!
//! `cargo bench -p reef-replay`

use reef_replay::{Growth, Line, Numbers, Op, Player};
use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

/// Operations of a segment.
const OPS: usize = 300;
/// Segments of a measurement.
const SEGMENTS: u64 = 2000;

/// Line that takes everything and keeps nothing.
struct Nowhere;

impl Line for Nowhere {
    type Error = Infallible;

    fn plain(&mut self, op: &Op<'_>) -> Result<(), Infallible> {
        black_box(op);
        Ok(())
    }

    fn define(&mut self, _: u16, definition: &[u8]) -> Result<(), Infallible> {
        black_box(definition);
        Ok(())
    }

    fn advance(&mut self, growth: &Growth<'_>) -> Result<bool, Infallible> {
        black_box(growth);
        Ok(true)
    }
}

fn main() {
    measure("each operation as before", |_, _| 0);
    measure("one word of each operation changes", |segment, _| segment);
    measure("nothing repeats", |segment, at| if at == 0 { segment << 32 } else { 0 });
}

/// Launches with 5 parameters. `word` is one of them; its upper half goes into the shape.
fn measure(what: &str, word: impl Fn(u64, usize) -> u64) {
    let mut player = Player::new(Numbers::default());
    let mut line = Nowhere;
    let mut segment = |segment: u64| {
        for at in 0..OPS {
            let word = word(segment, at);
            let mut shape = [at as u8; 56];
            shape[..4].copy_from_slice(&((word >> 32) as u32).to_le_bytes());
            let mut words = [7_u8; 40];
            words[8..16].copy_from_slice(&(word & 0xffff_ffff).to_le_bytes());
            let op = Op { kind: 18, shape: &shape, words: &words, payload: &[] };
            player.issue(&op, &mut line).unwrap_or_else(|never| match never {});
        }
        player.wait(&mut line).unwrap_or_else(|never| match never {});
    };
    (0..10).for_each(&mut segment);
    let begin = Instant::now();
    (10..10 + SEGMENTS).for_each(&mut segment);
    let nanos = begin.elapsed().as_nanos() as f64 / (SEGMENTS * OPS as u64) as f64;
    println!("{what}: {nanos:.1} ns an operation");
}
