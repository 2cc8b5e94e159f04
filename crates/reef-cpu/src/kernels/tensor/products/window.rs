//! Terms that see a window, as those of a convolution of single channels do.

/// Lines of outputs that are made together.
pub(super) const LINES: usize = 8;

/// A window of values that lie line after line: its term number `row * columns + column` has that
/// factor, and the value `row * down + column`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) down: usize,
}

impl Window {
    /// `None` if `terms` are those of no window.
    pub(super) fn of(terms: &[[usize; 2]]) -> Option<Self> {
        let follows = |&(k, term): &(usize, &[usize; 2])| term[1] == k;
        let columns = terms.iter().enumerate().take_while(follows).count();
        let rows = terms.len().checked_div(columns)?;
        let down = terms.get(columns).map_or(0, |term| term[1]);
        let lies = |(k, term): (usize, &[usize; 2])| {
            *term == [k, k / columns * down + k % columns] && k < rows * columns
        };
        let all = terms.iter().enumerate().all(lies);
        all.then_some(Self { rows, columns, down })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terms of a window of three by five over lines of 20 values.
    fn terms() -> Vec<[usize; 2]> {
        (0..15).map(|k| [k, k / 5 * 20 + k % 5]).collect()
    }

    #[test]
    fn a_window_is_found_and_nothing_else_is_one() {
        assert_eq!(Window::of(&terms()), Some(Window { rows: 3, columns: 5, down: 20 }));
        assert_eq!(Window::of(&[[0, 0]]), Some(Window { rows: 1, columns: 1, down: 0 }));
        for (k, term) in [(14, [14, 43]), (14, [13, 44]), (5, [5, 21]), (3, [3, 7]), (0, [0, 1])] {
            let mut terms = terms();
            terms[k] = term;
            assert_eq!(Window::of(&terms), None, "{term:?} in place {k}");
        }
        assert_eq!(Window::of(&terms()[..13]), None, "a part of a row");
        assert_eq!(Window::of(&[]), None);
    }
}
