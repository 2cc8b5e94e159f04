//! Variants with preemption points, whose running blocks are thrown away at random, leave the
//! memory that their kernels leave.

use super::block::{Grid, Program};
use super::memory::Memory;
use super::variants::{
    Argument, Case, DATA, MAP, Random, STOP, blocks, launch, memory, plain, with_launch,
    with_words, word,
};
use crate::kernels;
use crate::text::module::Module;
use crate::variant::build::{Variant, guarded};
use crate::verdict::abandon::{PreemptionPoint, points};
use crate::verdict::facts::Facts;
use std::cell::{Cell, RefCell};

const SIMPLE_TEXT: &str = include_str!("../../tests/corpus/simple.ptx");
const LOOPS_TEXT: &str = include_str!("../../tests/corpus/looks.ptx");

const LINE: [u32; 3] = [6, 1, 1];
const THREADS: [u32; 3] = [32, 1, 1];

/// Kernels that may be thrown away, with their texts.
const CASES: &[(&str, Case)] = {
    use Argument::{Buffer, Number};
    &[
        (
            SIMPLE_TEXT,
            ("product", [1, 1, 1], [8, 8, 1], &[Buffer(0), Buffer(1), Buffer(2), Number(48)]),
        ),
        (SIMPLE_TEXT, ("iterate", LINE, THREADS, &[Buffer(0), Buffer(1), Number(9)])),
        (
            SIMPLE_TEXT,
            (
                "sum_by_last_block",
                LINE,
                THREADS,
                &[Buffer(0), Buffer(1), Buffer(3), Buffer(2), Number(190)],
            ),
        ),
        (
            LOOPS_TEXT,
            ("tiles_in_place", LINE, THREADS, &[Buffer(0), Buffer(1), Buffer(3), Number(9)]),
        ),
        (LOOPS_TEXT, ("nested", LINE, THREADS, &[Buffer(0), Buffer(1), Number(4)])),
        (LOOPS_TEXT, ("two_phases", LINE, THREADS, &[Buffer(0), Buffer(1), Number(6)])),
        (LOOPS_TEXT, ("alone_in_place", LINE, THREADS, &[Buffer(0), Number(7)])),
        (LOOPS_TEXT, ("alone_in_place", [4, 1, 1], [40, 1, 1], &[Buffer(0), Number(7)])),
    ]
};

/// Kernels that may not be.
const REFUSED: &[Case] = {
    use Argument::{Buffer, Number};
    &[
        ("early_return", LINE, THREADS, &[Buffer(0), Number(170), Number(9)]),
        ("without_first", LINE, THREADS, &[Buffer(0), Number(9)]),
        ("effect_of_one", LINE, THREADS, &[Buffer(0), Buffer(3), Number(9)]),
        ("one_after_the_other", LINE, THREADS, &[Buffer(0), Number(9)]),
        ("two_kinds", LINE, THREADS, &[Buffer(0), Buffer(3), Number(9)]),
    ]
};

/// Memory whose stop word changes at random.
struct Stopping<'r> {
    bytes: Vec<u8>,
    random: RefCell<&'r mut Random>,
    number: u32,
    /// One in this many loads stops; none if zero.
    chance: u64,
    loads: Cell<usize>,
}

impl Memory for Stopping<'_> {
    fn load(&self, at: usize, bytes: usize) -> [u8; 8] {
        if at != STOP {
            return self.bytes.load(at, bytes);
        }
        self.loads.set(self.loads.get() + 1);
        let is_stopped = self.chance > 0 && self.random.borrow_mut().below(self.chance) == 0;
        let word = self.number.wrapping_sub(u32::from(!is_stopped));
        u64::from(word).to_le_bytes()
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.bytes.store(at, bytes);
    }
}

/// Blocks that left at their entry, and those that were thrown away at a preemption point.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Stops {
    at_entry: usize,
    at_preemption_point: usize,
}

/// Runs a variant whose stop word changes at random, and resumes it until it is complete; `None` if
/// the words do not fit.
fn stopped(
    text: &str,
    variant: &Variant,
    case: &Case,
    start: &[u8],
    random: &mut Random,
) -> Option<(Vec<u8>, Stops)> {
    let &(name, grid, threads, arguments) = case;
    let module = Module::read(text).unwrap();
    let program = Program::read(&module, name);
    let mut left = Stops::default();
    let mut bytes = with_words(start);
    for round in 0..8 {
        let of = launch(round, grid, [0; 3]);
        let of_grid =
            Grid { blocks: grid, threads, parameters: with_launch(arguments, variant, of) };
        let order = blocks(grid, random);
        let chance = if round < 6 { 5 } else { 0 };
        let mut memory = Stopping {
            bytes: std::mem::take(&mut bytes),
            random: RefCell::new(&mut *random),
            number: of.number,
            chance,
            loads: Cell::new(0),
        };
        for block in order {
            memory.loads.set(0);
            let place = MAP + (block[1] * grid[0] + block[0]) as usize;
            let is_to_run = round == 0 || memory.bytes[place] == 1;
            program.run(&of_grid, block, &mut memory);
            let has_left = memory.bytes[place] != 0;
            left.at_entry += usize::from(is_to_run && has_left && memory.loads.get() == 1);
            left.at_preemption_point +=
                usize::from(is_to_run && has_left && memory.loads.get() > 1);
        }
        bytes = memory.bytes;
        let is_left = bytes[MAP..DATA].iter().any(|byte| *byte != 0);
        if is_left != (word(&bytes, of.left as usize) == of.number) {
            return None;
        }
        if !is_left {
            return Some((bytes[DATA..].to_vec(), left));
        }
    }
    None
}

/// A variant with preemption points at all places, or at those that are given.
fn variant_of(source: &str, name: &str, at: Option<&[&str]>) -> Variant {
    let module = Module::read(source).unwrap();
    let Some(opcodes) = at else {
        let kernel = kernels(&module).find(|kernel| kernel.name() == name).unwrap();
        return kernel.with_preemption_points().unwrap();
    };
    let facts = Facts::read(&module, module.function(name).unwrap()).unwrap();
    let is_given = |op: &usize| opcodes.contains(&facts.code.ops[*op].instruction.opcode);
    let all = facts.loops.cycles().iter().flatten().copied().filter(is_given);
    let is_barrier = |op: usize| facts.code.ops[op].instruction.base() == "bar";
    let all: Vec<PreemptionPoint> =
        all.map(|op| PreemptionPoint { op, is_barrier: is_barrier(op), round: 9999 }).collect();
    guarded(&facts, &all)
}

/// The text with a load of the stop word in each of a few rounds.
fn with_rounds(text: &str, rounds: usize) -> String {
    let begin = "\tand.b32 %reefk2, %reefk0, ";
    let mut parts = text.split(begin);
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (mask, rest) = part.split_once(';').unwrap();
        assert!(mask.parse::<usize>().is_ok());
        let new = rounds - 1;
        out += &format!("{begin}{new};{rest}");
    }
    out
}

/// Seeds and kernels whose memory is another one, and blocks that left. Ends when it has found
/// `enough` of them.
fn differing(
    change: impl Fn(&str) -> String,
    seeds: u64,
    enough: usize,
) -> (Vec<(u64, &'static str)>, Stops) {
    let (mut wrong, mut all) = (Vec::new(), Stops::default());
    for (source, case) in CASES {
        let variant = variant_of(source, case.0, None);
        for seed in 0..seeds {
            let mut random = Random(seed);
            let start = memory(&mut random);
            let text = with_rounds(&change(&variant.text), 1 << (seed % 3));
            match stopped(&text, &variant, case, &start, &mut random) {
                Some((memory, left)) if memory == plain(source, case, &start) => {
                    all.at_entry += left.at_entry;
                    all.at_preemption_point += left.at_preemption_point;
                }
                _ => wrong.push((seed, case.0)),
            }
            if wrong.len() == enough {
                return (wrong, all);
            }
        }
    }
    (wrong, all)
}

#[test]
fn thrown_away_blocks_leave_the_memory_of_their_kernel() {
    let (wrong, left) = differing(str::to_owned, 24, 99);
    assert_eq!(wrong, [], "seeds and kernels with other memory");
    println!("{left:?}");
    assert!(left.at_preemption_point > 500 && left.at_entry > 500, "{left:?}");
}

#[test]
fn each_kernel_is_thrown_away() {
    for (source, case) in CASES {
        let variant = variant_of(source, case.0, None);
        let text = with_rounds(&variant.text, 1);
        let of = |seed| {
            let mut random = Random(seed);
            let start = memory(&mut random);
            stopped(&text, &variant, case, &start, &mut random).unwrap().1.at_preemption_point
        };
        let count: usize = (0..8).map(of).sum();
        assert!(count > 0, "{}", case.0);
    }
}

#[test]
fn each_mutant_of_a_preemption_point_is_caught() {
    let last = |text: &str, old: &str, new: &str| {
        let (before, after) = text.rsplit_once(old).unwrap();
        format!("{before}{new}{after}")
    };
    let mutants: [(&str, &str, &str); 4] = [
        ("no byte in the map", "\tst.global.u8 [%reefd1], %reefh0;\n", ""),
        ("not said", "\tst.global.u32 [%reefd0], %reefr0;\n", ""),
        (
            "byte of another block",
            "\tadd.u64 %reefd1, %reefd0, %reefd1;\n",
            "\tadd.u64 %reefd1, %reefd0, 9;\n",
        ),
        ("the leader leaves no record", "\t@!%reefq1 ret;\n", "\tret;\n"),
    ];
    for (name, old, new) in mutants {
        let (wrong, _) = differing(|text| last(text, old, new), 5, 13);
        assert_eq!(wrong.len(), 13, "{name}");
    }
    // The verdict of each thread alone: the first one leaves, and the others go on.
    let alone = |text: &str| text.replace("bar.red.or.pred %reefq0, 0, %reefq0;", "bar.sync 0;");
    let (wrong, _) = differing(alone, 5, 13);
    assert_eq!(wrong.len(), 13, "verdict of each thread");
}

#[test]
fn preemption_point_at_refused_op_changes_memory() {
    let module = Module::read(LOOPS_TEXT).unwrap();
    let refused = REFUSED.iter().map(|case| {
        let facts = Facts::read(&module, module.function(case.0).unwrap()).unwrap();
        assert!(points(&facts).is_err(), "{}", case.0);
        let at = if case.0 == "one_after_the_other" { "mad.lo.s32" } else { "bar.sync" };
        (case, at)
    });
    // The second loop of this one comes behind an effect.
    let late = CASES.iter().find(|case| case.1.0 == "two_phases").unwrap();
    for (case, at) in refused.chain([(&late.1, "bar.sync")]) {
        let variant = variant_of(LOOPS_TEXT, case.0, Some(&[at]));
        assert!(variant.points > 0, "{}", case.0);
        let text = with_rounds(&variant.text, 1);
        let is_other = |seed: &u64| {
            let mut random = Random(*seed);
            let start = memory(&mut random);
            let found = stopped(&text, &variant, case, &start, &mut random);
            found.is_none_or(|(memory, _)| memory != plain(LOOPS_TEXT, case, &start))
        };
        let others = (0..32).filter(is_other).count();
        assert!(others > 8, "{}: {others} of 32", case.0);
    }
}
