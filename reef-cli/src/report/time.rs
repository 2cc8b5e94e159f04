//! Times as typed and as shown.

use std::time::Duration;

/// Reads `20us`, `1ms`, `2s` or `0`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let wrong = || format!("want a number with us, ms or s, such as 20us; got {text:?}");
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let micros = match &text[digits.len()..] {
        "us" | "µs" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "" if number == 0 => 0,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_micros(number.saturating_mul(micros)))
}

/// In the largest unit in which it is whole.
pub(crate) fn show(time: Duration) -> String {
    match time.as_micros() {
        ms if ms >= 1_000 && ms % 1_000 == 0 => format!("{} ms", ms / 1_000),
        us => format!("{us} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, shown) in
            [("20us", "20 µs"), ("10ms", "10 ms"), ("1s", "1000 ms"), ("0", "0 µs")]
        {
            assert_eq!(show(parse(text).unwrap()), shown, "{text}");
        }
        for wrong in ["", "20", "us", "1h", "-1us", "1 ms"] {
            assert!(parse(wrong).unwrap_err().contains("such as 20us"), "{wrong}");
        }
    }
}
