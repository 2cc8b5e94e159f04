//! Tables for people.

use hdrhistogram::Histogram;
use std::fmt::{self, Display};
use std::iter::repeat_n;
use unicode_width::UnicodeWidthStr;

/// Rows of text in columns: the first column begins at its left end, all others, which are numbers,
/// end at their right one. A row is one line, and there is a rule under the header alone.
pub(crate) struct Table {
    /// Places that each column takes on a terminal.
    widths: Vec<usize>,
    /// All cells one after the other, row by row, the header first.
    text: String,
    /// End of each cell in `text`, and its columns.
    cells: Vec<(usize, usize)>,
}

/// An empty table; all columns but the first are numbers.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table { widths: vec![0; header.len()], text: String::new(), cells: Vec::new() };
    table.add_row(header);
    table
}

impl Table {
    /// Adds a row of a cell for each column; those that it has not are empty. Control characters
    /// become spaces.
    pub(crate) fn add_row<C: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut cells = cells.into_iter();
        for width in &mut self.widths {
            let start = self.text.len();
            if let Some(cell) = cells.next() {
                let shown = |c: char| if c.is_control() { ' ' } else { c };
                self.text.extend(cell.as_ref().chars().map(shown));
            }
            let cell = &self.text[start..];
            let places = if cell.is_ascii() { cell.len() } else { cell.width() };
            *width = places.max(*width);
            self.cells.push((self.text.len(), places));
        }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1);
        let rows = self.cells.chunks(self.widths.len().max(1));
        let mut lines = String::with_capacity((rows.len() + 3) * (places + 1));
        let mut start = 0;
        for (number, row) in rows.enumerate() {
            if number > 0 {
                lines.push('\n');
            }
            for (column, (&(end, places), width)) in row.iter().zip(&self.widths).enumerate() {
                let (text, gap) = (&self.text[start..end], repeat_n(' ', width - places));
                start = end;
                if column == 0 {
                    lines.push(' ');
                    lines.push_str(text);
                    lines.extend(gap);
                } else {
                    lines.push_str("  ");
                    lines.extend(gap);
                    lines.push_str(text);
                }
                lines.push(' ');
            }
            if number == 0 {
                lines.push('\n');
                lines.extend(repeat_n('─', places));
            }
        }
        f.write_str(&lines)
    }
}

/// A quantile of times in nanoseconds, in milliseconds.
pub(crate) fn millis(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e6
}

/// The 99.9th percentile of times in nanoseconds, in milliseconds. Of fewer than 5,000 it would be
/// told by the five slowest or less, and isn't.
#[cfg(feature = "daemon")]
pub(crate) fn p999_millis(histogram: &Histogram<u64>) -> Option<f64> {
    (histogram.len() >= 5_000).then(|| millis(histogram, 0.999))
}

/// A quantile of times in nanoseconds, in microseconds.
pub(crate) fn micros(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other_whatever_is_in_them() {
        let mut table = table(&["what", "p50 µs", "n"]);
        table.add_row(["a\nb", "1.5", "10"]);
        table.add_row(["名前", "–"]);
        let want = [
            " what   p50 µs    n ",
            "────────────────────",
            " a b       1.5   10 ",
            " 名前        –      ",
        ];
        assert_eq!(table.to_string().lines().collect::<Vec<_>>(), want);
    }
}
