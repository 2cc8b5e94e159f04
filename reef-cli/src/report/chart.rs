//! Charts as SVG.

use hdrhistogram::Histogram;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (860, 480);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws which share of the values, given in nanoseconds, is how large at most.
///
/// `unit` is a name and its nanoseconds. The axis is logarithmic if values differ by a hundred.
pub(crate) fn shares<'h>(
    path: &Path,
    caption: &str,
    unit: (&str, f64),
    series: impl IntoIterator<Item = (&'h str, &'h Histogram<u64>)>,
) -> anyhow::Result<()> {
    let series: Vec<_> = series.into_iter().filter(|(_, h)| !h.is_empty()).collect();
    let least = series.iter().map(|(_, h)| h.min().max(1)).min().unwrap_or(1) as f64 / unit.1;
    let most = series.iter().map(|(_, h)| h.max()).max().unwrap_or(1) as f64 / unit.1;
    let (axis, percent) = (Axis::over(least, most), Axis::linear(100.0));
    let file = path.to_string_lossy();
    let root = area(&file)?;
    let mut chart = frame(&root, caption, (&axis, unit.0), (&percent, "% of requests"))?;
    for (index, (name, histogram)) in series.iter().enumerate() {
        let steps = histogram.iter_recorded();
        let at = |value: u64| axis.at(value as f64 / unit.1);
        let points = steps.map(|step| (at(step.value_iterated_to()), step.percentile()));
        let color = Palette99::pick(index).to_rgba();
        let line = LineSeries::new(points, color.stroke_width(2));
        chart
            .draw_series(line)?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    finish(chart, &root, SeriesLabelPosition::LowerRight)
}

/// Points with a text beside each, in named groups.
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
    let all = || groups.iter().flat_map(|group| &group.points);
    let most = |value: fn(&(f64, f64, String)) -> f64| all().map(value).fold(0.0, f64::max);
    let least = all().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let (across, up) = (Axis::linear(most(|p| p.0) * 1.1), Axis::over(least, most(|p| p.1)));
    let file = path.to_string_lossy();
    let root = area(&file)?;
    let mut chart = frame(&root, caption, (&across, x), (&up, y))?;
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
    finish(chart, &root, SeriesLabelPosition::UpperLeft)
}

/// Where values stand on an axis.
struct Axis {
    logarithmic: bool,
    least: f64,
    most: f64,
}

impl Axis {
    fn linear(most: f64) -> Self {
        Self { logarithmic: false, least: 0.0, most: most.max(1e-3) }
    }

    fn over(least: f64, most: f64) -> Self {
        let logarithmic = least > 0.0 && most / least > 100.0;
        Self { logarithmic, least, ..Self::linear(most * 1.05) }
    }

    fn at(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(self.least).log10() } else { value }
    }

    fn range(&self) -> std::ops::Range<f64> {
        let least = if self.logarithmic { self.at(self.least) } else { 0.0 };
        least..self.at(self.most)
    }

    fn label(&self, place: f64) -> String {
        let (value, most) = if self.logarithmic {
            (10f64.powf(place), 10f64.powf(place))
        } else {
            (place, self.most)
        };
        let decimals = if most < 10.0 { 2 } else { 0 };
        format!("{value:.decimals$}")
    }
}

fn area(file: &str) -> anyhow::Result<Area<'_>> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    Ok(root)
}

/// An empty chart with its axes and what they show.
fn frame<'a, 'b>(
    root: &'a Area<'b>,
    caption: &str,
    (x, x_name): (&Axis, &str),
    (y, y_name): (&Axis, &str),
) -> anyhow::Result<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(root)
        .caption(caption, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(x.range(), y.range())?;
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

fn finish<'b: 'a, 'a>(
    mut chart: Chart<'a, 'b>,
    root: &Area<'_>,
    legend: SeriesLabelPosition,
) -> anyhow::Result<()> {
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
