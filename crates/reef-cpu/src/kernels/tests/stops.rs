//! Blocks against the contract of preemption.

use super::case::{Case, floats, run_block};
use super::reference::Random;
use super::table::table;
use crate::kernel::{EVICT, Kernel, Outcome, RESET, RUN};
use crate::kernels::blocks::stop_token::stop_at_poll;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

#[test]
fn a_stopped_block_writes_nothing_and_runs_again() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        let before = floats(&case.output.buffer).to_vec();
        let (stop, mut scratch) = (AtomicU8::new(RESET), vec![f32::NAN; 1 << 16]);
        for (kernel, blocks) in &case.kernels {
            for index in 0..*blocks {
                let outcome = run_block(kernel, index, &stop, &mut scratch);
                assert_eq!(outcome, Outcome::Stopped, "{op:?}");
            }
        }
        assert_eq!(before, floats(&case.output.buffer), "{op:?}");
        case.run();
        case.check();
    }
}

#[test]
fn a_block_stopped_midway_writes_nothing_and_runs_again() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        let undisturbed = Case::new(op, &mut Random::new(i as u64));
        undisturbed.run();
        for (kernel, blocks) in &case.kernels {
            for index in 0..*blocks {
                interrupt_everywhere(&case, kernel, index);
            }
        }
        let bits = |case: &Case| floats(&case.output.buffer).map_bits();
        assert_eq!(bits(&case), bits(&undisturbed), "{op:?}");
    }
}

/// Stops a block at its first, second, … poll of the stop word, until it gets through.
fn interrupt_everywhere(case: &Case, kernel: &Kernel, index: u32) {
    let mut scratch = Vec::new();
    for polls in 1.. {
        let before = floats(&case.output.buffer).map_bits();
        let outcome =
            stop_at_poll(polls, || run_block(kernel, index, &AtomicU8::new(RUN), &mut scratch));
        if outcome == Outcome::Done {
            return;
        }
        assert_eq!(before, floats(&case.output.buffer).map_bits(), "{:?}", case.op);
    }
}

trait Bits {
    fn map_bits(&self) -> Vec<u32>;
}

impl Bits for [f32] {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|value| value.to_bits()).collect()
    }
}

#[test]
fn an_evicted_block_runs_to_its_end() {
    for op in table() {
        let case = Case::new(op, &mut Random::new(1));
        let (stop, mut scratch) = (AtomicU8::new(EVICT), Vec::new());
        for (kernel, blocks) in &case.kernels {
            for index in 0..*blocks {
                assert_eq!(run_block(kernel, index, &stop, &mut scratch), Outcome::Done);
            }
        }
        case.check();
    }
}

#[test]
fn blocks_of_a_launch_run_on_several_units_at_once() {
    for (i, op) in table().into_iter().enumerate() {
        let case = Case::new(op, &mut Random::new(i as u64));
        for (kernel, blocks) in &case.kernels {
            let (next, stop) = (AtomicU32::new(0), AtomicU8::new(RUN));
            let unit = || {
                let mut scratch = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= *blocks {
                        return;
                    }
                    run_block(kernel, index, &stop, &mut scratch);
                }
            };
            std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(unit))));
        }
        case.check();
    }
}

#[test]
fn scratch_memory_does_not_grow_after_the_first_block() {
    for op in table() {
        let case = Case::new(op, &mut Random::new(1));
        let (stop, mut scratch) = (AtomicU8::new(RUN), Vec::new());
        for (kernel, blocks) in &case.kernels {
            run_block(kernel, blocks - 1, &stop, &mut scratch);
            let len = scratch.len();
            for index in 0..*blocks {
                run_block(kernel, index, &stop, &mut scratch);
            }
            assert_eq!(len, scratch.len(), "{op:?}");
        }
    }
}
