//! Instructions of a function, with registers and successors.

use super::opcode::{has_result, is_end};
use super::registers::{Register, Registers};
use crate::text::cursor::words;
use crate::text::function::Function;
use crate::text::statement::{Instruction, StatementKind};
use std::collections::HashMap;

/// Instruction with what it reads, writes and is followed by.
#[derive(Debug)]
pub(crate) struct Op<'m, 'a> {
    pub(crate) instruction: &'m Instruction<'a>,
    /// Place in the text.
    pub(crate) at: usize,
    /// Operands of the `.loc` in force.
    pub(crate) loc: Option<&'a str>,
    pub(crate) guard: Option<Register>,
    /// Registers of each operand.
    pub(crate) registers: Vec<Vec<Register>>,
    pub(crate) has_result: bool,
    /// Indices of instructions that may run next. Empty at an end.
    pub(crate) next: Vec<usize>,
}

impl Op<'_, '_> {
    pub(crate) fn written(&self) -> &[Register] {
        self.registers.first().filter(|_| self.has_result).map_or(&[], Vec::as_slice)
    }

    /// Registers of operands that are not results.
    pub(crate) fn read(&self) -> impl Iterator<Item = Register> {
        let first = usize::from(self.has_result);
        self.registers.iter().skip(first).flatten().copied()
    }
}

/// Instructions of a function.
#[derive(Debug)]
pub(crate) struct Code<'m, 'a> {
    pub(crate) function: &'m Function<'a>,
    pub(crate) ops: Vec<Op<'m, 'a>>,
    /// Number of registers.
    pub(crate) registers: usize,
}

impl<'m, 'a> Code<'m, 'a> {
    /// Reads a function; `None` if it has no body, or a branch leads to a label that is not there.
    pub(crate) fn read(function: &'m Function<'a>) -> Option<Self> {
        let body = function.body.as_ref()?;
        let mut registers = Registers::read(&body.statements, &body.parents);
        let mut scopes = Vec::new();
        let mut ops = Vec::new();
        for (statement, instruction, loc) in function.located() {
            let operands = &instruction.operands;
            let mut of = |text| {
                words(text).filter_map(|name| registers.number(name, statement.scope)).collect()
            };
            let of_operands = operands.iter().map(|operand| of(operand.text)).collect();
            let guard: Vec<_> = instruction.guard.map_or_else(Vec::new, |guard| of(guard.register));
            scopes.push(statement.scope);
            ops.push(Op {
                instruction,
                at: statement.at,
                loc,
                guard: guard.first().copied(),
                registers: of_operands,
                has_result: has_result(instruction),
                next: Vec::new(),
            });
        }
        let labels = Labels::read(function);
        let count = ops.len();
        for (at, op) in ops.iter_mut().enumerate() {
            op.next = labels.successors(op.instruction, at, scopes[at])?;
            op.next.retain(|next| *next < count);
        }
        Some(Self { function, ops, registers: registers.count() })
    }
}

/// Places of labels.
struct Labels<'m, 'a> {
    /// Index of the instruction behind a label of a scope.
    places: HashMap<(u32, &'a str), usize>,
    /// Operands of `.branchtargets` behind a label.
    tables: HashMap<&'a str, &'a str>,
    parents: &'m [u32],
}

impl<'m, 'a> Labels<'m, 'a> {
    fn read(function: &'m Function<'a>) -> Self {
        let (statements, parents) = match &function.body {
            Some(body) => (body.statements.as_slice(), body.parents.as_slice()),
            None => (&[][..], &[][..]),
        };
        let mut labels = Self { places: HashMap::new(), tables: HashMap::new(), parents };
        let mut at = 0;
        let mut last = None;
        for statement in statements {
            match statement.kind {
                StatementKind::Label(name) => {
                    labels.places.insert((statement.scope, name), at);
                    last = Some(name);
                    continue;
                }
                StatementKind::Directive(".branchtargets", operands) => {
                    labels.tables.extend(last.map(|name| (name, operands)));
                }
                StatementKind::Instruction(_) => at += 1,
                _ => {}
            }
            last = None;
        }
        labels
    }

    /// Indices behind an instruction; `None` if a label is not there.
    fn successors(&self, op: &Instruction<'a>, at: usize, scope: u32) -> Option<Vec<usize>> {
        let mut next = match op.base() {
            "bra" => vec![self.find(op.operand(0), scope)?],
            "brx" => {
                let table = self.tables.get(op.operand(1))?;
                words(table).map(|label| self.find(label, scope)).collect::<Option<_>>()?
            }
            _ if is_end(op) => Vec::new(),
            _ => vec![at + 1],
        };
        let is_jump = matches!(op.base(), "bra" | "brx") || is_end(op);
        if is_jump && op.guard.is_some() && !next.contains(&(at + 1)) {
            next.push(at + 1);
        }
        Some(next)
    }

    fn find(&self, name: &str, mut scope: u32) -> Option<usize> {
        loop {
            if let Some(place) = self.places.get(&(scope, name)) {
                return Some(*place);
            }
            if scope == 0 {
                return None;
            }
            scope = self.parents[scope as usize];
        }
    }
}
