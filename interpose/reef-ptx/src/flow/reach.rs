//! Instructions that may run before or after others.

use super::code::Code;

/// For each instruction, whether it is one of `from` or may run after one.
pub(crate) fn mark_after(code: &Code<'_, '_>, from: &[usize]) -> Vec<bool> {
    closure(from, code.ops.len(), |at| &code.ops[at].next)
}

/// For each instruction, whether it is one of `to` or may run before one.
pub(crate) fn mark_before(code: &Code<'_, '_>, to: &[usize]) -> Vec<bool> {
    let previous = previous(code);
    closure(to, code.ops.len(), |at| &previous[at])
}

/// Indices of the instructions that may run right before each.
pub(crate) fn previous(code: &Code<'_, '_>) -> Vec<Vec<usize>> {
    let mut previous = vec![Vec::new(); code.ops.len()];
    for (at, op) in code.ops.iter().enumerate() {
        op.next.iter().for_each(|next| previous[*next].push(at));
    }
    previous
}

fn closure<'n>(from: &[usize], count: usize, next: impl Fn(usize) -> &'n [usize]) -> Vec<bool> {
    let mut reached = vec![false; count];
    let mut work = from.to_vec();
    while let Some(at) = work.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            work.extend(next(at));
        }
    }
    reached
}

/// Number of instructions of the shortest way from one back to it, without passing others;
/// `None` if there is no way.
pub(crate) fn round(code: &Code<'_, '_>, at: usize, others: &[usize]) -> Option<usize> {
    let mut seen = vec![false; code.ops.len()];
    others.iter().for_each(|other| seen[*other] = true);
    seen[at] = false;
    let (mut length, mut front) = (0, vec![at]);
    while !front.is_empty() {
        length += 1;
        let mut beyond = Vec::new();
        for next in front.iter().flat_map(|at| &code.ops[*at].next).copied() {
            if !std::mem::replace(&mut seen[next], true) {
                beyond.push(next);
            }
        }
        if seen[at] {
            return Some(length);
        }
        front = beyond;
    }
    None
}
