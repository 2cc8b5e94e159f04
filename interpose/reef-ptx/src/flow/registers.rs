//! Registers of a function, each with a number of its own.

use crate::text::cursor::{Cursor, Kind};
use crate::text::statement::{Statement, StatementKind};
use std::collections::HashMap;

/// Number of a register. Registers of one name in different scopes have different ones.
pub(crate) type Register = u32;

/// Declarations of a function.
#[derive(Debug, Default)]
pub(super) struct Registers<'a> {
    /// For `%r<10>` in a scope: 10.
    families: HashMap<(u32, &'a str), u64>,
    singles: HashMap<(u32, &'a str), ()>,
    numbers: HashMap<(u32, &'a str), Register>,
    parents: Vec<u32>,
}

impl<'a> Registers<'a> {
    pub(super) fn read(statements: &[Statement<'a>], parents: &[u32]) -> Self {
        let mut registers = Self { parents: parents.to_vec(), ..Self::default() };
        for statement in statements {
            if let StatementKind::Directive(".reg", operands) = statement.kind {
                registers.declare(statement.scope, operands);
            }
        }
        registers
    }

    fn declare(&mut self, scope: u32, operands: &'a str) {
        let mut cursor = Cursor::new(operands, 0);
        while let Some(token) = cursor.next() {
            if token.kind != Kind::Word || token.text.starts_with('.') {
                continue;
            }
            if cursor.peek().is_some_and(|next| next.is("<")) {
                cursor.next();
                let count = cursor.next().and_then(|count| count.text.parse().ok());
                self.families.insert((scope, token.text), count.unwrap_or(u64::MAX));
            } else {
                self.singles.insert((scope, token.text), ());
            }
        }
    }

    /// Number of a name as it is seen from a scope; `None` if it is not a register.
    pub(super) fn number(&mut self, name: &'a str, scope: u32) -> Option<Register> {
        let found = self.find(name, scope).or_else(|| {
            let (vector, element) = name.rsplit_once('.')?;
            let is_element = matches!(element, "x" | "y" | "z" | "w" | "r" | "g" | "b" | "a");
            is_element.then(|| self.find(vector, scope)).flatten()
        })?;
        let next = u32::try_from(self.numbers.len()).ok()?;
        Some(*self.numbers.entry(found).or_insert(next))
    }

    pub(super) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Scope and name of the declaration.
    fn find(&self, name: &'a str, mut scope: u32) -> Option<(u32, &'a str)> {
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: Option<u64> = name[family.len()..].parse().ok();
        loop {
            let in_family = number.is_some_and(|number| {
                self.families.get(&(scope, family)).is_some_and(|count| number < *count)
            });
            if in_family || self.singles.contains_key(&(scope, name)) {
                return Some((scope, name));
            }
            if scope == 0 {
                return None;
            }
            scope = self.parents[scope as usize];
        }
    }
}
