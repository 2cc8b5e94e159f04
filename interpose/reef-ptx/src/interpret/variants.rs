//! Variants, stopped at random blocks, leave the memory that their kernels leave.

use super::block::{Grid, Program};
use crate::text::module::Module;
use crate::variant::parameter::{Launch, Mode};
use crate::{kernels, variant::build::Variant};

const CORPUS: &str = include_str!("../../tests/corpus/simple.ptx");

/// Places in memory: the stop word, for each run the word of stopped blocks, the map, and the data
/// of a kernel.
pub(super) const STOP: usize = 8;
pub(super) const LEFT: usize = 16;
pub(super) const MAP: usize = 64;
pub(super) const DATA: usize = 1024;
const BYTES: usize = 16 << 10;
/// Elements of a buffer, and its bytes.
const COUNT: usize = 192;
const BUFFER: usize = 4 * COUNT;

/// Kernels with the launches that are run.
const CASES: &[Case] = {
    use Argument::{Buffer, Number};
    &[
        ("add", [6, 1, 1], [32, 1, 1], &[Buffer(0), Buffer(1), Buffer(2), Number(180)]),
        ("twice_in_place", [6, 1, 1], [32, 1, 1], &[Buffer(0), Number(150)]),
        ("fill", [3, 4, 1], [16, 1, 1], &[Buffer(0), Number(7), Number(190)]),
        ("histogram", [6, 1, 1], [32, 1, 1], &[Buffer(0), Buffer(1), Number(190)]),
        ("maximum", [6, 1, 1], [32, 1, 1], &[Buffer(0), Buffer(1), Number(190)]),
        (
            "sum_by_last_block",
            [6, 1, 1],
            [32, 1, 1],
            &[Buffer(0), Buffer(1), Buffer(3), Buffer(2), Number(190)],
        ),
        ("by_ticket", [6, 1, 1], [32, 1, 1], &[Buffer(0), Buffer(3), Buffer(1), Number(190)]),
        ("product", [1, 1, 1], [8, 8, 1], &[Buffer(0), Buffer(1), Buffer(2), Number(8)]),
        ("iterate", [6, 1, 1], [32, 1, 1], &[Buffer(0), Buffer(1), Number(5)]),
    ]
};

/// Name, grid, block and arguments.
pub(super) type Case = (&'static str, [u32; 3], [u32; 3], &'static [Argument]);

pub(super) enum Argument {
    /// Address of a buffer. The last one is zero, the others are random.
    Buffer(u64),
    Number(u32),
}

/// Numbers by SplitMix64 (Steele et al. 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub(super) fn parameters(arguments: &[Argument]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Buffer(at) => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes.extend((DATA as u64 + at * BUFFER as u64).to_le_bytes());
            }
            Argument::Number(value) => bytes.extend(value.to_le_bytes()),
        }
    }
    bytes
}

pub(super) fn memory(random: &mut Random) -> Vec<u8> {
    let mut memory = vec![0; BYTES];
    for at in 0..3 * COUNT {
        // Small numbers, so that floats made of them are numbers, too.
        memory[DATA + 4 * at] = random.below(251) as u8;
    }
    memory
}

/// All blocks of a grid, in random order.
pub(super) fn blocks([x, y, z]: [u32; 3], random: &mut Random) -> Vec<[u32; 3]> {
    let mut all: Vec<_> = (0..x * y * z).map(|at| [at % x, at / x % y, at / x / y]).collect();
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at as u64 + 1) as usize);
    }
    all
}

/// Number of the first run, and how far numbers lie apart: they wrap around, and none is 0.
const FIRST: u32 = u32::MAX - 4;
const APART: u32 = 3;

pub(super) fn launch(round: u32, grid: [u32; 3], offset: [u32; 3]) -> Launch {
    let (stop, map, left) = (STOP as u64, MAP as u64, LEFT as u64 + 4 * u64::from(round));
    let number = FIRST.wrapping_add(APART * round);
    let mode = if round == 0 { Mode::First } else { Mode::Resume(number.wrapping_sub(APART)) };
    Launch { stop, map, mode, number, offset, grid, left, left_before: left - 4 }
}

fn put(memory: &mut [u8], at: usize, word: u32) {
    memory[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

pub(super) fn word(memory: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(memory[at..at + 4].try_into().unwrap())
}

/// Memory with the words of earlier runs.
pub(super) fn with_words(start: &[u8]) -> Vec<u8> {
    let mut memory = start.to_vec();
    put(&mut memory, STOP, FIRST.wrapping_sub(1));
    (LEFT..MAP).step_by(4).for_each(|at| put(&mut memory, at, FIRST.wrapping_sub(8)));
    memory
}

pub(super) fn with_launch(arguments: &[Argument], variant: &Variant, launch: Launch) -> Vec<u8> {
    let mut bytes = parameters(arguments);
    bytes.resize(variant.offset as usize, 0);
    bytes.extend(launch.bytes());
    bytes
}

/// Runs a variant with a random stop word before each block, and resumes it until it is complete.
/// Gives its memory and the number of stopped blocks; `None` if the words do not fit.
fn stopped(
    text: &str,
    variant: &Variant,
    case: &Case,
    start: &[u8],
    random: &mut Random,
) -> Option<(Vec<u8>, usize)> {
    let &(name, grid, threads, arguments) = case;
    let module = Module::read(text).unwrap();
    let program = Program::read(&module, name);
    let mut memory = with_words(start);
    let mut count = 0;
    for round in 0..6 {
        let of = launch(round, grid, [0; 3]);
        let of_grid =
            Grid { blocks: grid, threads, parameters: with_launch(arguments, variant, of) };
        for block in blocks(grid, random) {
            let is_stopped = round < 4 && random.below(2) == 0;
            put(&mut memory, STOP, of.number.wrapping_sub(u32::from(!is_stopped)));
            program.run(&of_grid, block, &mut memory);
        }
        let left = memory[MAP..DATA].iter().filter(|byte| **byte != 0).count();
        count += left;
        let is_said = word(&memory, of.left as usize) == of.number;
        if is_said != (left > 0) {
            return None;
        }
        if left == 0 {
            return Some((memory[DATA..].to_vec(), count));
        }
    }
    None
}

/// Memory of a kernel that runs once.
pub(super) fn plain(source: &str, case: &Case, start: &[u8]) -> Vec<u8> {
    let &(name, grid, threads, arguments) = case;
    let module = Module::read(source).unwrap();
    let program = Program::read(&module, name);
    let of_grid = Grid { blocks: grid, threads, parameters: parameters(arguments) };
    let mut memory = start.to_vec();
    for at in 0..grid[0] * grid[1] {
        program.run(&of_grid, [at % grid[0], at / grid[0], 0], &mut memory);
    }
    memory[DATA..].to_vec()
}

fn variant_of(name: &str) -> Variant {
    let module = Module::read(CORPUS).unwrap();
    let kernel = kernels(&module).find(|kernel| kernel.name() == name).unwrap();
    kernel.variant().unwrap()
}

/// Seeds for which the memory of a variant with a change differs from that of its kernel, and
/// blocks that were stopped.
fn differing(change: impl Fn(&str) -> String) -> (Vec<(u64, &'static str)>, usize) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for case in CASES {
        let variant = variant_of(case.0);
        let text = change(&variant.text);
        for seed in 0..24 {
            let mut random = Random(seed);
            let start = memory(&mut random);
            match stopped(&text, &variant, case, &start, &mut random) {
                Some((memory, stops)) if memory == plain(CORPUS, case, &start) => count += stops,
                _ => wrong.push((seed, case.0)),
            }
        }
    }
    (wrong, count)
}

#[test]
fn kernels_change_memory_in_the_interpreter() {
    for case in CASES {
        let start = memory(&mut Random(1));
        assert_ne!(plain(CORPUS, case, &start), start[DATA..], "{}", case.0);
    }
}

#[test]
fn stopped_variant_leaves_the_memory_of_its_kernel() {
    let (wrong, count) = differing(str::to_owned);
    assert_eq!(wrong, [], "seeds and kernels with other memory");
    assert!(count > 500, "{count} blocks were stopped");
}

#[test]
fn each_mutant_of_the_guard_is_caught() {
    let mutants = [
        (
            "any number stops",
            "setp.ge.s32 %reefp1, %reefr0, 0;",
            "setp.ne.u32 %reefp1, %reefr0, 1;",
        ),
        ("no record", "\t@%reefp3 st.global.u8 [%reefd1], %reefh1;\n", ""),
        (
            "done blocks run again",
            "setp.eq.u16 %reefp3, %reefh0, 0;",
            "setp.eq.u16 %reefp3, %reefh0, 2;",
        ),
        ("record kept", "selp.u16 %reefh1, 1, 0, %reefp1;", "mov.u16 %reefh1, 1;"),
        ("no barrier", "\tbar.red.or.pred %reefp1, 0, %reefp1;\n", ""),
        ("number not left", "\tst.global.u32 [%reefd0], %reefr6;\n", ""),
    ];
    for (name, old, new) in mutants {
        let (wrong, _) = differing(|text| {
            assert_eq!(text.matches(old).count(), 1, "{name}");
            text.replace(old, new)
        });
        assert!(wrong.len() > 20, "{name}: caught {} times", wrong.len());
    }
}

#[test]
fn needless_resume_touches_nothing() {
    for case in CASES {
        let &(name, grid, threads, arguments) = case;
        let variant = variant_of(name);
        let module = Module::read(&variant.text).unwrap();
        let program = Program::read(&module, name);
        let of_grid = |round| Grid {
            blocks: grid,
            threads,
            parameters: with_launch(arguments, &variant, launch(round, grid, [0; 3])),
        };
        // The run before has left nothing; one of another launch has.
        let mut memory = with_words(&memory(&mut Random(1)));
        memory[MAP..MAP + 16].fill(1);
        let left = |round: usize| LEFT + 4 * round;
        put(&mut memory, left(0), FIRST.wrapping_sub(4));
        put(&mut memory, left(1), FIRST + APART);
        let before = memory.clone();
        blocks(grid, &mut Random(2)).into_iter().for_each(|at| {
            program.run(&of_grid(1), at, &mut memory);
        });
        assert!(memory == before, "{name}");
        blocks(grid, &mut Random(2)).into_iter().for_each(|at| {
            program.run(&of_grid(2), at, &mut memory);
        });
        assert!(memory != before, "{name}: the run before has left blocks");
    }
}

/// Runs a variant in random slices of its slowest dimension.
fn sliced(text: &str, case: &Case, start: &[u8], random: &mut Random) -> Vec<u8> {
    let &(name, grid, threads, arguments) = case;
    let variant = variant_of(name);
    let module = Module::read(text).unwrap();
    let program = Program::read(&module, name);
    let slowest = usize::from(grid[1] > 1);
    let mut memory = with_words(start);
    let mut at = 0;
    while at < grid[slowest] {
        let size = 1 + random.below(u64::from(grid[slowest] - at)) as u32;
        let (mut offset, mut part) = ([0; 3], grid);
        (offset[slowest], part[slowest]) = (at, size);
        let parameters = with_launch(arguments, &variant, launch(0, grid, offset));
        let of_slice = Grid { blocks: part, threads, parameters };
        for block in blocks(part, random) {
            program.run(&of_slice, block, &mut memory);
        }
        at += size;
    }
    memory[DATA..].to_vec()
}

#[test]
fn slices_leave_the_memory_of_the_whole_launch() {
    let mut others = 0;
    for case in CASES {
        let text = variant_of(case.0).text;
        for seed in 0..24 {
            let mut random = Random(seed);
            let start = memory(&mut random);
            let want = plain(CORPUS, case, &start);
            assert!(sliced(&text, case, &start, &mut random) == want, "{} seed {seed}", case.0);
            // Without the offset, or with the size of the slice, blocks are not those of the grid.
            let no_offset = text.replace(", [$reef+24]", ", [$reef+60]");
            others += usize::from(sliced(&no_offset, case, &start, &mut random) != want);
        }
    }
    assert!(others > 20, "slices without an offset were right but for {others}");
}
