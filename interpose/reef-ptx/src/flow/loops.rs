//! Cycles of the flow graph: strongly connected components, by Tarjan (1972).

use super::code::Code;

/// Component of each instruction.
#[derive(Debug)]
pub(crate) struct Loops {
    component: Vec<usize>,
    /// Instructions of each component that is a cycle.
    cycles: Vec<Vec<usize>>,
}

impl Loops {
    pub(crate) fn of(code: &Code<'_, '_>) -> Self {
        let mut search = Search::new(code);
        for start in 0..code.ops.len() {
            search.visit(start);
        }
        let mut members = vec![Vec::new(); search.components];
        for (at, component) in search.component.iter().enumerate() {
            members[*component].push(at);
        }
        let is_cycle = |ops: &Vec<usize>| ops.len() > 1 || code.ops[ops[0]].next.contains(&ops[0]);
        let cycles = members.into_iter().filter(is_cycle).collect();
        Self { component: search.component, cycles }
    }

    /// Outermost cycles, each with its instructions, rising.
    pub(crate) fn cycles(&self) -> &[Vec<usize>] {
        &self.cycles
    }

    pub(crate) fn are_together(&self, one: usize, other: usize) -> bool {
        self.component[one] == self.component[other]
    }
}

/// State of the search, without recursion.
struct Search<'c, 'm, 'a> {
    code: &'c Code<'m, 'a>,
    order: Vec<usize>,
    low: Vec<usize>,
    component: Vec<usize>,
    stack: Vec<usize>,
    visited: usize,
    components: usize,
}

const NONE: usize = usize::MAX;

impl<'c, 'm, 'a> Search<'c, 'm, 'a> {
    fn new(code: &'c Code<'m, 'a>) -> Self {
        let none = || vec![NONE; code.ops.len()];
        Self {
            code,
            order: none(),
            low: none(),
            component: none(),
            stack: Vec::new(),
            visited: 0,
            components: 0,
        }
    }

    fn visit(&mut self, start: usize) {
        if self.order[start] != NONE {
            return;
        }
        let mut path = vec![(start, 0)];
        self.enter(start);
        while let Some((at, edge)) = path.pop() {
            if let Some(next) = self.code.ops[at].next.get(edge).copied() {
                path.push((at, edge + 1));
                if self.order[next] == NONE {
                    self.enter(next);
                    path.push((next, 0));
                } else if self.component[next] == NONE {
                    self.low[at] = self.low[at].min(self.order[next]);
                }
                continue;
            }
            if self.low[at] == self.order[at] {
                self.close(at);
            }
            if let Some((parent, _)) = path.last() {
                self.low[*parent] = self.low[*parent].min(self.low[at]);
            }
        }
    }

    fn enter(&mut self, at: usize) {
        self.order[at] = self.visited;
        self.low[at] = self.visited;
        self.visited += 1;
        self.stack.push(at);
    }

    fn close(&mut self, root: usize) {
        while let Some(at) = self.stack.pop() {
            self.component[at] = self.components;
            if at == root {
                break;
            }
        }
        self.components += 1;
    }
}
