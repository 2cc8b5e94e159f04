//! Instructions at which ways of the flow graph meet again: immediate postdominators, by Cooper,
//! Harvey and Kennedy (2001).

use super::code::{Code, Op};
use super::opcode::is_end;

/// For each instruction, the first one that every way from it to an end passes; `None` if there is
/// none, or no end is reached.
pub(super) fn meetings(code: &Code<'_, '_>) -> Vec<Option<usize>> {
    let next: Vec<&[usize]> = code.ops.iter().map(|op| op.next.as_slice()).collect();
    of_graph(&next, &code.ops.iter().map(may_end).collect::<Vec<_>>())
}

/// Returns whether a thread may end at an instruction. A trap ends the kernel.
pub(super) fn may_end(op: &Op<'_, '_>) -> bool {
    // Branches to the end of the function have no instruction to lead to.
    let is_lost_branch = match op.instruction.base() {
        "bra" => op.next.len() < 1 + usize::from(op.guard.is_some()),
        "brx" => true,
        _ => false,
    };
    let is_trap = op.instruction.base() == "trap";
    (is_end(op.instruction) || op.next.is_empty() || is_lost_branch) && !is_trap
}

fn of_graph(next: &[&[usize]], is_end: &[bool]) -> Vec<Option<usize>> {
    let end = next.len();
    let mut previous = vec![Vec::new(); end + 1];
    for (at, all) in next.iter().enumerate() {
        all.iter().for_each(|to| previous[*to].push(at));
        if is_end[at] {
            previous[end].push(at);
        }
    }
    let order = postorder(&previous, end);
    let mut rank = vec![usize::MAX; end + 1];
    order.iter().enumerate().for_each(|(position, at)| rank[*at] = position);
    let mut meeting = vec![None; end + 1];
    meeting[end] = Some(end);
    loop {
        let mut is_changed = false;
        for at in order.iter().rev().copied().filter(|at| *at != end) {
            let ends = is_end[at].then_some(end);
            let known = next[at].iter().copied().chain(ends).filter(|to| meeting[*to].is_some());
            let new = known.reduce(|one, other| common(&meeting, &rank, one, other));
            is_changed |= std::mem::replace(&mut meeting[at], new) != new;
        }
        if !is_changed {
            break;
        }
    }
    meeting.truncate(end);
    meeting.iter().map(|to| to.filter(|to| *to != end)).collect()
}

/// Nodes that are reached from one, each after those that are reached from it.
fn postorder(next: &[Vec<usize>], start: usize) -> Vec<usize> {
    let mut seen = vec![false; next.len()];
    let mut order = Vec::new();
    let mut path = vec![(start, 0)];
    seen[start] = true;
    while let Some((at, edge)) = path.pop() {
        match next[at].get(edge).copied() {
            None => order.push(at),
            Some(to) => {
                path.push((at, edge + 1));
                if !std::mem::replace(&mut seen[to], true) {
                    path.push((to, 0));
                }
            }
        }
    }
    order
}

fn common(meeting: &[Option<usize>], rank: &[usize], mut one: usize, mut other: usize) -> usize {
    while one != other {
        let lower = if rank[one] < rank[other] { &mut one } else { &mut other };
        match meeting[*lower] {
            Some(up) => *lower = up,
            None => break, // not in the order yet
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(next: &[Vec<usize>]) -> Vec<Option<usize>> {
        with_ends(next, &next.iter().map(Vec::is_empty).collect::<Vec<_>>())
    }

    fn with_ends(next: &[Vec<usize>], is_end: &[bool]) -> Vec<Option<usize>> {
        of_graph(&next.iter().map(Vec::as_slice).collect::<Vec<_>>(), is_end)
    }

    #[test]
    fn ways_of_a_branch_meet_behind_it() {
        let next = vec![vec![1, 2], vec![3], vec![3], vec![4], vec![]];
        assert_eq!(of(&next), [Some(3), Some(3), Some(3), Some(4), None]);
    }

    #[test]
    fn ways_of_a_loop_meet_at_its_exit() {
        let next = vec![vec![1], vec![2], vec![1, 3], vec![]];
        assert_eq!(of(&next), [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn loop_without_an_end_meets_nothing() {
        let next = vec![vec![1, 3], vec![2], vec![1], vec![]];
        assert_eq!(of(&next), [Some(3), None, None, None]);
    }

    #[test]
    fn end_in_a_loop_keeps_its_ways_apart() {
        let next = [vec![1], vec![2], vec![3], vec![1]];
        let at = |end| with_ends(&next, &[false, end == 1, end == 2, false]);
        assert_eq!(at(2), [Some(1), Some(2), None, Some(1)]);
        assert_eq!(at(1), [Some(1), None, Some(3), Some(1)]);
    }
}
