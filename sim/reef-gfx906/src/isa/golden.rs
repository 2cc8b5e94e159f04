//! Each opcode against vectors that were made without this code: encodings by LLVM's assembler,
//! results by AMD's pseudocode (`tools/gfx906/golden.py`).
//!
//! A line is `name|assembly|bytes|vector registers|scalar registers|exec|results`. Inputs name
//! arrays of the file's head (`v2=f3`); `@` before one adds the address of the memory under test. A
//! result is the active lanes of a register with how to compare (`v6:f=…`), a scalar register, the
//! condition bit, the program counter, one lane of a register (`w0.3`), or a word of memory (`m`),
//! of shared memory (`l`) or of a lane's private memory (`p`). What no result names must not have
//! changed.

use std::collections::HashMap;

use super::decode::instruction::decode;
use super::inst::Inst;
use super::space::Env;
use super::wave::{Memory, Pause, Wave};

const VGPRS: usize = 20;
/// Number that stands for the condition bit among scalar registers.
const SCC: usize = 128;
/// Bytes of private memory of a lane.
const PRIVATE: usize = 64;

/// The file, taken apart.
pub(super) struct Golden {
    arrays: HashMap<&'static str, Vec<u64>>,
    memory: Vec<u8>,
    pub(super) cases: Vec<Case>,
}

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) asm: &'static str,
    words: [u32; 2],
    bytes: usize,
    vgprs: Vec<(usize, &'static str)>,
    scalars: Vec<(usize, &'static str)>,
    exec: u64,
    results: Vec<(&'static str, &'static str)>,
}

fn pairs(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split(',').filter_map(|pair| pair.split_once('='))
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("a number")
}

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|k| hex(&text[2 * k..2 * k + 2]) as u8).collect()
}

impl Golden {
    pub(super) fn read() -> Self {
        let text = include_str!("golden.txt");
        let mut golden = Self { arrays: HashMap::new(), memory: Vec::new(), cases: Vec::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix('@') {
                None => golden.cases.push(Case::read(line)),
                Some(line) => {
                    let (name, data) = line.split_once(' ').expect("a name and data");
                    if name == "memory" {
                        golden.memory = bytes(data);
                        continue;
                    }
                    let width = data.len() / 64;
                    let values = (0..64).map(|k| hex(&data[k * width..(k + 1) * width]));
                    golden.arrays.insert(name, values.collect());
                }
            }
        }
        golden
    }

    /// Decodes and executes one instruction, perhaps with another operation.
    pub(super) fn run(&self, case: &Case, change: impl Fn(Inst) -> Inst) -> Result<(), String> {
        let second = (case.bytes > 4).then_some(case.words[1]);
        let inst = decode(case.words[0], second).map_err(|error| error.to_string())?;
        if usize::from(inst.len) != case.bytes {
            return Err(format!("{} bytes long", inst.len));
        }
        let matches = inst.text().split(' ').next().is_some_and(|text| case.spells(text));
        if !matches {
            return Err(format!("decoded as {}", inst.text()));
        }
        let mut scene = Scene::new(self, case);
        match (scene.step(&change(inst)), case.refused()) {
            (Ok(()), false) => scene.check(self, case),
            (Err(_), true) => Ok(()),
            (Ok(()), true) => Err("was not refused".to_owned()),
            (Err(why), false) => Err(why),
        }
    }
}

impl Case {
    fn read(line: &'static str) -> Self {
        let parts: Vec<_> = line.split('|').collect();
        // Bars in the assembly are signs of absolute values.
        let from_end = |k: usize| parts[parts.len() - k];
        let start = parts[0].len() + 1;
        let tail: usize = (1..=5).map(|k| from_end(k).len() + 1).sum();
        let asm = &line[start..line.len() - tail];
        let code = bytes(from_end(5));
        let word = |k: usize| {
            let bytes = code.get(4 * k..4 * k + 4).unwrap_or(&[0; 4]);
            u32::from_le_bytes(bytes.try_into().expect("four bytes"))
        };
        let number = |name: &str| name[1..].parse().expect("a register");
        Self {
            name: parts[0],
            asm,
            words: [word(0), word(1)],
            bytes: code.len(),
            vgprs: pairs(from_end(4)).map(|(name, array)| (number(name), array)).collect(),
            scalars: pairs(from_end(3)).map(|(name, value)| (number(name), value)).collect(),
            exec: hex(from_end(2)),
            results: pairs(from_end(1)).collect(),
        }
    }

    /// Returns whether the assembler's mnemonic is this one, but for its suffixes.
    fn spells(&self, text: &str) -> bool {
        let mnemonic = self.asm.split(' ').next().unwrap_or_default();
        let bare = mnemonic.trim_end_matches("_e32").trim_end_matches("_e64");
        bare == text
    }

    /// Returns whether it must be an error.
    fn refused(&self) -> bool {
        self.results.iter().any(|(name, _)| *name == "refused")
    }

    fn active(&self) -> impl Iterator<Item = usize> + use<> {
        let exec = self.exec;
        (0..64).filter(move |lane| exec >> lane & 1 != 0)
    }
}

/// A wave and its surroundings before and after one instruction.
struct Scene {
    wave: Wave,
    memory: Host,
    lds: Vec<u8>,
    before: Wave,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Host {
    bytes: Vec<u64>,
}

impl Memory for Host {
    fn is_mapped(&self, address: u64, bytes: usize) -> bool {
        let start = self.base();
        let end = start + 8 * self.bytes.len() as u64;
        address >= start && address.checked_add(bytes as u64).is_some_and(|last| last <= end)
    }

    fn clock(&self) -> u64 {
        0x1234_5678_9abc_def0
    }
}

impl Host {
    fn base(&self) -> u64 {
        self.bytes.as_ptr() as u64
    }

    fn copy(&self) -> Vec<u8> {
        self.bytes.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl Scene {
    fn new(golden: &Golden, case: &Case) -> Self {
        let words = golden.memory.chunks(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let memory = Host { bytes: words.collect() };
        let mut wave = Wave::new(0x1000, VGPRS, case.exec);
        fill(&mut wave);
        for &(register, array) in &case.vgprs {
            let (array, base) = match array.strip_prefix('@') {
                Some(array) => (array, memory.base()),
                None => (array, 0),
            };
            let wide = base != 0 || array.starts_with(['d', 'l']);
            for (lane, value) in golden.arrays[array].iter().enumerate() {
                let value = value.wrapping_add(base);
                wave.set_vgpr(register, lane, value as u32);
                if wide {
                    wave.set_vgpr(register + 1, lane, (value >> 32) as u32);
                }
            }
        }
        for &(register, value) in &case.scalars {
            match value.strip_prefix('@') {
                Some(offset) => {
                    wave.regs.set_s64(register as u8, memory.base() + hex(offset));
                }
                None if register == SCC => wave.regs.scc = hex(value) != 0,
                None => wave.set_sgpr(register, hex(value) as u32),
            }
        }
        wave.regs.indexing = case.name == "s_set_gpr_idx_off";
        wave.set_private(PRIVATE);
        for (byte, from) in wave.private.iter_mut().zip(golden.memory.iter().cycle()) {
            *byte = *from;
        }
        Self { before: wave.clone(), wave, memory, lds: golden.memory.clone(), pause: None }
    }

    fn step(&mut self, inst: &Inst) -> Result<(), String> {
        let mut env = Env::new(&mut self.lds, &self.memory);
        self.pause = self.wave.step(inst, &mut env)?;
        Ok(())
    }

    fn check(&self, golden: &Golden, case: &Case) -> Result<(), String> {
        self.check_vectors(case)?;
        self.check_scalars(case)?;
        let named = |kind: char| {
            let results = case.results.iter().filter_map(move |(name, value)| {
                let offset = name.strip_prefix(kind)?.parse::<usize>().ok()?;
                Some((offset, hex(value) as u32))
            });
            results.collect::<Vec<_>>()
        };
        let private: Vec<u8> = self.before.private.clone();
        let kind =
            if case.name.starts_with("ds_add") && case.name.ends_with("f32") { "f" } else { "x" };
        check_bytes("memory", kind, &golden.memory, &self.memory.copy(), &named('m'))?;
        check_bytes("shared memory", kind, &golden.memory, &self.lds, &named('l'))?;
        check_bytes("private memory", kind, &private, &self.wave.private, &named('p'))
    }

    fn check_vectors(&self, case: &Case) -> Result<(), String> {
        let mut expected = self.before.regs.v.clone();
        let mut kinds = ["x"; VGPRS];
        for (name, data) in &case.results {
            let Some((register, kind)) = name.strip_prefix('v').and_then(|v| v.split_once(':'))
            else {
                continue;
            };
            let register: usize = register.parse().expect("a register");
            kinds[register] = kind;
            for (k, lane) in case.active().enumerate() {
                expected[register][lane] = hex(&data[8 * k..8 * k + 8]) as u32;
            }
        }
        for (name, value) in &case.results {
            let place = name.strip_prefix('w').and_then(|place| place.split_once('.'));
            if let Some((register, lane)) = place {
                let number = |text: &str| text.parse::<usize>().expect("a number");
                expected[number(register)][number(lane)] = hex(value) as u32;
            }
        }
        for register in 0..VGPRS {
            for lane in 0..64 {
                let pair = |v: &[[u32; 64]]| {
                    let high = v.get(register + 1).map_or(0, |high| high[lane]);
                    u64::from(v[register][lane]) | u64::from(high) << 32
                };
                let (want, got) = (pair(&expected), pair(&self.wave.regs.v));
                if !same(kinds[register], want, got) {
                    return Err(format!("v{register} lane {lane}: {got:016x}, not {want:016x}"));
                }
            }
        }
        Ok(())
    }

    fn check_scalars(&self, case: &Case) -> Result<(), String> {
        let mut expected = self.before.regs.s;
        let mut scc = self.before.regs.scc;
        let mut pc = self.before.pc + case.bytes as u64;
        let mut mode = self.before.regs.mode;
        let mut pause = None;
        for (name, value) in &case.results {
            match *name {
                "scc" => scc = *value == "1",
                "mode" => mode = hex(value) as u32,
                "pause" => pause = Some(*value),
                "pc" => pc = 0x1000u64.wrapping_add(hex(value)),
                name => {
                    let register = name.strip_prefix('s').and_then(|s| s.parse::<usize>().ok());
                    if let Some(register) = register {
                        expected[register] = hex(value) as u32;
                    }
                }
            }
        }
        if let Some(at) = (0..128).find(|&at| expected[at] != self.wave.regs.s[at]) {
            return Err(format!("s{at}: {:08x}, not {:08x}", self.wave.regs.s[at], expected[at]));
        }
        if mode != self.wave.regs.mode {
            return Err(format!("mode: {:x}, not {mode:x}", self.wave.regs.mode));
        }
        if self.wave.regs.indexing != (case.name == "s_set_gpr_idx_on") {
            return Err(format!("indexing: {}", self.wave.regs.indexing));
        }
        let paused = self.pause.map(|pause| format!("{pause:?}"));
        if paused.as_deref() != pause {
            return Err(format!("pause: {paused:?}, not {pause:?}"));
        }
        if scc != self.wave.regs.scc {
            return Err(format!("scc: {}, not {scc}", self.wave.regs.scc));
        }
        if pc != self.wave.pc {
            return Err(format!("pc: {:x}, not {pc:x}", self.wave.pc));
        }
        Ok(())
    }
}

/// Puts something into every register, so that one that is read by mistake shows.
fn fill(wave: &mut Wave) {
    let junk = |at: usize| (at as u32 + 1).wrapping_mul(0x9e37_79b9);
    for at in 0..102 {
        wave.set_sgpr(at, junk(at));
    }
    for (at, register) in wave.regs.v.iter_mut().enumerate() {
        for (lane, value) in register.iter_mut().enumerate() {
            *value = junk(at * 64 + lane + 128);
        }
    }
}

fn check_bytes(
    what: &str,
    kind: &str,
    before: &[u8],
    after: &[u8],
    changes: &[(usize, u32)],
) -> Result<(), String> {
    let mut expected = before.to_vec();
    for (offset, value) in changes {
        expected[*offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    let word = |bytes: &[u8], at: usize| {
        u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
    };
    for at in (0..before.len()).step_by(4) {
        let (want, got) = (word(&expected, at), word(after, at));
        if !same(kind, want, got) {
            return Err(format!("{what} at {at}: {got:08x}, not {want:08x}"));
        }
    }
    Ok(())
}

/// Returns whether a value is right: any NaN is as good as another; results of approximate
/// operations may be the next float.
fn same(kind: &str, want: u64, got: u64) -> bool {
    let (want32, got32) = (want as u32, got as u32);
    let half = |shift: u32| {
        let (want, got) = (want32 >> shift & 0xffff, got32 >> shift & 0xffff);
        want == got || (want & 0x7fff > 0x7c00 && got & 0x7fff > 0x7c00)
    };
    let single = |slack: u32| {
        let (a, b) = (f32::from_bits(want32), f32::from_bits(got32));
        want32.abs_diff(got32) <= slack || (a.is_nan() && b.is_nan())
    };
    match kind {
        "f" => single(0),
        "f1" => single(1),
        "h" => half(0) && want32 >> 16 == got32 >> 16,
        "h1" => want32.abs_diff(got32) <= 1 || half(0),
        "p" => half(0) && half(16),
        "d" | "d1" => {
            let slack = u64::from(kind == "d1");
            let (a, b) = (f64::from_bits(want), f64::from_bits(got));
            want.abs_diff(got) <= slack || (a.is_nan() && b.is_nan())
        }
        // The upper half of a double, which has been compared with the lower one.
        "D" => true,
        _ => want32 == got32,
    }
}

#[test]
fn each_case_gives_what_the_pseudocode_says() {
    let golden = Golden::read();
    let wrong: Vec<_> = golden
        .cases
        .iter()
        .filter_map(|case| {
            let why = golden.run(case, |inst| inst).err()?;
            Some(format!("{} [{}]: {why}", case.asm, case.name))
        })
        .collect();
    let shown = wrong.iter().take(100).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {} cases:\n{shown}", wrong.len(), golden.cases.len());
}
