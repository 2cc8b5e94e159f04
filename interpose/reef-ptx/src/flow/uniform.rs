//! Instructions that all threads of a block run together.
//!
//! A value is *uniform* if each thread of the block gets the same. It comes from parameters,
//! constants, the block's index, and plain loads at uniform addresses: by the memory model, nothing
//! changes that memory meanwhile. A branch on any other value parts the threads until their ways
//! meet again. An end of some threads parts them for good: PTX does not say what a barrier with a
//! result does about threads that have ended.

use super::code::{Code, Op};
use super::meeting::{may_end, meetings};
use super::registers::Register;
use super::roots::{LOCAL, Roots, Space, UNKNOWN, space};
use crate::text::cursor::words;

/// Special registers that are the same in all threads of a block.
const OF_BLOCK: &[&str] = &["%ctaid", "%nctaid", "%ntid", "%gridid", "%dynamic_smem_size"];

/// Instructions that give the same if their operands are the same, without carry.
const PURE: &[&str] = &[
    "abs", "add", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cvt",
    "cvta", "div", "ex2", "fma", "lg2", "lop3", "mad", "mad24", "max", "min", "mov", "mul",
    "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set",
    "setp", "shf", "shl", "shr", "slct", "sqrt", "sub", "szext", "testp", "xor",
];

/// Suffixes of loads of memory that others may change.
const CHANGING: &[&str] = &["volatile", "relaxed", "acquire", "cv", "mmio"];

/// Upper bound of the instructions that are visited for all branches. Beyond it, all threads count
/// as parted.
const MAX_VISITS: usize = 20_000_000;

/// For each instruction, whether threads are parted there.
#[derive(Debug)]
pub(crate) struct Uniform {
    is_parted: Vec<bool>,
}

impl Uniform {
    /// Follows values and branches until nothing changes.
    pub(crate) fn of(code: &Code<'_, '_>, roots: &Roots<'_>) -> Self {
        let count = code.ops.len();
        let mut search = Search {
            code,
            roots,
            meetings: meetings(code),
            is_varying: vec![false; code.registers],
            is_parted: vec![false; count],
            is_followed: vec![false; count],
            visits: 0,
        };
        while search.pass() {}
        Self { is_parted: search.is_parted }
    }

    /// Returns whether all threads of the block run an instruction equally often.
    pub(crate) fn is_together(&self, op: usize) -> bool {
        !self.is_parted[op]
    }
}

struct Search<'c, 'm, 'a> {
    code: &'c Code<'m, 'a>,
    roots: &'c Roots<'a>,
    meetings: Vec<Option<usize>>,
    /// Registers whose values differ between threads.
    is_varying: Vec<bool>,
    is_parted: Vec<bool>,
    is_followed: Vec<bool>,
    visits: usize,
}

impl Search<'_, '_, '_> {
    /// One pass over all instructions; true if something has changed.
    fn pass(&mut self) -> bool {
        let mut is_changed = false;
        for at in 0..self.code.ops.len() {
            let op = &self.code.ops[at];
            if self.is_parted[at] || self.varies(op) {
                for register in op.written() {
                    is_changed |=
                        !std::mem::replace(&mut self.is_varying[*register as usize], true);
                }
            }
            let is_parting = op.next.len() + usize::from(may_end(op)) > 1 && self.parts(op);
            if is_parting && !std::mem::replace(&mut self.is_followed[at], true) {
                self.follow(at);
                is_changed = true;
            }
        }
        is_changed
    }

    fn is_same(&self, register: Register) -> bool {
        !self.is_varying[register as usize]
    }

    /// Returns whether the results differ though all threads run it.
    fn varies(&self, op: &Op<'_, '_>) -> bool {
        let is_known = match op.instruction.base() {
            "ld" | "ldu" => self.is_plain_load(op),
            "bar" | "barrier" => op.instruction.has("red"),
            base => PURE.contains(&base),
        };
        let is_guarded = op.guard.is_some_and(|guard| !self.is_same(guard));
        let first = usize::from(op.has_result);
        !is_known
            || is_guarded
            || !op.read().all(|register| self.is_same(register))
            || (first..op.registers.len()).any(|at| !has_words_of_block(op, at))
    }

    /// A load of memory that all threads see, which nothing changes meanwhile.
    fn is_plain_load(&self, op: &Op<'_, '_>) -> bool {
        let is_of_all = match space(op.instruction) {
            Space::Generic => {
                let registers = op.registers.get(1).map_or(&[][..], Vec::as_slice);
                let roots = self.roots.address(op.instruction.operand(1), registers);
                roots != 0 && roots & (LOCAL | UNKNOWN) == 0
            }
            space => space != Space::Local,
        };
        is_of_all && !op.instruction.suffixes().any(|suffix| CHANGING.contains(&suffix))
    }

    fn parts(&self, op: &Op<'_, '_>) -> bool {
        op.guard.is_some_and(|guard| !self.is_same(guard))
            || !op.read().all(|register| self.is_same(register))
    }

    /// Marks all instructions between a branch and the place where its ways meet.
    fn follow(&mut self, branch: usize) {
        let end = self.meetings[branch];
        let mut seen = vec![false; self.code.ops.len()];
        let mut work = self.code.ops[branch].next.clone();
        while let Some(at) = work.pop() {
            if Some(at) == end || std::mem::replace(&mut seen[at], true) {
                continue;
            }
            self.is_parted[at] = true;
            self.visits += 1;
            work.extend(&self.code.ops[at].next);
        }
        if self.visits > MAX_VISITS {
            self.is_parted.fill(true);
            self.is_followed.fill(true);
        }
    }
}

/// Returns whether all names of an operand are registers, or the same for all threads.
fn has_words_of_block(op: &Op<'_, '_>, at: usize) -> bool {
    let is_of_block = |word: &str| OF_BLOCK.contains(&word.split('.').next().unwrap_or(word));
    let is_name =
        |word: &&str| !word.starts_with(|c: char| c.is_ascii_digit()) && !is_of_block(word);
    let names: Vec<&str> = words(op.instruction.operand(at)).filter(is_name).collect();
    let special = names.iter().filter(|name| name.starts_with('%')).count();
    let is_vector = names.len() > 1;
    let registers = op.registers[at].len();
    special <= registers && (!is_vector || names.len() <= registers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::module::Module;

    /// For each `bar.sync` of a body, whether all threads run it together.
    fn meet(body: &str) -> Vec<bool> {
        let text = format!(
            ".version 8.0\n.target sm_90\n.entry k(.param .u64 x, .param .u32 n) {{
                .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; {body} }}"
        );
        let module = Module::read(&text).unwrap();
        let code = Code::read(module.function("k").unwrap()).unwrap();
        let bases = code.ops.iter().map(|op| op.instruction.base());
        let barriers: Vec<usize> =
            bases.enumerate().filter(|(_, base)| *base == "bar").map(|(at, _)| at).collect();
        let uniform = Uniform::of(&code, &Roots::of(&module, &code));
        barriers.iter().map(|at| uniform.is_together(*at)).collect()
    }

    #[test]
    fn loop_of_a_parameters_length_keeps_threads_together() {
        let of = |bound: &str| {
            meet(&format!(
                "{bound} mov.u32 %r2, 0; $a: bar.sync 0; add.u32 %r2, %r2, 1;
                 setp.lt.u32 %p1, %r2, %r1; @%p1 bra $a; bar.sync 0; st.global.u32 [%rd1], %r2; ret;"
            ))
        };
        assert_eq!(of("ld.param.u32 %r1, [n];"), [true, true]);
        assert_eq!(of("mov.u32 %r1, %ctaid.x;"), [true, true]);
        assert_eq!(of("ld.param.u64 %rd1, [x]; ld.global.u32 %r1, [%rd1+4];"), [true, true]);
        assert_eq!(of("mov.u32 %r1, %tid.x;"), [false, true]);
        assert_eq!(of("mov.u32 %r1, %laneid;"), [false, true]);
        assert_eq!(
            of("ld.param.u64 %rd1, [x]; ld.relaxed.gpu.global.u32 %r1, [%rd1];"),
            [false, true]
        );
        assert_eq!(of("ld.param.u64 %rd1, [x]; ld.u32 %r1, [%rd1];"), [true, true]);
        assert_eq!(
            of(".local .b8 own[4]; cvta.local.u64 %rd1, own; ld.u32 %r1, [%rd1];"),
            [false, true]
        );
        assert_eq!(of("ld.u32 %r1, [%rd1];"), [false, true]);
        assert_eq!(of("shfl.sync.idx.b32 %r1, %r3, 0, 31, -1;"), [false, true]);
    }

    #[test]
    fn branch_of_a_thread_parts_until_its_ways_meet() {
        let of_thread = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;";
        let branch = |inner: &str| {
            meet(&format!(
                "{of_thread} @%p1 bra $a; {inner} $a: bar.sync 0; st.global.u32 [%rd1], 1; $e:"
            ))
        };
        assert_eq!(branch("mov.u32 %r2, 1;"), [true]);
        assert_eq!(branch("bar.sync 0;"), [false, true]);
        // Threads that end do not come back; those that trap end the kernel.
        assert_eq!(branch("ret;"), [false]);
        assert_eq!(branch("@%p1 ret;"), [false]);
        assert_eq!(branch("bra $e;"), [false]);
        assert_eq!(branch("trap;"), [true]);
    }

    #[test]
    fn value_of_a_parted_branch_is_not_uniform() {
        let of_thread = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 1;";
        let body = format!(
            "{of_thread} @%p1 bra $a; mov.u32 %r2, 2; $a: setp.eq.u32 %p2, %r2, 1;
             @%p2 bra $b; bar.sync 0; $b: bar.sync 0; ret;"
        );
        assert_eq!(meet(&body), [false, true]);
        let guarded = format!(
            "{of_thread} @%p1 mov.u32 %r2, 2; setp.eq.u32 %p2, %r2, 1;
             @%p2 bra $b; bar.sync 0; $b: bar.sync 0; ret;"
        );
        assert_eq!(meet(&guarded), [false, true]);
    }
}
