//! The screen of `reef top`.

use super::tables::{
    fit_columns, guests_height, guests_table, jobs_height, jobs_table, sessions_height,
    sessions_table,
};
use super::view::{Model, Share, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, LineGauge, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;
use std::time::Duration;

/// Intervals that curves remember.
const REMEMBERED: usize = 300;

/// Clients whose shares are shown: those that take most.
const MAX_SHARES: usize = 8;

/// Headers of the table, and how wide its columns are at least.
const COLUMNS: [(&str, u16); 9] = [
    ("model", 16),
    ("version", 7),
    ("class", 5),
    ("req/s", 9),
    ("failed/s", 8),
    ("p50 ms", 9),
    ("p99 ms", 9),
    ("queued", 6),
    ("on demand", 9),
];

/// The last that is known of a daemon.
pub(crate) struct Screen {
    daemon: String,
    interval: Duration,
    view: Option<View>,
    /// Why there is no daemon.
    lost: Option<String>,
    /// Requests of each class and preemptions in a second, the newest first.
    curves: [VecDeque<u64>; 3],
}

impl Screen {
    pub(crate) fn new(daemon: String, interval: Duration) -> Self {
        Self { daemon, interval, view: None, lost: None, curves: Default::default() }
    }

    /// There is a daemon, and after its first interval something to show.
    pub(crate) fn update(&mut self, view: Option<View>) {
        self.lost = None;
        let Some(view) = view else { return };
        let rates = [view.rt_per_second, view.be_per_second, view.preemptions_per_second];
        for (curve, rate) in self.curves.iter_mut().zip(rates) {
            curve.push_front(rate.round() as u64);
            curve.truncate(REMEMBERED);
        }
        self.view = Some(view);
    }

    /// There is none; what it did last stays on the screen.
    pub(crate) fn lose(&mut self, why: String) {
        self.lost = Some(why);
    }

    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
        let devices = self.view.as_ref().map_or(0, |view| view.devices.len()).max(1) as u16;
        let programs = self.view.as_ref().map_or(0, |view| guests_height(&view.guests));
        let jobs = self.view.as_ref().map_or(0, |view| jobs_height(&view.jobs));
        let remote = self.view.as_ref().map_or(0, |view| sessions_height(&view.sessions));
        let shares = self.view.as_ref().map_or(0, |view| view.shares.len());
        let shares = if shares > 0 { shares.min(MAX_SHARES) as u16 + 1 } else { 0 };
        let rows = [1, devices, 3, 4, shares].map(Constraint::Length);
        let rows = rows.into_iter().chain([
            Constraint::Min(3),
            Constraint::Length(programs),
            Constraint::Length(remote),
            Constraint::Length(jobs),
            Constraint::Length(1),
        ]);
        let [title, devices, facts, curves, shares, models, guests, sessions, limits, foot] =
            Layout::vertical(rows).areas::<10>(frame.area());
        frame.render_widget(Line::from(format!("reef top  {}", self.daemon)).bold(), title);
        frame.render_widget(self.foot(), foot);
        let Some(view) = &self.view else { return };
        let width = frame.area().width;
        draw_devices(frame, devices, view);
        frame.render_widget(Paragraph::new(numbers(view)), facts);
        self.draw_curves(frame, curves, view);
        frame.render_widget(share_table(&view.shares, width), shares);
        frame.render_widget(table(&view.models, width), models);
        if programs > 0 {
            frame.render_widget(guests_table(&view.guests, width), guests);
        }
        if remote > 0 {
            frame.render_widget(sessions_table(&view.sessions, width), sessions);
        }
        if jobs > 0 {
            frame.render_widget(jobs_table(&view.jobs, width), limits);
        }
    }

    /// State of the daemon, and the meaning of keys.
    fn foot(&self) -> Line<'_> {
        let keys = format!("every {:?}, q quits", self.interval);
        match (&self.lost, &self.view) {
            (Some(why), _) => Line::from(format!("{why}; waiting for a daemon, q quits")).red(),
            (None, Some(view)) => Line::from(format!("{}, {keys}", view.date)).dim(),
            (None, None) => Line::from(format!("counting, {keys}")).dim(),
        }
    }

    /// The newest on the right.
    fn draw_curves(&self, frame: &mut Frame<'_>, area: Rect, view: &View) {
        let named = [
            ("RT requests/s", view.rt_per_second, Color::Green),
            ("BE requests/s", view.be_per_second, Color::Blue),
            ("preemptions/s", view.preemptions_per_second, Color::Yellow),
        ];
        let areas = Layout::horizontal([Constraint::Fill(1); 3]).areas::<3>(area);
        for ((curve, (name, rate, color)), area) in self.curves.iter().zip(named).zip(areas) {
            let block = Block::new().borders(Borders::TOP).title(format!("{name} {rate:.1} "));
            let room = usize::from(area.width);
            let old: Vec<_> = curve.iter().take(room).rev().copied().collect();
            let empty = std::iter::repeat_n(0, room.saturating_sub(old.len()));
            let data: Vec<_> = empty.chain(old).collect();
            let line = Sparkline::default().data(&data).style(color).block(block);
            frame.render_widget(line, area);
        }
    }
}

/// A line for each device: how much of the time something runs on it.
fn draw_devices(frame: &mut Frame<'_>, area: Rect, view: &View) {
    if view.devices.is_empty() {
        frame
            .render_widget(Line::from("the daemon doesn't say how busy its device is").dim(), area);
    }
    for (device, area) in view.devices.iter().zip(area.rows()) {
        let units = device.units.map_or(String::new(), |units| format!(", {units} units"));
        let busy = device.busy_percent.map_or("–".into(), |busy| format!("{busy:3.0} %"));
        if device.is_lost {
            frame.render_widget(Line::from(format!("{}{units}  lost", device.name)).red(), area);
            continue;
        }
        let load = device.load.map_or(String::new(), |load| format!("  load {load}"));
        let gauge = LineGauge::default()
            .label(format!("{}{units}  busy {busy}{load}", device.name))
            .ratio((device.busy_percent.unwrap_or(0.0) / 100.0).clamp(0.0, 1.0))
            .filled_style(Style::new().fg(Color::Green));
        frame.render_widget(gauge, area);
    }
}

fn numbers(view: &View) -> Vec<Line<'static>> {
    let micros = |time: Option<f64>| time.map_or("–".into(), |time| format!("{time:.1}"));
    let paths: Vec<_> =
        view.connections_by_path.iter().map(|(path, count)| format!("{path} {count}")).collect();
    let paths = if paths.is_empty() { String::new() } else { format!(" ({})", paths.join(", ")) };
    let mebibytes = view.memory_bytes as f64 / f64::from(1 << 20);
    let failed = format!("failed {:.1}/s", view.failed_per_second);
    let failed = if view.failed_per_second > 0.0 { failed.red() } else { Span::from(failed) };
    vec![
        Line::from(format!(
            "connections {}{paths}  open requests {}  models {}  memory {mebibytes:.0} MiB",
            view.connections, view.open_requests, view.models_loaded
        )),
        Line::from(vec![
            format!("queued {}  padded {:.1}/s  ", view.queued, view.padded_per_second).into(),
            failed,
        ]),
        Line::from(format!(
            "RT starts after  p50 {} µs  p99 {} µs",
            micros(view.rt_start_p50_us),
            micros(view.rt_start_p99_us)
        )),
    ]
}

fn table(models: &[Model], width: u16) -> Table<'_> {
    let header = COLUMNS.iter().enumerate().map(|(index, (name, width))| {
        let name = if index < 3 { (*name).into() } else { right(name, *width) };
        Cell::from(name)
    });
    let widths = fit_columns(COLUMNS.map(|(_, width)| width), 0, 8, width);
    // As the table itself divides them.
    let columns = Layout::horizontal(widths.iter().copied()).spacing(1_u16);
    let last = columns.split(Rect::new(0, 0, width, 1)).last().map_or(0, |column| column.width);
    let rows = models.iter().map(|model| row(model, last));
    Table::new(rows, widths).header(Row::new(header).bold().underlined())
}

/// Row of a model. The state of its processes has this width, if that column is there.
fn row(model: &Model, last: u16) -> Row<'_> {
    let millis = |time: Option<f64>| time.map_or("–".into(), |time| format!("{time:.3}"));
    let numbers = [
        format!("{:.1}", model.per_second),
        format!("{:.1}", model.failed_per_second),
        millis(model.p50_ms),
        millis(model.p99_ms),
        model.queued.to_string(),
    ];
    let numbers = numbers.iter().zip(&COLUMNS[3..]).map(|(text, (_, width))| right(text, *width));
    let residency = model.residency.as_ref().map(|residency| residency.text_within(last));
    let names = [&model.model, &model.version, &model.class].map(Clone::clone);
    let style = if model.class == "rt" { Color::Green } else { Color::Reset };
    Row::new(names.into_iter().chain(numbers).chain(residency)).style(style)
}

/// Shares of the device by client, and granted budgets.
fn share_table(shares: &[Share], width: u16) -> Table<'_> {
    let mut shares: Vec<_> = shares.iter().collect();
    shares.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    let number = |number: Option<f64>| number.map_or("–".into(), |number| format!("{number:.1}"));
    let row = |share: &Share| {
        let Share {
            percent, budget_percent, held_percent, late_per_second, over_per_second, ..
        } = *share;
        let numbers =
            [Some(percent), budget_percent, held_percent, late_per_second, over_per_second];
        let numbers = numbers.map(|of| right(&number(of), 9));
        Row::new([share.client.clone(), share.class.clone()].into_iter().chain(numbers))
    };
    let names = ["device %", "budget %", "held %", "late/s", "over/s"].map(|name| right(name, 9));
    let header = Row::new(["client".into(), "class".into()].into_iter().chain(names)).bold();
    let widths = fit_columns([24, 5, 9, 9, 9, 9, 9], 0, 8, width);
    Table::new(shares.into_iter().take(MAX_SHARES).map(row), widths).header(header)
}

/// Pads a text on the left to `width` columns.
fn right(text: &str, width: u16) -> String {
    format!("{text:>width$}", width = usize::from(width))
}

#[cfg(test)]
mod tests {
    use super::super::view::Device;
    use super::super::view::tests::view;
    use super::*;
    use crate::remote::residency::Residency;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    fn screen() -> Screen {
        Screen::new("/run/http.sock".into(), Duration::from_secs(1))
    }

    #[test]
    fn everything_is_on_it() {
        let mut screen = screen();
        screen.update(Some(view()));
        let lines = drawn(&screen, 90, 24);
        let text = lines.join("\n");
        assert_eq!(lines[0], "reef top  /run/http.sock");
        assert!(lines[1].starts_with("cpu:0, 8 units  busy  25 %"), "{text}");
        for want in [
            "connections 5 (grpc 2, local 3)  open requests 0  models 0  memory 3 MiB",
            "queued 5  padded 0.0/s  failed 2.0/s",
            "RT starts after  p50 5.0 µs  p99 9.9 µs",
            "RT requests/s 100.0",
            "BE requests/s 40.0",
            "preemptions/s 90.0",
            "every 1s, q quits",
            "token a",
        ] {
            assert!(text.contains(want), "{want}:\n{text}");
        }
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        let rt = lines
            .iter()
            .find(|line| line.contains(" rt ") && line.contains("resnet"))
            .expect("its row");
        let share = lines.iter().find(|line| line.starts_with("token a")).expect("its row");
        assert_eq!(words(share), ["token", "a", "rt", "12.5", "20.0", "50.0", "1.0", "2.0"]);
        assert_eq!(words(rt), ["resnet18", "1", "rt", "100.0", "0.0", "1.500", "1.990", "0"]);
        let job = lines.iter().find(|line| line.starts_with("team")).expect("its row");
        let want = ["team", "3", "MiB", "8", "GiB", "library", "0", "bytes", "–", "–", "0", "–"];
        assert_eq!(words(job), want);
        let guest = lines.iter().find(|line| line.starts_with("pid 77")).expect("its row");
        let want = [
            "pid", "77", "3", "be", "0.0", "0.0", "0", "%", "0", "%", "0", "%", "off", "6", "GiB",
            "training",
        ];
        assert_eq!(words(guest), want);
        let is_be = |line: &&String| line.contains(" be ") && line.contains("resnet");
        let be = lines.iter().find(is_be).expect("its row");
        assert_eq!(words(be), ["resnet18", "1", "be", "40.0", "2.0", "–", "–", "5"]);
    }

    fn share(class: &str, percent: f64, held: f64, over: Option<f64>) -> Share {
        Share {
            client: "user 0".into(),
            class: class.into(),
            percent,
            budget_percent: None,
            over_per_second: over,
            late_per_second: over,
            held_percent: Some(held),
        }
    }

    fn model(class: &str, per_second: f64, times: [Option<f64>; 2]) -> Model {
        let [p50_ms, p99_ms] = times;
        Model {
            model: "resnet18".into(),
            version: "1".into(),
            class: class.into(),
            per_second,
            failed_per_second: 0.0,
            p50_ms,
            p99_ms,
            queued: 0,
            residency: None,
        }
    }

    /// The view of the page about watching a daemon.
    fn view_of_the_page() -> View {
        let device = Device {
            name: "cpu:0".into(),
            units: Some(2),
            busy_percent: Some(100.0),
            load: Some(2),
            is_lost: false,
        };
        let paths = [("grpc", 0), ("http", 1), ("local", 2)];
        View {
            devices: vec![device],
            connections: 3,
            connections_by_path: paths.map(|(path, count)| (path.to_owned(), count)).into(),
            models_loaded: 2,
            memory_bytes: 186 << 20,
            rt_per_second: 1.0,
            be_per_second: 0.0,
            failed_per_second: 0.0,
            queued: 0,
            preemptions_per_second: 1.0,
            rt_start_p50_us: Some(24576.0),
            rt_start_p99_us: Some(32604.2),
            models: vec![
                model("be", 0.0, [None; 2]),
                model("rt", 1.0, [Some(1048.576), Some(2076.180)]),
            ],
            guests: Vec::new(),
            jobs: Vec::new(),
            shares: vec![share("rt", 81.9, 3.2, Some(0.0)), share("be", 0.0, 0.0, None)],
            ..view()
        }
    }

    /// Apart from its curves, and from title and foot, which it leaves out.
    #[test]
    fn screen_on_the_page_is_that_of_today() {
        let page = include_str!("../../../../../docs/operate/observe.md");
        let (_, shown) = page.split_once("```text\n").expect("a screen");
        let (shown, _) = shown.split_once("```").expect("its end");
        let is_text = |line: &&str| line.contains(char::is_alphanumeric);
        let shown: Vec<&str> = shown.lines().filter(is_text).collect();
        let mut screen = screen();
        screen.update(Some(view_of_the_page()));
        let lines = drawn(&screen, 100, 24);
        let lines: Vec<&str> = lines.iter().map(String::as_str).filter(is_text).collect();
        assert_eq!(lines[1..lines.len() - 1], shown);
    }

    #[test]
    fn numbers_are_whole_or_missing_on_a_narrow_terminal() {
        let mut screen = screen();
        screen.update(Some(view()));
        let model = ["resnet18", "1", "rt", "100.0", "0.0", "1.500", "1.990", "0"];
        let guest = ["pid", "77", "3", "be", "0.0", "0.0", "0", "%", "0", "%", "0", "%"];
        for width in 36..=90 {
            let lines = drawn(&screen, width, 24);
            let rows = [("resnet18", " rt", &model[..]), ("pid 77", " be", &guest[..])];
            for (begin, class, want) in rows {
                let is_row = |line: &&String| line.starts_with(begin) && line.contains(class);
                let row = lines.iter().find(is_row).expect("a row");
                let words: Vec<_> = row.split_whitespace().take(want.len()).collect();
                assert!(want.starts_with(&words), "{width} columns: {row}");
                assert!(words.len() > 3 && (width < 86 || words == want), "{width}: {row}");
            }
        }
    }

    #[test]
    fn header_of_programs_is_whole_in_80_columns() {
        let mut screen = screen();
        screen.update(Some(view()));
        let lines = drawn(&screen, 80, 24);
        let header = lines.iter().find(|line| line.starts_with("program ")).expect("a header");
        assert!(header.contains(" colocated ") && header.contains(" state"), "{header}");
    }

    #[test]
    fn bytes_on_demand_are_whole_or_missing() {
        let (mut screen, mut view) = (screen(), view());
        let (states, resident_bytes) = (vec!["resident".to_owned()], Some(41 << 29));
        let residency = Residency { states, resident_bytes, returns: 0, returned: None };
        view.models[0].residency = Some(residency);
        screen.update(Some(view));
        let shown = |width: u16| {
            let lines = drawn(&screen, width, 24);
            let mut rows = lines.into_iter().filter(|line| line.contains("resident"));
            rows.next().expect("a row")
        };
        for width in 86..=200 {
            let row = shown(width);
            let is_whole = row.ends_with(" resident") || row.ends_with(" resident 20.5 GiB");
            assert!(is_whole, "{width} columns: {row}");
        }
        assert!(shown(200).ends_with("GiB"), "{}", shown(200));
    }

    #[test]
    fn a_daemon_that_is_gone_is_said_to_be_and_what_it_did_stays() {
        let mut screen = screen();
        screen.lose("no daemon at /run/http.sock".into());
        let last = |screen: &Screen| drawn(screen, 90, 16).pop().unwrap();
        assert_eq!(last(&screen), "no daemon at /run/http.sock; waiting for a daemon, q quits");
        screen.update(None);
        assert_eq!(last(&screen), "counting, every 1s, q quits");
        screen.update(Some(view()));
        screen.lose("gone".into());
        assert!(drawn(&screen, 90, 16).iter().any(|line| line.contains("RT requests/s 100.0")));
        assert_eq!(last(&screen), "gone; waiting for a daemon, q quits");
    }

    #[test]
    fn the_smallest_terminal_is_no_reason_to_panic() {
        let mut screen = screen();
        screen.update(Some(view()));
        for (width, height) in [(1, 1), (3, 2), (10, 5), (400, 3), (500, 200)] {
            drawn(&screen, width, height);
        }
    }
}
