//! Residency of a model as it is configured.

use serde::Deserialize;
use std::time::Duration;

/// Times at which the memory of a model is on its device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResidencyKind {
    #[default]
    Always,
    /// While requests need it.
    OnDemand,
}

/// Time without a request after which a model leaves, if none is configured.
pub(crate) const DEFAULT: Duration = Duration::from_secs(30);

/// Units of times, with their milliseconds.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];

/// Maximum time, in milliseconds: a day.
const MAX_MS: u64 = 86_400_000;

/// Parses a time from 1 ms to a day: a whole number with `ms`, `s`, `min` or `h`.
///
/// # Errors
///
/// The rule, with the text.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ms)| *ms);
    let number = digits.parse::<u64>().ok();
    let ms = number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    match ms {
        Some(ms @ 1..=MAX_MS) => Ok(Duration::from_millis(ms)),
        _ => {
            let shown: String = text.chars().take(32).collect();
            Err(format!("must be a time from 1ms to 24h, such as 30s, got {shown:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_a_whole_number_and_a_unit() {
        for (text, ms) in [("30s", 30_000), ("1ms", 1), ("5min", 300_000), ("24h", 86_400_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "30", "s", "0s", "1.5s", "-1s", "25h", "30 s", "99999999999999999999h"] {
            let want = format!("must be a time from 1ms to 24h, such as 30s, got {text:?}");
            assert_eq!(parse(text), Err(want));
        }
    }
}
