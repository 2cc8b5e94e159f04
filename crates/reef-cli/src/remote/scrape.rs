//! The text that Prometheus reads, taken apart.

use std::collections::BTreeMap;

/// Names and values that say what a sample is of.
pub(crate) type Labels = BTreeMap<String, String>;

/// Metrics of a daemon at one moment.
#[derive(Debug, Default)]
pub(crate) struct Scrape(BTreeMap<String, Vec<(Labels, f64)>>);

impl Scrape {
    /// Reads what it understands: a daemon of another version may say more.
    pub(crate) fn parse(text: &str) -> Self {
        let mut samples: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for (name, labels, value) in lines.filter_map(sample) {
            samples.entry(name).or_default().push((labels, value));
        }
        Self(samples)
    }

    pub(crate) fn all(&self, name: &str) -> &[(Labels, f64)] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The sum of those whose labels `is` says yes to; `None` without any.
    pub(crate) fn sum(&self, name: &str, is: impl Fn(&Labels) -> bool) -> Option<f64> {
        let mut values = self.all(name).iter().filter(|(labels, _)| is(labels)).map(|of| of.1);
        let first = values.next()?;
        Some(values.fold(first, |sum, value| sum + value))
    }
}

/// `name{label="value",…} 1.5`, perhaps with a time behind it.
fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some((name.into(), labels, value))
}

/// Reads up to the brace; returns what is behind it.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, behind) = rest.split_once("=\"")?;
        let (value, behind) = quoted(behind)?;
        labels.insert(name.trim().into(), value);
        rest = behind;
    }
}

/// Reads up to the closing quote; backslashes stand before quotes, backslashes and `n`.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP reef_requests_served Requests that were answered.
# TYPE reef_requests_served counter
reef_requests_served_total{model=\"a\",class=\"rt\"} 3
reef_requests_served_total{model=\"a}\\\"b\\\\\",class=\"be\",} 4.5 1700000000
reef_memory_bytes 42
reef_request_seconds_bucket{le=\"+Inf\"} 7
what is this
reef_cut{model=\"a
reef_nothing{}
# EOF";

    #[test]
    fn samples_have_names_labels_and_values() {
        let scrape = Scrape::parse(TEXT);
        assert_eq!(scrape.sum("reef_memory_bytes", |_| true), Some(42.0));
        assert_eq!(scrape.sum("reef_requests_served_total", |_| true), Some(7.5));
        let of = |class: &str| {
            scrape.sum("reef_requests_served_total", |labels| labels["class"] == class)
        };
        assert_eq!([of("rt"), of("be"), of("other")], [Some(3.0), Some(4.5), None]);
        assert_eq!(scrape.all("reef_requests_served_total")[1].0["model"], "a}\"b\\");
        assert_eq!(scrape.all("reef_request_seconds_bucket")[0].0["le"], "+Inf");
        assert!(scrape.all("reef_cut").is_empty() && scrape.all("reef_nothing").is_empty());
    }
}
