//! Formulas of elements, as steps of an interpreter.
//!
//! A step takes what the one before it gave from a register. What is needed later has a slot in
//! shared memory, from the step that makes it to the last one that reads it.

use super::bound::{BoundTensors, SHARED, THREADS, bytes, suffix};
use super::plan::{NOWHERE, Plan};
use super::scalar::bits;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Error, Launch, Result};
use reef_op::tensor::{Binary, Domain, Map, Term, Unary, View};

/// Steps of the interpreter that a thread makes at most, if that is enough for an output.
const STEPS: usize = 256;
/// Outputs of a thread at most.
const ROUNDS: usize = 16;
/// Blocks that a map is cut into before its threads make several outputs.
const BLOCKS: usize = 2048;
/// `Formula::INPUTS` in kernels/formula.h.
const INPUTS: u32 = 4;

/// `Code` in kernels/formula.h.
const INPUT: u32 = 0;
const SCALAR: u32 = 1;
const SELECT: u32 = 2;
const UNARY: u32 = 16;
const BINARY: u32 = 64;

pub(super) fn build<V: Vendor>(bound: &BoundTensors<'_, V>, map: &Map) -> Result<Launch<Gpu<V>>> {
    check(bound, map)?;
    let terms = &map.formula.0;
    let slots = Slots::of(terms);
    let shared = slots.most * THREADS * bytes(map.domain);
    if shared > SHARED {
        return Err(bound.refused(format!("a formula that keeps {} values", slots.most)));
    }
    let rounds = rounds(bound.count(), terms.iter().map(steps).sum());
    let mut plan = Plan::default();
    plan.words(&[terms.len() as u32, rounds as u32, 0, 0]);
    bound.inputs(&mut plan);
    plan.set(2, plan.len());
    for k in 0..terms.len() {
        plan.words(&step(terms, &slots, k, map.domain));
    }
    views(bound, &mut plan)?;
    let blocks = bound.count().div_ceil(THREADS * rounds);
    bound.launch_near(&format!("map_{}", suffix(map.domain)), blocks, shared, &plan)
}

/// Cost of a term, in steps that are an instruction or two. Functions are computed in doubles.
fn steps(term: &Term) -> usize {
    use Unary::{
        Abs, Ceil, Complement, Floor, IsInf, IsNan, Neg, Not, Round, Sign, Single, Sqrt, Trunc,
    };
    match term {
        Term::Unary(
            Abs | Ceil | Complement | Floor | IsInf | IsNan | Neg | Not | Round | Sign | Single
            | Sqrt | Trunc,
            _,
        ) => 1,
        Term::Unary(..) | Term::Binary(Binary::Pow | Binary::Mod | Binary::Rem, ..) => 32,
        _ => 1,
    }
}

/// Outputs of a thread.
fn rounds(count: usize, steps: usize) -> usize {
    (count / (THREADS * BLOCKS)).clamp(1, (STEPS / steps).clamp(1, ROUNDS))
}

/// Refuses functions that kernels have for floats alone.
fn check<V: Vendor>(bound: &BoundTensors<'_, V>, map: &Map) -> Result<()> {
    let of_floats = map.formula.0.iter().find_map(|term| match term {
        Term::Unary(function, _) if is_transcendental(*function) => Some(function),
        _ => None,
    });
    match (map.domain, of_floats) {
        (Domain::I64 | Domain::U64, Some(function)) => {
            Err(bound.refused(format!("{function:?} of integers")))
        }
        _ => Ok(()),
    }
}

fn is_transcendental(function: Unary) -> bool {
    use Unary::*;
    matches!(
        function,
        Acos | Acosh
            | Asin
            | Asinh
            | Atan
            | Atanh
            | Cos
            | Cosh
            | Erf
            | Exp
            | Log
            | Sin
            | Sinh
            | Tan
            | Tanh
    )
}

/// Appends how each input is broadcast.
pub(super) fn views<V: Vendor>(bound: &BoundTensors<'_, V>, plan: &mut Plan) -> Result<()> {
    for (k, input) in bound.op.inputs.iter().enumerate() {
        let Some(view) = View::broadcast(&input.dims, &bound.op.output.dims) else {
            return Err(Error::invalid(
                "input",
                format!("{input} can't be broadcast to {}", bound.op.output),
            ));
        };
        let at = plan.view(&view);
        plan.set(INPUTS + 4 * k as u32 + 3, at);
    }
    Ok(())
}

/// `Step` in kernels/formula.h: term `k`.
pub(super) fn step(terms: &[Term], slots: &Slots, k: usize, domain: Domain) -> [u32; 8] {
    let from = |term: usize| if term + 1 == k { NOWHERE } else { slots.of_terms[term] };
    let mut scalar = [0; 2];
    let (code, operands) = match terms[k] {
        Term::Input(input) => (INPUT, [input as u32, 0, 0]),
        Term::Scalar(number) => {
            scalar = bits(number, domain);
            (SCALAR, [0; 3])
        }
        Term::Unary(function, a) => (UNARY + function as u32, [from(a), 0, 0]),
        Term::Binary(function, a, b) => (BINARY + function as u32, [from(a), from(b), 0]),
        Term::Select(a, b, c) => (SELECT, [from(a), from(b), from(c)]),
    };
    [code, slots.of_terms[k], operands[0], operands[1], operands[2], 0, scalar[0], scalar[1]]
}

/// Slots in which the values of terms are kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slots {
    /// `NOWHERE`: only the next step reads it, or none.
    of_terms: Vec<u32>,
    pub(super) most: usize,
}

impl Slots {
    pub(super) fn of(terms: &[Term]) -> Self {
        let mut last_read = vec![0; terms.len()];
        for (k, term) in terms.iter().enumerate() {
            read_by(term).into_iter().flatten().for_each(|read| last_read[read] = k);
        }
        let (mut of_terms, mut free, mut most) = (Vec::new(), Vec::new(), 0);
        for (k, term) in terms.iter().enumerate() {
            let mut done: Vec<usize> = read_by(term).into_iter().flatten().collect();
            done.sort_unstable();
            done.dedup();
            let ended = done.iter().filter(|&&read| last_read[read] == k);
            free.extend(ended.map(|&read| of_terms[read]).filter(|&slot| slot != NOWHERE));
            of_terms.push(if last_read[k] > k + 1 {
                free.pop().unwrap_or_else(|| {
                    most += 1;
                    most as u32 - 1
                })
            } else {
                NOWHERE
            });
        }
        Self { of_terms, most }
    }
}

/// The terms that a term reads.
fn read_by(term: &Term) -> [Option<usize>; 3] {
    match *term {
        Term::Input(_) | Term::Scalar(_) => [None; 3],
        Term::Unary(_, a) => [Some(a), None, None],
        Term::Binary(_, a, b) => [Some(a), Some(b), None],
        Term::Select(a, b, c) => [Some(a), Some(b), Some(c)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::Binary;

    #[test]
    fn a_chain_needs_no_slots() {
        let chain = [Term::Input(0), Term::Unary(Unary::Exp, 0), Term::Unary(Unary::Sqrt, 1)];
        assert_eq!(Slots::of(&chain), Slots { of_terms: vec![NOWHERE; 3], most: 0 });
    }

    #[test]
    fn slots_are_free_after_the_last_step_that_reads_them() {
        let terms = [
            Term::Input(0),
            Term::Input(1),
            Term::Binary(Binary::Add, 0, 1),
            Term::Input(0),
            Term::Binary(Binary::Mul, 2, 3),
        ];
        let want = Slots { of_terms: vec![0, NOWHERE, 0, NOWHERE, NOWHERE], most: 1 };
        assert_eq!(Slots::of(&terms), want);
    }

    #[test]
    fn functions_have_the_numbers_of_the_kernels() {
        let unary = [Unary::Abs, Unary::Erf, Unary::Not, Unary::Sqrt, Unary::Single];
        assert_eq!(unary.map(|function| function as u32), [0, 10, 17, 23, 27]);
        let binary = [Binary::Add, Binary::Pow, Binary::Equal, Binary::ShiftRight];
        assert_eq!(binary.map(|function| function as u32), [0, 6, 11, 16]);
    }
}
