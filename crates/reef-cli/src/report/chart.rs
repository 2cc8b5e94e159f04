//! Charts as SVG.

use hdrhistogram::Histogram;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

const SIZE: (u32, u32) = (860, 480);
/// Height of a page's title.
const TITLE: u32 = 40;
/// Panels below each other at most; more of them stand in two columns.
const MAX_ROWS: usize = 3;
/// Shades of curves next to the one that a chart is about.
const GREYS: [u8; 6] = [60, 100, 130, 160, 185, 205];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ticked, Ticked>>;

/// A curve.
pub(crate) struct Series<'h> {
    pub(crate) name: String,
    /// In nanoseconds.
    pub(crate) values: &'h Histogram<u64>,
    /// It is what the chart is about: it is thick, and all others are grey.
    pub(crate) is_main: bool,
}

/// One chart of several on a page.
pub(crate) struct Panel<'h> {
    pub(crate) caption: String,
    /// Name and nanoseconds.
    pub(crate) unit: (&'static str, f64),
    pub(crate) series: Vec<Series<'h>>,
}

/// Draws which share of values is how large at most, a chart for each panel.
///
/// The axis of values is logarithmic: curves that differ by less than one large value would lie on
/// one another. Panels of the same unit have the same axis.
pub(crate) fn shares(path: &Path, title: &str, panels: &[Panel<'_>]) -> anyhow::Result<()> {
    let mut text = String::new();
    draw_page(&mut text, title, panels)?;
    Ok(reef_files::write(path, text)?)
}

fn draw_page(text: &mut String, title: &str, panels: &[Panel<'_>]) -> anyhow::Result<()> {
    let columns = if panels.len() > MAX_ROWS { 2 } else { 1 };
    let rows = panels.len().div_ceil(columns).max(1);
    let size = (SIZE.0 * columns as u32, TITLE + SIZE.1 * rows as u32);
    let root = SVGBackend::with_string(text, size).into_drawing_area();
    root.fill(&WHITE)?;
    let page = root.titled(title, ("sans-serif", 22))?;
    for (panel, area) in panels.iter().zip(page.split_evenly((rows, columns))) {
        draw_shares(&area, panel, &axis_of(panels, panel.unit))?;
    }
    root.present()?;
    Ok(())
}

/// The axis of all panels of a unit.
fn axis_of(panels: &[Panel<'_>], unit: (&str, f64)) -> Axis {
    let same = panels.iter().filter(|panel| panel.unit.0 == unit.0);
    let values = || same.clone().flat_map(|panel| &panel.series).map(|series| series.values);
    let values = || values().filter(|values| !values.is_empty());
    let least = values().map(|values| values.min().max(1)).min().unwrap_or(1) as f64;
    let most = values().map(Histogram::max).max().unwrap_or(1) as f64;
    Axis::logarithmic(least / unit.1, most / unit.1)
}

fn draw_shares(area: &Area<'_>, panel: &Panel<'_>, axis: &Axis) -> anyhow::Result<()> {
    let (unit, percent) = (panel.unit, Axis::linear(100.0));
    let names = [NamedAxis(axis, unit.0), NamedAxis(&percent, "% of requests")];
    let mut chart = frame(area, &panel.caption, names[0], names[1])?;
    let has_main = panel.series.iter().any(|series| series.is_main);
    let drawn = panel.series.iter().filter(|series| !series.values.is_empty());
    for (index, series) in drawn.enumerate() {
        let at = |value: u64| axis.at(value as f64 / unit.1);
        let steps = series.values.iter_recorded();
        let points = steps.map(|step| (at(step.value_iterated_to()), step.percentile()));
        let style = style(index, series.is_main, has_main);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    finish(chart, SeriesLabelPosition::LowerRight)
}

/// Colour and width of a curve.
fn style(index: usize, is_main: bool, has_main: bool) -> ShapeStyle {
    if is_main {
        return RGBColor(200, 30, 30).stroke_width(4);
    }
    if has_main {
        let shade = GREYS[index % GREYS.len()];
        return RGBColor(shade, shade, shade).stroke_width(2);
    }
    Palette99::pick(index).to_rgba().stroke_width(2)
}

/// Points with a text next to each, in named groups.
#[cfg(feature = "bench")]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64, String)>,
}

/// Draws `groups` over `x` (from 0) and `y` (logarithmic if values differ by a hundred).
#[cfg(feature = "bench")]
pub(crate) fn points(
    path: &Path,
    caption: &str,
    [x, y]: [&str; 2],
    groups: &[Group],
) -> anyhow::Result<()> {
    let mut text = String::new();
    draw_points(&mut text, caption, [x, y], groups)?;
    Ok(reef_files::write(path, text)?)
}

#[cfg(feature = "bench")]
fn draw_points(
    text: &mut String,
    caption: &str,
    [x, y]: [&str; 2],
    groups: &[Group],
) -> anyhow::Result<()> {
    let all = || groups.iter().flat_map(|group| &group.points);
    let most = |value: fn(&(f64, f64, String)) -> f64| all().map(value).fold(0.0, f64::max);
    let least = all().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let (across, up) = (Axis::linear(most(|p| p.0) * 1.1), Axis::over(least, most(|p| p.1)));
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = frame(&root, caption, NamedAxis(&across, x), NamedAxis(&up, y))?;
    for (index, group) in groups.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let place = |point: &(f64, f64, String)| (across.at(point.0), up.at(point.1));
        let dots = group.points.iter().map(|p| Circle::new(place(p), 5, color.filled()));
        chart
            .draw_series(dots)?
            .label(&group.name)
            .legend(move |(x, y)| Circle::new((x + 9, y), 5, color.filled()));
        let text = |p: &(f64, f64, String)| {
            let words = Text::new(p.2.clone(), (8, -6), ("sans-serif", 12));
            EmptyElement::at(place(p)) + words
        };
        chart.draw_series(group.points.iter().map(text))?;
    }
    finish(chart, SeriesLabelPosition::UpperLeft)?;
    root.present()?;
    Ok(())
}

/// An axis with ticks of our own.
struct Ticked {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Range and scale of an axis.
struct Axis {
    logarithmic: bool,
    least: f64,
    most: f64,
}

impl Axis {
    fn linear(most: f64) -> Self {
        Self { logarithmic: false, least: 0.0, most: most.max(1e-3) }
    }

    /// A logarithmic axis for values from `least`, which is greater than 0.
    fn logarithmic(least: f64, most: f64) -> Self {
        Self { logarithmic: true, least, ..Self::linear(most.max(least) * 1.05) }
    }

    #[cfg(feature = "bench")]
    fn over(least: f64, most: f64) -> Self {
        if least > 0.0 && most / least > 100.0 {
            return Self::logarithmic(least, most);
        }
        Self { least, ..Self::linear(most * 1.05) }
    }

    fn ticked(&self) -> Ticked {
        Ticked { range: self.range(), ticks: self.ticks() }
    }

    /// Places of ticks: 1, 2 and 5 of each power of ten on a logarithmic axis, powers alone on one
    /// of more than five.
    fn ticks(&self) -> Vec<f64> {
        let range = self.range();
        if !self.logarithmic {
            return RangedCoordf64::from(range).key_points(10);
        }
        let steps: &[f64] = if range.end - range.start > 5.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = range.start.floor() as i32..=range.end.ceil() as i32;
        let values =
            powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        values.map(f64::log10).filter(|place| range.contains(place)).collect()
    }

    fn at(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(self.least).log10() } else { value }
    }

    fn range(&self) -> std::ops::Range<f64> {
        let least = if self.logarithmic { self.at(self.least) } else { 0.0 };
        least..self.at(self.most)
    }

    fn label(&self, place: f64) -> String {
        if self.logarithmic {
            let value = 10f64.powf(place);
            let decimals = usize::try_from(-(place + 1e-9).floor() as i64).unwrap_or_default();
            return format!("{value:.decimals$}");
        }
        let decimals = if self.most < 10.0 { 2 } else { 0 };
        format!("{place:.decimals$}")
    }
}

/// An axis and its label.
#[derive(Clone, Copy)]
struct NamedAxis<'a>(&'a Axis, &'a str);

/// An empty chart with its axes and what they show.
fn frame<'a, 'b>(
    root: &'a Area<'b>,
    caption: &str,
    x: NamedAxis<'_>,
    y: NamedAxis<'_>,
) -> anyhow::Result<Chart<'a, 'b>> {
    let (NamedAxis(x, x_name), NamedAxis(y, y_name)) = (x, y);
    let mut chart = ChartBuilder::on(root)
        .caption(caption, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(x.ticked(), y.ticked())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(x_name)
        .y_desc(y_name)
        .x_label_formatter(&|place| x.label(*place))
        .y_label_formatter(&|place| y.label(*place))
        .draw()?;
    Ok(chart)
}

fn finish<'b: 'a, 'a>(mut chart: Chart<'a, 'b>, legend: SeriesLabelPosition) -> anyhow::Result<()> {
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().iter().map(|&place| axis.label(place)).collect()
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_are_round_numbers() {
        assert_eq!(labels(&Axis::logarithmic(0.3, 40.0)), ["0.5", "1", "2", "5", "10", "20"]);
        assert_eq!(labels(&Axis::logarithmic(0.05, 90_000.0))[..4], ["0.1", "1", "10", "100"]);
        assert_eq!(labels(&Axis::logarithmic(0.002, 0.009)), ["0.002", "0.005"]);
    }

    /// The curve that it is about is drawn once and thick, and no other has a colour.
    #[test]
    fn main_curve_is_thick_and_others_are_grey() {
        let mut values = Histogram::new(3).unwrap();
        values += 3_000;
        values += 90_000;
        let series =
            |name: &str| Series { name: name.into(), values: &values, is_main: name == "reef" };
        let panel = |caption: &str, unit| Panel {
            caption: caption.into(),
            unit,
            series: ["streams", "reef", "reset"].map(series).into(),
        };
        let panels = [panel("Starts", ("µs", 1e3)), panel("Latencies", ("ms", 1e6))];
        let path = std::env::temp_dir().join(format!("reef-panels-{}.svg", std::process::id()));
        shares(&path, "cpu (2 units)", &panels).unwrap();
        let drawn = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for text in ["cpu (2 units)", "Starts", "Latencies", "streams", "reset"] {
            assert!(drawn.contains(text), "{text}: {drawn}");
        }
        let lines = |text: &str| drawn.lines().filter(|line| line.contains(text)).count();
        assert_eq!(lines("stroke=\"#C81E1E\" stroke-width=\"4\""), 4, "curve and legend: {drawn}");
        assert_eq!(lines("stroke=\"#3C3C3C\" stroke-width=\"2\""), 4, "{drawn}");
    }

    #[test]
    fn equal_values_have_an_axis() {
        let axis = Axis::logarithmic(3.0, 3.0);
        assert!(axis.range().start < axis.range().end, "{:?}", axis.range());
    }

    /// Six curves within a tenth of the axis would be one, were it linear.
    #[test]
    fn small_values_next_to_a_large_one_are_told_apart() {
        let axis = Axis::logarithmic(1.0, 1000.0);
        let width = axis.range().end - axis.range().start;
        assert!((axis.at(2.0) - axis.at(1.0)) / width > 0.09, "a tenth of the width");
    }
}
