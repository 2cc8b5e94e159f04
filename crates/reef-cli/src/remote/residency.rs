//! Processes of models that are on the GPU on demand, in the metrics of a daemon.

use super::scrape::{Labels, Scrape};
use reef_guest::limit::format_bytes;
use serde::Serialize;

/// State of the processes of a model, or of one of its classes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Residency {
    /// State of each process: `starting`, `resident`, `leaving`, `away` or `returning`.
    pub(crate) states: Vec<String>,
    /// Bytes on the GPUs, of those of which they are known.
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) returns: u64,
    /// Time of the last return, in seconds since 1970.
    pub(crate) returned: Option<f64>,
}

impl Residency {
    /// Returns the state of the processes that `is` selects; `None` if none of them is on demand.
    pub(crate) fn of(scrape: &Scrape, is: impl Fn(&Labels) -> bool + Copy) -> Option<Self> {
        let all = scrape.all("reef_model_residency").iter().filter(|(labels, _)| is(labels));
        let states: Vec<String> =
            all.filter_map(|(labels, _)| labels.get("state").cloned()).collect();
        if states.is_empty() {
            return None;
        }
        let bytes = scrape.sum("reef_model_resident_bytes", is);
        let returns = scrape.sum("reef_model_returns_total", is).unwrap_or(0.0);
        let times = scrape.all("reef_model_returned_seconds").iter();
        let times = times.filter(|(labels, _)| is(labels)).map(|(_, seconds)| *seconds);
        Some(Self {
            states,
            resident_bytes: bytes.map(|bytes| bytes as u64),
            returns: returns as u64,
            returned: times.max_by(f64::total_cmp),
        })
    }

    /// Text for a table: the states, and the bytes if there are any.
    pub(crate) fn text(&self) -> String {
        let states = self.states.join(", ");
        match self.resident_bytes {
            Some(bytes @ 1..) => format!("{states} {}", format_bytes(bytes)),
            _ => states,
        }
    }

    /// Text for a column of this width: without the bytes if these would be cut, as a number that
    /// is cut would be another one.
    pub(crate) fn text_within(&self, width: u16) -> String {
        let text = self.text();
        if text.len() <= usize::from(width) { text } else { self.states.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_model_are_taken_together() {
        let of =
            |class: &str| format!("model=\"m\",version=\"1\",class=\"{class}\",instance=\"0\"");
        let (rt, be) = (of("rt"), of("be"));
        let scrape = Scrape::parse(&format!(
            "reef_model_residency{{{rt},state=\"away\"}} 1\n\
             reef_model_residency{{{be},state=\"resident\"}} 1\n\
             reef_model_resident_bytes{{{rt}}} 0\n\
             reef_model_resident_bytes{{{be}}} 3221225472\n\
             reef_model_returns_total{{{rt}}} 2\n\
             reef_model_returns_total{{{be}}} 3\n\
             reef_model_returned_seconds{{{rt}}} 1000.5\n\
             reef_model_returned_seconds{{{be}}} 2000.5\n"
        ));
        let is = |name: &'static str, value: &'static str| {
            move |of: &Labels| of.get(name).is_some_and(|have| have == value)
        };
        let all = Residency::of(&scrape, is("model", "m")).unwrap();
        assert_eq!(all.text(), "away, resident 3 GiB");
        assert_eq!((all.returns, all.returned), (5, Some(2000.5)));
        let rt = Residency::of(&scrape, is("class", "rt")).unwrap();
        assert_eq!((&*rt.text(), rt.returns, rt.resident_bytes), ("away", 2, Some(0)));
        assert_eq!(Residency::of(&scrape, is("model", "other")), None);
    }
}
