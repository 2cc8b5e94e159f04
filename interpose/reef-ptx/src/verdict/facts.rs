//! Facts that verdicts on one kernel are made from.

use super::reason::{Cause, Reason};
use crate::flow::access::{Access, accesses};
use crate::flow::code::Code;
use crate::flow::loops::Loops;
use crate::flow::roots::Roots;
use crate::flow::waits::wait;
use crate::text::cursor::words;
use crate::text::function::Function;
use crate::text::module::{ItemKind, Module, Variable};
use crate::text::statement::Instruction;

/// A kernel with its flow, and all that it uses.
pub(crate) struct Facts<'m, 'a> {
    pub(crate) module: &'m Module<'a>,
    pub(crate) code: Code<'m, 'a>,
    pub(crate) loops: Loops,
    pub(crate) roots: Roots<'a>,
    pub(crate) accesses: Vec<Access>,
    /// Index of the instruction in which a loop of the kernel waits for other blocks.
    pub(crate) wait: Option<usize>,
    /// Functions that it may call, without itself.
    pub(crate) functions: Vec<&'m Function<'a>>,
    pub(crate) variables: Vec<Variable<'a>>,
}

impl<'m, 'a> Facts<'m, 'a> {
    /// # Errors
    ///
    /// The flow of the kernel cannot be followed.
    pub(crate) fn read(module: &'m Module<'a>, kernel: &'m Function<'a>) -> Result<Self, Reason> {
        let code = Code::read(kernel).ok_or_else(|| Reason::new(Cause::Unreadable))?;
        let loops = Loops::of(&code);
        let roots = Roots::of(module, &code);
        let accesses = accesses(&code, &roots);
        let wait = wait(&code, &loops, &accesses);
        let (mut functions, mut variables) = (Vec::new(), Vec::new());
        for item in module.uses(kernel.name) {
            match &module.items[item].kind {
                ItemKind::Function(function) if function.name != kernel.name => {
                    functions.push(function);
                }
                ItemKind::Variable(variable) => variables.push(*variable),
                _ => {}
            }
        }
        Ok(Self { module, code, loops, roots, accesses, wait, functions, variables })
    }

    /// Reason at an instruction of the kernel.
    pub(crate) fn reason(&self, cause: Cause, op: usize) -> Reason {
        let op = &self.code.ops[op];
        let source = op.loc.and_then(|loc| self.module.source_line(loc));
        Reason { cause, line: Some(self.module.line(op.at)), source }
    }

    /// First instruction that fulfils a condition.
    pub(crate) fn find(&self, is: impl Fn(&Instruction<'a>) -> bool) -> Option<usize> {
        self.code.ops.iter().position(|op| is(op.instruction))
    }

    /// First instruction with an operand that begins so, such as a special register.
    pub(crate) fn find_word(&self, begin: &[&str]) -> Option<usize> {
        self.find(|instruction| {
            let mut words = instruction.operands.iter().flat_map(|operand| words(operand.text));
            words.any(|word| begin.iter().any(|begin| word.starts_with(begin)))
        })
    }
}
