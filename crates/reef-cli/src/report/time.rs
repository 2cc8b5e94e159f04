//! Times as typed and as shown.

use crate::report::usage::Usage;
use std::time::Duration;

/// Units of times, with their seconds.
const UNITS: [(&str, f64); 6] =
    [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];

/// Reads `20us`, `1.5ms`, `2s`, `1min`, `1h` or `0`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let wrong = || format!("must be a number with us, ms, s, min or h, such as 20us, got {text:?}");
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    if unit.is_empty() && number == 0.0 {
        return Ok(Duration::ZERO);
    }
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let nanos = number * seconds * 1e9;
    if nanos < u64::MAX as f64 {
        Ok(Duration::from_nanos(nanos.round() as u64))
    } else {
        Err(wrong())
    }
}

/// Text of a time, in the largest unit in which it is whole.
pub(crate) fn show(time: Duration) -> String {
    match time.as_nanos() {
        0 => "0".into(),
        s if s >= 1_000_000_000 && s % 1_000_000_000 == 0 => format!("{} s", s / 1_000_000_000),
        ms if ms >= 1_000_000 && ms % 1_000_000 == 0 => format!("{} ms", ms / 1_000_000),
        us if us % 1_000 == 0 => format!("{} µs", us / 1_000),
        ns => format!("{:.3} µs", ns as f64 / 1e3),
    }
}

/// Text of a time to wait: in seconds, in minutes and seconds, or in hours and minutes.
pub(crate) fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) if seconds.is_multiple_of(60) => format!("{minutes} min"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        _ if minutes.is_multiple_of(60) => format!("{hours} h"),
        _ => format!("{hours} h {} min", minutes % 60),
    }
}

/// Refuses a time of zero, and one over `max`, which would be a typing error.
pub(crate) fn check(option: &str, time: Duration, max: Duration) -> Result<(), Usage> {
    if !time.is_zero() && time <= max {
        return Ok(());
    }
    let (max, time) = (show(max), show(time));
    Err(Usage(format!("{option} must be greater than 0 and at most {max}, got {time}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rough_times_are_in_units_of_people() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (0.2, "1 s"),
            (59.0, "59 s"),
            (60.0, "1 min"),
            (175.0, "2 min 55 s"),
            (3600.0, "1 h"),
            (5405.0, "1 h 30 min"),
        ] {
            assert_eq!(rough(Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn times_are_read_and_shown() {
        for (text, shown) in [
            ("20us", "20 µs"),
            ("20µs", "20 µs"),
            ("1.5ms", "1500 µs"),
            ("10ms", "10 ms"),
            ("0.05s", "50 ms"),
            ("1s", "1 s"),
            ("2min", "120 s"),
            ("1h", "3600 s"),
            ("0.0005ms", "0.500 µs"),
            ("0", "0"),
        ] {
            assert_eq!(show(parse(text).unwrap()), shown, "{text}");
        }
        for wrong in [
            "",
            "20",
            "us",
            "1d",
            "-1us",
            "1 ms",
            "nan",
            "nans",
            "infs",
            "1e3s",
            "1.2.3s",
            "99999999999h",
        ] {
            assert!(parse(wrong).unwrap_err().contains("such as 20us"), "{wrong}");
        }
    }

    #[test]
    fn refused_time_is_outside_of_the_printed_range() {
        let max = Duration::from_secs(600);
        for wrong in [Duration::ZERO, max + Duration::from_nanos(1)] {
            let said = check("--time", wrong, max).unwrap_err().to_string();
            assert!(
                said.starts_with("--time must be greater than 0 and at most 600 s, got "),
                "{said}"
            );
        }
        assert!(
            check("--time", max, max).is_ok()
                && check("--time", Duration::from_nanos(1), max).is_ok()
        );
    }
}
