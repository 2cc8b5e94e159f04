//! Tables of unmodified programs and of jobs with limits, if there are any.

use super::guests::Guest;
use super::jobs::Job;
use super::sessions::RemoteSession;
use ratatui::layout::Constraint;
use ratatui::style::{Color, Stylize};
use ratatui::widgets::{Row, Table};
use reef_guest::limit::format_bytes;

/// Most sessions of programs elsewhere that are shown.
const MAX_SESSIONS: usize = 12;
/// Most programs that are shown.
const MAX_GUESTS: usize = 20;
/// Most jobs that are shown.
const MAX_JOBS: usize = 12;

/// Returns the widths of a table's first columns, as many as fit. A number that is cut would be
/// another one, so only the column `text` may be cut, to the width `least`.
pub(super) fn fit_columns<const N: usize>(
    mut widths: [u16; N],
    text: usize,
    least: u16,
    width: u16,
) -> Vec<Constraint> {
    let whole = widths.iter().map(|column| column + 1).sum::<u16>() - 1;
    widths[text] -= whole.saturating_sub(width).min(widths[text] - least);
    let mut end = 0;
    let fits = |column: &&u16| {
        end += **column + 1;
        end - 1 <= width
    };
    let count = widths.iter().take_while(fits).count();
    widths[..count.max(1)].iter().map(|column| Constraint::Min(*column)).collect()
}

/// Number of lines of the table: 0 without guests.
pub(super) fn guests_height(guests: &[Guest]) -> u16 {
    if guests.is_empty() { 0 } else { guests.len().min(MAX_GUESTS) as u16 + 1 }
}

pub(super) fn guests_table(guests: &[Guest], width: u16) -> Table<'_> {
    let widths = fit_columns([11, 5, 5, 10, 9, 6, 9, 6, 11, 8], 9, 2, width);
    let header = [
        "program",
        "guest",
        "class",
        "launches/s",
        "delayed/s",
        "held",
        "colocated",
        "GPU ≤",
        "state",
        "job",
    ];
    Table::new(guests.iter().take(MAX_GUESTS).map(guest_row), widths)
        .header(Row::new(header).bold().underlined())
}

fn guest_row(guest: &Guest) -> Row<'_> {
    let is_real_time = guest.class == "rt";
    let state = match (guest.suspended_bytes, guest.is_active, is_real_time) {
        (Some(bytes), ..) => format!("off {}", format_bytes(bytes)),
        (None, false, _) if guest.sliced_per_second > 0.0 => {
            format!("sliced {:.0}/s", guest.sliced_per_second)
        }
        (None, false, _) if guest.whole_per_second > 0.0 => {
            format!("long {:.0}/s", guest.whole_per_second)
        }
        (None, false, _) => String::new(),
        (None, true, true) => {
            guest.growth.map_or("holds".into(), |growth| format!("holds {growth:.2}×"))
        }
        (None, true, false) => "held".into(),
    };
    let style = if is_real_time { Color::Green } else { Color::Reset };
    let launches = format!("{:>10.1}", guest.launches_per_second);
    let delayed = format!("{:>9.1}", guest.delayed_per_second);
    let pid = format!("pid {}", guest.pid);
    let job = match &guest.client {
        Some(client) if guest.job.is_empty() => format!("for {client}"),
        Some(client) => format!("{} for {client}", guest.job),
        None => guest.job.clone(),
    };
    let (number, class) = (guest.guest.clone(), guest.class.clone());
    let parts = [guest.held, guest.colocated, guest.busy];
    let [held, colocated, busy] = parts.map(|part| format!("{:>4.0} %", 100.0 * part));
    Row::new([pid, number, class, launches, delayed, held, colocated, busy, state, job])
        .style(style)
}

/// Number of lines of the table: 0 without sessions.
pub(super) fn sessions_height(sessions: &[RemoteSession]) -> u16 {
    if sessions.is_empty() { 0 } else { sessions.len().min(MAX_SESSIONS) as u16 + 1 }
}

pub(super) fn sessions_table(sessions: &[RemoteSession], width: u16) -> Table<'_> {
    let header =
        ["session", "kind", "memory", "up MB/s", "down MB/s", "trips/s", "state", "program"];
    let widths = fit_columns([11, 8, 10, 9, 9, 9, 9, 16], 7, 8, width);
    Table::new(sessions.iter().take(MAX_SESSIONS).map(session_row), widths)
        .header(Row::new(header).bold().underlined())
}

fn session_row(session: &RemoteSession) -> Row<'_> {
    let rates = [
        session.received_bytes_per_second / 1e6,
        session.sent_bytes_per_second / 1e6,
        session.round_trips_per_second,
    ];
    let [up, down, trips] = rates.map(|rate| format!("{rate:>9.1}"));
    let (name, kind) = (session.session.clone(), session.kind.clone());
    let (memory, state) = (format_bytes(session.memory_bytes), session.state.clone());
    Row::new([name, kind, memory, up, down, trips, state, session.client.clone()])
}

/// Number of lines of the table: 0 without jobs that have limits.
pub(super) fn jobs_height(jobs: &[Job]) -> u16 {
    if jobs.is_empty() { 0 } else { jobs.len().min(MAX_JOBS) as u16 + 1 }
}

pub(super) fn jobs_table(jobs: &[Job], width: u16) -> Table<'_> {
    let header = ["job", "memory", "of", "kept by", "contexts", "time", "of", "refused", "waited"];
    let widths = fit_columns([16, 10, 10, 8, 10, 6, 6, 8, 6], 0, 8, width);
    Table::new(jobs.iter().take(MAX_JOBS).map(job_row), widths)
        .header(Row::new(header).bold().underlined())
}

fn job_row(job: &Job) -> Row<'_> {
    let name = if job.job.is_empty() { "–".into() } else { job.job.clone() };
    let limit = job.memory_bytes.map_or("–".into(), format_bytes);
    let kept_by = match (job.memory_bytes, job.memory_kernel_bytes) {
        (_, Some(_)) => "kernel",
        (Some(_), None) => "library",
        (None, None) => "–",
    };
    let [used, contexts] = [job.memory_used_bytes, job.memory_overhead_bytes].map(format_bytes);
    let percent =
        |part: Option<f64>| part.map_or("–".into(), |part| format!("{:.0} %", 100.0 * part));
    let [had, part, waited] = [job.compute_used, job.compute, job.waited].map(percent);
    Row::new([
        name,
        used,
        limit,
        kept_by.into(),
        contexts,
        had,
        part,
        job.refused.to_string(),
        waited,
    ])
}
