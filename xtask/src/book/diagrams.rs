//! Drawings of boxes and arrows, as SVG from text.
//!
//! In: `docs/diagrams/NAME.txt`, a line for each thing: `title TEXT`, `size W H`,
//! `box NAME X Y W H TEXT | SMALL TEXT : strong` and `arrow FROM TO LABEL`, the small text, the
//! mark and the label optional. Out: `NAME.svg` next to it.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

const FOLDER: &str = "docs/diagrams";

const HEAD: &str = concat!(
    "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
    "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" ",
    "orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#444\"/></marker></defs>\n",
);

/// Writes all drawings, or with `is_check` returns those that differ from their text.
///
/// # Errors
///
/// A file can't be read or written, or a line is malformed.
pub(super) fn run(is_check: bool) -> Result<Vec<String>, String> {
    let mut stale = Vec::new();
    for source in sources()? {
        let shown = source.display().to_string();
        let text = fs::read_to_string(&source).map_err(|error| format!("{shown}: {error}"))?;
        let drawing = draw(&text).map_err(|error| format!("{shown}: {error}"))?;
        let target = source.with_extension("svg");
        if !is_check {
            fs::write(&target, drawing)
                .map_err(|error| format!("{}: {error}", target.display()))?;
        } else if fs::read_to_string(&target).ok().as_deref() != Some(drawing.as_str()) {
            stale.push(format!(
                "{}: differs from {shown}; run `cargo xtask book draw`",
                target.display()
            ));
        }
    }
    Ok(stale)
}

fn sources() -> Result<Vec<PathBuf>, String> {
    let folder = fs::read_dir(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))?;
    let paths = folder.flatten().map(|entry| entry.path());
    let mut texts: Vec<_> = paths.filter(|path| path.extension() == Some("txt".as_ref())).collect();
    texts.sort();
    Ok(texts)
}

/// Place of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rectangle {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Rectangle {
    fn centre(self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }

    /// Point of the edge on the way from the centre to a point, on the side that the way leaves by.
    fn edge(self, to: (f64, f64)) -> (f64, f64) {
        let (x, y) = self.centre();
        let (dx, dy) = (to.0 - x, to.1 - y);
        let across = if dx == 0.0 { f64::INFINITY } else { self.width / 2.0 / dx.abs() };
        let along = if dy == 0.0 { f64::INFINITY } else { self.height / 2.0 / dy.abs() };
        let part = across.min(along).min(1.0);
        (x + dx * part, y + dy * part)
    }
}

fn draw(text: &str) -> Result<String, String> {
    let (mut boxes, mut places) = (String::new(), Vec::<(&str, Rectangle)>::new());
    let (mut arrows, mut title, mut size) = (String::new(), "", [0.0; 2]);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (kind, rest) =
            line.split_once(' ').ok_or(format!("line must have words, got {line:?}"))?;
        match kind {
            "title" => title = rest,
            "size" => size = numbers(rest)?.0,
            "box" => {
                let (name, rest) = rest.split_once(' ').ok_or("box must have a name")?;
                let ([x, y, width, height], label) = numbers(rest)?;
                let place = Rectangle { x, y, width, height };
                boxes += &labelled(place, label);
                places.push((name, place));
            }
            "arrow" => arrows += &arrow(rest, &places)?,
            _ => return Err(format!("line must begin with title, size, box or arrow, got {kind}")),
        }
    }
    let [width, height] = size;
    let mut drawing = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\" role=\"img\" aria-label=\"{}\">\n",
        escaped(title)
    );
    drawing += HEAD;
    drawing += &arrows;
    drawing += &boxes;
    drawing += "</svg>\n";
    Ok(drawing)
}

/// The numbers that a text begins with, and the rest.
fn numbers<const N: usize>(text: &str) -> Result<([f64; N], &str), String> {
    let (mut found, mut rest) = ([0.0; N], text.trim());
    for number in &mut found {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        *number =
            word.parse().map_err(|_| format!("{N} numbers must stand there, got {text:?}"))?;
        rest = after;
    }
    Ok((found, rest))
}

fn labelled(place: Rectangle, label: &str) -> String {
    let (label, is_strong) = match label.strip_suffix(": strong") {
        Some(label) => (label, true),
        None => (label, false),
    };
    let (large, small) = label.split_once('|').unwrap_or((label, ""));
    let (x, y) = place.centre();
    let Rectangle { x: left, y: top, width, height } = place;
    let fill = if is_strong { "#d9480f" } else { "#9db8d9" };
    let ink = if is_strong { "#ffffff" } else { "#222222" };
    let mut drawing = format!(
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"5\" fill=\"{fill}\"/>\n"
    );
    let first = if small.is_empty() { y + 5.0 } else { y - 4.0 };
    for (text, at, weight, points) in [(large, first, "bold", 13), (small, y + 15.0, "normal", 11)]
    {
        if !text.is_empty() {
            let text = escaped(text.trim());
            let _ = writeln!(
                drawing,
                "<text x=\"{x}\" y=\"{at}\" text-anchor=\"middle\" fill=\"{ink}\" font-weight=\"{weight}\" \
                 font-size=\"{points}\">{text}</text>"
            );
        }
    }
    drawing
}

fn arrow(line: &str, places: &[(&str, Rectangle)]) -> Result<String, String> {
    let mut words = line.splitn(3, ' ');
    let mut end = || {
        let name = words.next().unwrap_or_default();
        let found = places.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, place)| *place)
            .ok_or(format!("arrow must join boxes above it, got {name:?}"))
    };
    let (from, to) = (end()?, end()?);
    let ((x1, y1), (x2, y2)) = (from.edge(to.centre()), to.edge(from.centre()));
    let mut drawing = format!(
        "<line x1=\"{x1:.0}\" y1=\"{y1:.0}\" x2=\"{x2:.0}\" y2=\"{y2:.0}\" stroke=\"#444\" stroke-width=\"1.5\" \
         marker-end=\"url(#tip)\"/>\n"
    );
    if let Some(label) = words.next() {
        let (x, y, text) = ((x1 + x2) / 2.0, (y1 + y2) / 2.0 - 6.0, escaped(label));
        // First as a white rim, so that the line behind it does not cross the letters.
        for paint in ["fill=\"none\" stroke=\"#fff\" stroke-width=\"4\"", "fill=\"#222\""] {
            let _ = writeln!(
                drawing,
                "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"middle\" font-size=\"11\" {paint}>{text}</text>"
            );
        }
    }
    Ok(drawing)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title A < B\nsize 100 50\nbox a 0 0 20 10 A | small : strong\nbox b 80 0 20 10 B\narrow a b on\n";

    #[test]
    fn arrow_goes_from_edge_to_edge() {
        let drawing = draw(TEXT).unwrap();
        assert!(drawing.contains("x1=\"20\" y1=\"5\" x2=\"80\" y2=\"5\""), "{drawing}");
        assert!(drawing.contains("aria-label=\"A &lt; B\""), "{drawing}");
    }

    #[test]
    fn malformed_line_is_an_error_that_names_it() {
        assert!(draw("box a 1 2 x 4 A\n").unwrap_err().contains("1 2 x 4 A"));
        assert!(draw("arrow a b\n").unwrap_err().contains("\"a\""));
        assert!(draw("circle a\n").unwrap_err().contains("circle"));
    }
}
