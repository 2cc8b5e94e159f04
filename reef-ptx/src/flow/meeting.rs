//! Instructions at which ways of the flow graph meet again: immediate postdominators, by Cooper,
//! Harvey and Kennedy (2001).

/// For each node of a graph, the first one that every way from it to an end passes; `None` if
/// there is none, or no end is reached. A node at which some ways end may go on, too.
pub(super) fn meetings(next: &[Vec<usize>], is_end: &[bool]) -> Vec<Option<usize>> {
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
        meetings(next, &next.iter().map(Vec::is_empty).collect::<Vec<_>>())
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
        let at = |end| meetings(&next, &[false, end == 1, end == 2, false]);
        assert_eq!(at(2), [Some(1), Some(2), None, Some(1)]);
        assert_eq!(at(1), [Some(1), None, Some(3), Some(1)]);
    }
}
