//! Formats of metrics: OpenMetrics 1.0 if a client asks for it, else Prometheus' text format 0.0.4.
//! The latter has no `# EOF` and no units, and its counters have the names of their samples.

use crate::observe::triton::is_counter;

/// Media type of OpenMetrics in `accept`.
const OPENMETRICS: &str = "application/openmetrics-text";

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposition {
    OpenMetrics,
    Prometheus,
}

impl Exposition {
    pub(crate) const ALL: [Self; 2] = [Self::OpenMetrics, Self::Prometheus];

    /// Returns the format for a client's `accept` header.
    pub(crate) fn for_accept(accept: &str) -> Self {
        if accept.contains(OPENMETRICS) { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts `text`, which is OpenMetrics, to this format.
    pub(crate) fn write(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => prometheus(&text),
        }
    }
}

fn prometheus(text: &str) -> String {
    let counters: Vec<&str> = text.lines().filter_map(counter).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), _) => continue,
            (Some("#"), Some(kind), Some(name)) if counters.contains(&name) => {
                plain.extend(["# ", kind, " ", name, "_total ", words.next().unwrap_or_default()]);
            }
            (Some("#"), Some("TYPE"), Some(name)) if is_counter(name) => {
                plain.extend(["# TYPE ", name, " counter"]);
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

/// Returns the name of the counter that a line declares.
fn counter(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.strip_suffix(" counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP a_b Is counted.
# TYPE a_b counter
a_b_total{x=\"1\"} 2
# HELP nv_inference_count Is counted.
# TYPE nv_inference_count gauge
nv_inference_count 3
# HELP a_seconds Is a time.
# TYPE a_seconds gauge
# UNIT a_seconds seconds
a_seconds 1.5
# EOF
";

    #[test]
    fn openmetrics_converts_to_prometheus_text() {
        let plain = "\
# HELP a_b_total Is counted.
# TYPE a_b_total counter
a_b_total{x=\"1\"} 2
# HELP nv_inference_count Is counted.
# TYPE nv_inference_count counter
nv_inference_count 3
# HELP a_seconds Is a time.
# TYPE a_seconds gauge
a_seconds 1.5
";
        assert_eq!(Exposition::Prometheus.write(TEXT.into()), plain);
        assert_eq!(Exposition::OpenMetrics.write(TEXT.into()), TEXT);
        let asked = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
        assert_eq!(Exposition::for_accept(asked), Exposition::OpenMetrics);
        assert_eq!(Exposition::for_accept("*/*"), Exposition::Prometheus);
    }
}
