//! One block: its threads, shared memory and barrier.

use super::memory::Memory;
use super::thread::{Step, Thread, World};
use crate::flow::code::Code;
use crate::text::function::{Parameter, offsets, type_bytes};
use crate::text::module::Module;
use crate::text::statement::StatementKind;
use std::collections::HashMap;

/// Launch of a kernel.
#[derive(Debug, Clone)]
pub struct Grid {
    /// Size in blocks.
    pub blocks: [u32; 3],
    /// Size of a block in threads.
    pub threads: [u32; 3],
    /// Bytes of the parameters.
    pub parameters: Vec<u8>,
}

/// Kernel that can be run.
#[allow(missing_debug_implementations)] // of tests
pub struct Program<'m, 'a> {
    code: Code<'m, 'a>,
    shared: HashMap<&'a str, u64>,
    shared_bytes: usize,
}

impl<'m, 'a> Program<'m, 'a> {
    /// Reads a kernel of a module.
    ///
    /// # Panics
    ///
    /// The module has no such kernel, or it is not read here.
    pub fn read(module: &'m Module<'a>, kernel: &str) -> Self {
        let function = module.function(kernel).expect("the kernel");
        let code = Code::read(function).expect("its flow");
        let (mut shared, mut end) = (HashMap::new(), 0);
        for statement in &function.body.as_ref().expect("a body").statements {
            if let StatementKind::Directive(".shared", operands) = statement.kind {
                let (name, bytes) = variable(operands);
                shared.insert(name, end);
                end = (end + bytes).next_multiple_of(16);
            }
        }
        Self { code, shared, shared_bytes: end as usize }
    }

    /// Returns offsets and bytes of its parameters.
    pub fn places(&self) -> Vec<(usize, usize)> {
        let parameters = &self.code.function.parameters;
        let of = |(at, parameter): (u64, &Parameter<'_>)| (at as usize, parameter.bytes as usize);
        offsets(parameters).0.into_iter().zip(parameters).map(of).collect()
    }

    /// Runs one block.
    ///
    /// # Panics
    ///
    /// An instruction is not known, or a thread does not end.
    pub fn run(&self, grid: &Grid, ctaid: [u32; 3], global: &mut dyn Memory) {
        let [x, y, z] = grid.threads;
        let tids = (0..x * y * z).map(|at| [at % x, at / x % y, at / x / y]);
        let mut threads: Vec<_> = tids
            .map(|tid| Thread { registers: vec![0; self.code.registers], at: 0, tid })
            .collect();
        let mut shared = vec![0; self.shared_bytes];
        let mut world = World {
            global,
            shared: &mut shared,
            parameters: &grid.parameters,
            symbols: &self.shared,
            function: self.code.function,
            indices: [ctaid, grid.blocks, grid.threads],
        };
        let count = threads.len();
        while !threads.is_empty() {
            let mut is_set = false;
            threads.retain_mut(|thread| match self.until_barrier(thread, &mut world) {
                Some(own) => {
                    is_set |= own;
                    true
                }
                None => false,
            });
            // PTX does not say what threads that have ended give: here they say yes.
            is_set |= threads.len() < count;
            for thread in &mut threads {
                thread.set(&self.code.ops[thread.at], u64::from(is_set));
                thread.at += 1;
            }
        }
    }

    /// Runs a thread to its next barrier; `None` at its end.
    fn until_barrier(&self, thread: &mut Thread, world: &mut World<'_>) -> Option<bool> {
        for _ in 0..100_000 {
            let op = self.code.ops.get(thread.at)?;
            match thread.step(op, world) {
                Step::Next => {}
                Step::End => return None,
                Step::Barrier(is_set) => return Some(is_set),
            }
        }
        panic!("a thread does not end");
    }
}

/// Name and size of `.align 4 .b8 name[256];`
fn variable(operands: &str) -> (&str, u64) {
    let declared = operands.trim().trim_end_matches(';').trim();
    let mut words = declared.split_whitespace();
    let element = words.clone().find_map(|word| type_bytes(word.strip_prefix('.')?));
    let name = words.next_back().expect("a name");
    let (name, count) = name.split_once('[').unwrap_or((name, "1]"));
    let count: u64 = count.trim_end_matches(']').parse().expect("a number of elements");
    (name, count * element.expect("a type"))
}
