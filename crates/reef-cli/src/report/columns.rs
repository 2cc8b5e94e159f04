//! One list of columns for the table that people read and the files that programs read.

use crate::report::table::{Table, micros, millis, table};
use hdrhistogram::Histogram;
use serde_json::{Map, Value};

/// One column of rows of type `R`.
pub(crate) struct Column<R> {
    /// In CSV and JSON, with its unit.
    pub(crate) name: &'static str,
    /// In the table; an empty one is left out there.
    pub(crate) title: &'static str,
    /// Digits behind the point in the table.
    pub(crate) decimals: usize,
    /// `Null` if the row has no such value.
    pub(crate) value: fn(&R) -> Value,
}

impl<R> Column<R> {
    /// Column of tables and files.
    pub(crate) const fn new(
        name: &'static str,
        title: &'static str,
        decimals: usize,
        value: fn(&R) -> Value,
    ) -> Self {
        Self { name, title, decimals, value }
    }

    /// Column of files only.
    pub(crate) const fn hidden(name: &'static str, value: fn(&R) -> Value) -> Self {
        Self { name, title: "", decimals: 0, value }
    }
}

/// A quantile in milliseconds, or `Null` if there are no times.
pub(crate) fn millis_of(times: &Histogram<u64>, quantile: f64) -> Value {
    if times.is_empty() { Value::Null } else { millis(times, quantile).into() }
}

/// A quantile in microseconds, or `Null` if there are no times.
pub(crate) fn micros_of(times: &Histogram<u64>, quantile: f64) -> Value {
    if times.is_empty() { Value::Null } else { micros(times, quantile).into() }
}

/// The table of those columns that have a title.
pub(crate) fn as_table<'r, R: 'r>(
    columns: &[Column<R>],
    rows: impl IntoIterator<Item = &'r R>,
) -> Table {
    let shown = || columns.iter().filter(|column| !column.title.is_empty());
    let mut table = table(&shown().map(|column| column.title).collect::<Vec<_>>());
    for row in rows {
        table.add_row(shown().map(|column| cell(&(column.value)(row), column.decimals)));
    }
    table
}

fn cell(value: &Value, decimals: usize) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "NO" }.into(),
        Value::Number(n) if n.is_f64() => format!("{:.decimals$}", n.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// Rows as CSV with all columns, a line of names first.
pub(crate) fn as_csv<R>(columns: &[Column<R>], rows: &[R]) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let names = line(columns.iter().map(|column| column.name.into()).collect());
    let values = |row| line(columns.iter().map(|column| field(&(column.value)(row))).collect());
    names + &rows.iter().map(values).collect::<String>()
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An object for each row.
pub(crate) fn as_json<R>(columns: &[Column<R>], rows: &[R]) -> Value {
    let object = |row| {
        let values = columns.iter().map(|column| (column.name.into(), (column.value)(row)));
        Value::Object(values.collect::<Map<_, _>>())
    };
    rows.iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<f64>; 3] = [
        Column { name: "name", title: "", decimals: 0, value: |_| "a,\"b\"".into() },
        Column { name: "half_us", title: "half", decimals: 1, value: |x| (x / 2.0).into() },
        Column { name: "none", title: "none", decimals: 0, value: |_| Value::Null },
    ];

    #[test]
    fn one_list_makes_all_three() {
        let rows = [3.0, 4.0];
        let csv = as_csv(&COLUMNS, &rows);
        assert_eq!(csv, "name,half_us,none\n\"a,\"\"b\"\"\",1.5,\n\"a,\"\"b\"\"\",2.0,\n");
        assert_eq!(as_json(&COLUMNS, &rows)[1]["half_us"], 2.0);
        let table = as_table(&COLUMNS, &rows).to_string();
        assert!(table.contains("half") && table.contains('–') && !table.contains("name"));
    }
}
