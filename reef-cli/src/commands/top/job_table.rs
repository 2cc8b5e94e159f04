//! The table of jobs with limits, if there are any.

use super::jobs::Job;
use ratatui::layout::Constraint;
use ratatui::style::Stylize;
use ratatui::widgets::{Row, Table};
use reef_guest::limit::shown;

/// Most jobs that are shown.
const MOST: usize = 12;

/// How many lines the table takes: none if there are no jobs with limits.
pub(super) fn height(jobs: &[Job]) -> u16 {
    if jobs.is_empty() { 0 } else { jobs.len().min(MOST) as u16 + 1 }
}

pub(super) fn table(jobs: &[Job]) -> Table<'_> {
    let header = ["job", "memory", "of", "contexts", "time", "of", "refused", "waited"];
    let widths = [16, 10, 10, 10, 6, 6, 8, 6].map(Constraint::Min);
    Table::new(jobs.iter().take(MOST).map(row), widths).header(Row::new(header).bold().underlined())
}

fn row(job: &Job) -> Row<'_> {
    let name = if job.job.is_empty() { "–".into() } else { job.job.clone() };
    let limit = job.memory_bytes.map_or("–".into(), shown);
    let [used, contexts] = [job.memory_used_bytes, job.memory_overhead_bytes].map(shown);
    let percent =
        |part: Option<f64>| part.map_or("–".into(), |part| format!("{:.0} %", 100.0 * part));
    let [had, part, waited] = [job.compute_used, job.compute, job.waited].map(percent);
    Row::new([name, used, limit, contexts, had, part, job.refused.to_string(), waited])
}
