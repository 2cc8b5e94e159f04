//! Tables for people.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use hdrhistogram::Histogram;

/// One line under the header: a line under each row would double the height.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// An empty table; all columns but the first are numbers.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A quantile of times in nanoseconds, in milliseconds.
pub(crate) fn millis(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e6
}

/// The 99.9th percentile of times in nanoseconds, in milliseconds. Of fewer than 5,000 it would be told by the five
/// slowest or less, and isn't.
#[cfg(feature = "daemon")]
pub(crate) fn p999_millis(histogram: &Histogram<u64>) -> Option<f64> {
    (histogram.len() >= 5_000).then(|| millis(histogram, 0.999))
}

/// A quantile of times in nanoseconds, in microseconds.
pub(crate) fn micros(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}
