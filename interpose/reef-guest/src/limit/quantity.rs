//! Text forms of sizes and shares.

/// Largest limit: a pebibyte. Sums of these don't wrap.
pub(super) const MAX_BYTES: u64 = 1 << 50;

/// Units by their first letter, each 1,024 times the one before.
const UNITS: [char; 4] = ['k', 'm', 'g', 't'];

/// Parses a size in bytes: a whole number, or a number with `k`, `m`, `g`, `t`, `KiB`, `MiB`,
/// `GiB`, `TiB` (also `Ki` and so on, in any case), all of them powers of 1,024. A number with a
/// unit may have decimals: what is less than a byte is left out.
///
/// # Errors
///
/// The fault, for a line that names the variable and its value.
pub fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || "not a size such as 8GiB, 8192m or 8589934592".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (number, None),
    };
    if whole.is_empty() {
        return Err(wrong());
    }
    let factor = factor(unit.trim())?;
    let part = match decimals {
        None => 0,
        Some(decimals) if factor > 1 => part(decimals, factor).ok_or_else(wrong)?,
        Some(_) => return Err(wrong()),
    };
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let bytes = whole.checked_mul(factor).and_then(|bytes| bytes.checked_add(part));
    let bytes = bytes.filter(|bytes| *bytes <= MAX_BYTES).ok_or_else(too_large)?;
    if bytes == 0 { Err("no program runs in 0 bytes".into()) } else { Ok(bytes) }
}

/// Returns the part of a unit that decimals name. `None`: one is not a digit.
fn part(decimals: &str, factor: u64) -> Option<u64> {
    if !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = &decimals[..decimals.len().min(12)]; // further ones are less than a byte
    let numerator = u128::from(digits.parse::<u64>().ok()?) * u128::from(factor);
    u64::try_from(numerator / 10_u128.pow(digits.len() as u32)).ok()
}

fn factor(unit: &str) -> Result<u64, String> {
    let lower = unit.to_ascii_lowercase();
    let power = UNITS.iter().position(|letter| lower.starts_with(*letter));
    match (power, lower.get(1..)) {
        (None, _) if unit.is_empty() => Ok(1),
        (None, _) if lower == "b" => Ok(1),
        (Some(power), Some("" | "i" | "ib")) => Ok(1 << (10 * (power + 1))),
        _ => Err(format!("{unit} isn't one of the units k, m, g, t, KiB, MiB, GiB, TiB (of 1024)")),
    }
}

fn too_large() -> String {
    "more than 1024 TiB".into()
}

/// All of a device's time, in parts per million: the most that the parts of real-time programs may
/// add up to.
pub const WHOLE: u32 = 1_000_000;

/// Converts parts per million to per cent, for display.
pub fn percent(parts: u64) -> f64 {
    parts as f64 / f64::from(WHOLE / 100)
}

/// Parses a share: a number from 1 to 100, with or without `%` and decimals. Returns parts per
/// million.
///
/// # Errors
///
/// The fault, as for [`bytes`].
pub fn parts_per_million(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let wrong = || "not a share of 1% to 100%".to_owned();
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let percent: f64 =
        if is_plain { number.parse().map_err(|_| wrong())? } else { return Err(wrong()) };
    if !(1.0..=100.0).contains(&percent) {
        return Err(wrong());
    }
    Ok((percent * f64::from(WHOLE / 100)).round() as u32)
}

/// Formats a size for display: `8 GiB`, `1.5 GiB`, `12 KiB`, `7 bytes`.
pub fn format_bytes(bytes: u64) -> String {
    let unit = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match unit.into_iter().find(|(_, power)| bytes >> power > 0) {
        None => format!("{bytes} bytes"),
        Some((unit, power)) if bytes.trailing_zeros() >= power => {
            format!("{} {unit}", bytes >> power)
        }
        Some((unit, power)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << power) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_people_and_clusters_are_parsed() {
        for (text, want) in [
            ("8GiB", 8 << 30),
            ("8G", 8 << 30),
            ("8192m", 8 << 30),
            (" 8192 MiB ", 8 << 30),
            ("512k", 512 << 10),
            ("8589934592", 8 << 30),
            ("77b", 77),
            ("1Ti", 1 << 40),
            ("1.5GiB", 3 << 29),
            ("0.5 g", 1 << 29),
            ("1.0000000000001k", 1024),
        ] {
            assert_eq!(bytes(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn invalid_size_is_refused_with_the_reason() {
        let unit = "GB isn't one of the units k, m, g, t, KiB, MiB, GiB, TiB (of 1024)";
        for (text, want) in [
            ("8GB", unit),
            ("0", "no program runs in 0 bytes"),
            ("0g", "no program runs in 0 bytes"),
            ("", "not a size such as 8GiB, 8192m or 8589934592"),
            ("-1", "not a size such as 8GiB, 8192m or 8589934592"),
            ("lots", "not a size such as 8GiB, 8192m or 8589934592"),
            ("1.5", "not a size such as 8GiB, 8192m or 8589934592"),
            ("1.g", "not a size such as 8GiB, 8192m or 8589934592"),
            ("1.5.5g", "not a size such as 8GiB, 8192m or 8589934592"),
            (".5g", "not a size such as 8GiB, 8192m or 8589934592"),
            ("NaN", "not a size such as 8GiB, 8192m or 8589934592"),
            ("0.0000001k", "no program runs in 0 bytes"),
            ("1024.1t", "more than 1024 TiB"),
            ("1025t", "more than 1024 TiB"),
            ("99999999999999999999", "more than 1024 TiB"),
        ] {
            assert_eq!(bytes(text), Err(want.to_owned()), "{text}");
        }
        assert!(bytes("8é").is_err());
    }

    #[test]
    fn shares_are_parsed_as_percentages() {
        for (text, want) in
            [("30%", 300_000), ("30", 300_000), ("12.5 %", 125_000), ("100", 1_000_000)]
        {
            assert_eq!(parts_per_million(text), Ok(want), "{text}");
        }
        for text in ["0", "0.5%", "101", "-3", "nan", "inf", "1e1", "", "%", "half", "50%%"] {
            assert_eq!(parts_per_million(text), Err("not a share of 1% to 100%".into()), "{text}");
        }
    }

    #[test]
    fn sizes_are_formatted_with_the_largest_unit() {
        let all = [8 << 30, 3 << 29, 12 << 10, 7, 0].map(format_bytes);
        assert_eq!(all, ["8 GiB", "1.5 GiB", "12 KiB", "7 bytes", "0 bytes"]);
    }
}
