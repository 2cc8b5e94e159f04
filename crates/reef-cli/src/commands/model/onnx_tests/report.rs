//! Outcomes of all cases, as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Outcome of one case.
pub(crate) enum Outcome {
    Passed,
    /// It ran, and gave something else.
    Failed(String),
    /// It was not read, or the device has no kernel.
    Refused(String),
}

/// All cases with their outcomes.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) cases: Vec<(String, Outcome)>,
    pub(crate) preemptions: u64,
}

impl Report {
    pub(crate) fn passed(&self) -> usize {
        self.cases.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Passed)).count()
    }

    fn failed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.cases.iter().filter_map(|(name, outcome)| match outcome {
            Outcome::Failed(why) => Some((name.as_str(), why.as_str())),
            _ => None,
        })
    }

    fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        self.cases.iter().filter_map(|(name, outcome)| match outcome {
            Outcome::Refused(why) => Some((name.as_str(), why.as_str())),
            _ => None,
        })
    }

    pub(crate) fn summary(&self) -> String {
        let (all, passed, failed) = (self.cases.len(), self.passed(), self.failed().count());
        let refused = all - passed - failed;
        let preempted = match self.preemptions {
            0 => String::new(),
            n => format!("; {n} preemptions changed no bit of what passed"),
        };
        format!("{all} networks: {passed} passed, {failed} failed, {refused} refused{preempted}")
    }

    /// Everything that didn't pass, a line each.
    pub(crate) fn list(&self) -> String {
        let mut text = String::new();
        for (what, (name, why)) in self
            .failed()
            .map(|case| ("failed", case))
            .chain(self.refused().map(|case| ("refused", case)))
        {
            let _ = writeln!(text, "{what:8} {name}: {why}");
        }
        text
    }

    /// Reasons with how many have each, the most frequent first, and what failed.
    pub(crate) fn markdown(&self, device: &str) -> String {
        let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, why) in self.refused() {
            reasons.entry(reason(why)).or_default().push(name);
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
        let mut text = format!(
            "{device}: {}.\n\n| refused because | networks | first |\n|---|---|---|\n",
            self.summary()
        );
        for (why, names) in reasons {
            let _ = writeln!(text, "| {why} | {} | {} |", names.len(), names[0]);
        }
        if self.failed().next().is_some() {
            text.push_str("\n| failed | because |\n|---|---|\n");
            self.failed().for_each(|(name, why)| {
                let _ = writeln!(text, "| {name} | {why} |");
            });
        }
        text
    }
}

/// The words behind file and node, without the remedy.
fn reason(why: &str) -> String {
    let mut words = why;
    for end in [".onnx: ", ".pb: ", "no tensor: "] {
        words = words.split_once(end).map_or(words, |(_, rest)| rest);
    }
    for (start, end) in [("node ", "): "), ("input ", "\": ")] {
        let rest = words.split_once(end).filter(|_| words.starts_with(start));
        words = rest.map_or(words, |(_, rest)| rest);
    }
    let words = words.split_once(": run the file by").map_or(words, |(words, _)| words);
    words.replace('|', "\\|")
}
