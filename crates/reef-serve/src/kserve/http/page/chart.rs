//! Small line charts as inline SVG: a second is one unit wide, the newest is at the right edge.

use super::history::SECONDS;
use super::markup::Markup;

/// Height of the plot, in units of the drawing.
const HEIGHT: f64 = 60.0;

/// A line of a chart; `None` where there is no value.
#[derive(Debug)]
pub(super) struct Line {
    /// Class of its style, and its name in the legend.
    pub(super) style: &'static str,
    pub(super) name: &'static str,
    pub(super) values: Vec<Option<f64>>,
}

/// A chart.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// Value at the upper edge; `None`: the largest value, rounded up.
    pub(super) top: Option<f64>,
    /// Writes a value with its unit.
    pub(super) show: fn(f64) -> String,
    pub(super) lines: Vec<Line>,
}

impl Chart {
    /// Draws the chart with its title, its upper edge and its newest values.
    pub(super) fn draw(&self, out: &mut Markup) {
        let top = self.top.unwrap_or_else(|| round_up(self.largest()));
        out.raw("<figure><figcaption>").raw(self.title);
        self.lines.iter().for_each(|line| self.legend(line, out));
        out.raw("</figcaption><svg viewBox=\"0 0 ").text(SECONDS).raw(" 72\" role=\"img\">");
        out.raw("<title>").raw(self.title).raw("</title>");
        out.raw("<path class=\"frame\" d=\"M0 10H").text(SECONDS).raw("M0 70H").text(SECONDS);
        out.raw("\"/><text x=\"0\" y=\"8\">").text((self.show)(top)).raw("</text>");
        self.lines.iter().for_each(|line| line.draw(top, out));
        out.raw("</svg></figure>");
    }

    fn largest(&self) -> f64 {
        let values = self.lines.iter().flat_map(|line| &line.values).flatten();
        values.copied().fold(0.0, f64::max)
    }

    fn legend(&self, line: &Line, out: &mut Markup) {
        let newest = line.values.last().copied().flatten();
        let newest = newest.map_or_else(|| "–".to_owned(), self.show);
        out.raw(" <span class=\"").raw(line.style).raw("\">").raw(line.name).raw(" ");
        out.text(newest).raw("</span>");
    }
}

impl Line {
    /// Draws it as one path, with a gap where there is no value.
    fn draw(&self, top: f64, out: &mut Markup) {
        let begin = SECONDS - self.values.len().min(SECONDS);
        out.raw("<path class=\"").raw(self.style).raw("\" d=\"");
        let mut is_open = false;
        for (second, value) in self.values.iter().take(SECONDS).enumerate() {
            let Some(value) = value else {
                is_open = false;
                continue;
            };
            let y = 10.0 + HEIGHT * (1.0 - (value / top).clamp(0.0, 1.0));
            let x = begin + second;
            let (step, end) = if is_open { ("L", "") } else { ("M", "h0") }; // h0: a dot if alone
            out.raw(step).text(x).raw(" ").text(format_args!("{y:.1}")).raw(end);
            is_open = true;
        }
        out.raw("\"/>");
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten; 1 for nothing.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: Vec<Option<f64>>) -> String {
        let line = Line { style: "rt", name: "p99", values };
        let show = |value: f64| format!("{value} ms");
        let mut out = Markup::default();
        Chart { title: "Latency", top: None, show, lines: vec![line] }.draw(&mut out);
        out.into_string()
    }

    #[test]
    fn newest_value_is_at_the_right_and_gaps_stay_open() {
        let svg = drawn(vec![Some(1.0), Some(2.0), None, Some(4.0)]);
        let path =
            format!("d=\"M{} 58.0h0L{} 46.0M{} 22.0h0\"", SECONDS - 4, SECONDS - 3, SECONDS - 1);
        assert!(svg.contains(&path), "{svg}");
        assert!(svg.contains(">5 ms</text>") && svg.contains("p99 4 ms</span>"), "{svg}");
    }

    #[test]
    fn chart_without_values_has_an_edge() {
        let svg = drawn(vec![None; 3]);
        assert!(svg.contains("d=\"\"") && svg.contains(">1 ms</text>"), "{svg}");
        assert!(svg.contains("p99 –"), "{svg}");
    }

    #[test]
    fn upper_edge_is_1_2_or_5() {
        for (value, edge) in [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (37.0, 50.0), (51.0, 100.0)] {
            assert_eq!(round_up(value), edge);
        }
        assert_eq!(round_up(f64::INFINITY), 1.0);
    }
}
