//! The table of unmodified programs, if there are any.

use super::guests::Guest;
use ratatui::layout::Constraint;
use ratatui::style::{Color, Stylize};
use ratatui::widgets::{Row, Table};

/// Most programs that are shown.
const MOST: usize = 20;

/// How many lines the table takes: none if there are no guests.
pub(super) fn height(guests: &[Guest]) -> u16 {
    if guests.is_empty() { 0 } else { guests.len().min(MOST) as u16 + 1 }
}

pub(super) fn table(guests: &[Guest]) -> Table<'_> {
    let widths = [11, 5, 5, 10, 10, 6, 6, 5].map(Constraint::Min); // 74 columns with the job
    let header =
        ["program", "guest", "class", "launches/s", "delayed/s", "held", "GPU ≤", "state", "job"];
    let widths = widths.into_iter().chain([Constraint::Min(8)]);
    Table::new(guests.iter().take(MOST).map(row), widths)
        .header(Row::new(header).bold().underlined())
}

fn row(guest: &Guest) -> Row<'_> {
    let is_real_time = guest.class == "rt";
    let state = match (guest.is_active, is_real_time) {
        (false, _) => "",
        (true, true) => "holds",
        (true, false) => "held",
    };
    let style = if is_real_time { Color::Green } else { Color::Reset };
    let numbers = [guest.launches_per_second, guest.delayed_per_second];
    let [launches, delayed] = numbers.map(|number| format!("{number:>10.1}"));
    let pid = format!("pid {}", guest.pid);
    let (number, class, job) = (guest.guest.clone(), guest.class.clone(), guest.job.clone());
    let [held, busy] = [guest.held, guest.busy].map(|part| format!("{:>4.0} %", 100.0 * part));
    Row::new([pid, number, class, launches, delayed, held, busy, state.into(), job]).style(style)
}
