//! Amounts as Kubernetes writes them: `8Gi`, `33400m`, `100`, `1e3`.
//!
//! The format is that of `resource.Quantity` (apimachinery, pkg/api/resource): a decimal number,
//! and a suffix that is a power of 1,024, a power of 1,000, or an exponent of ten.

/// Thousandths of one: the finest that is of use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantity(u128);

impl Quantity {
    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whole bytes, rounded down.
    pub(super) fn bytes(self) -> u64 {
        u64::try_from(self.0 / 1_000).unwrap_or(u64::MAX)
    }

    /// Value in parts per million, of an amount in per cent.
    pub(super) fn parts_per_million(self) -> u32 {
        u32::try_from(self.0.saturating_mul(10)).unwrap_or(u32::MAX)
    }
}

impl std::str::FromStr for Quantity {
    type Err = String;

    /// Text that is not an amount is an error that says so.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} isn't an amount such as 8Gi");
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (thousandths, scale) =
            (decimal(number).ok_or_else(wrong)?, scale(suffix).ok_or_else(wrong)?);
        let all = thousandths.checked_mul(scale).ok_or_else(wrong)?;
        Ok(Self(all / 1_000))
    }
}

/// A decimal number in thousandths, what is finer rounded down.
fn decimal(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.contains('.') || (whole.is_empty() && part.is_empty()) || whole.len() > 20 {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u128 = format!("{part:0<3}").get(..3)?.parse().ok()?;
    Some(whole * 1_000 + part)
}

/// Factor of a suffix, in thousandths.
fn scale(suffix: &str) -> Option<u128> {
    let power = |base: u128, exponent: u32| base.checked_pow(exponent)?.checked_mul(1_000);
    match suffix {
        "m" => Some(1),
        "" => Some(1_000),
        "k" => power(1_000, 1),
        "M" => power(1_000, 2),
        "G" => power(1_000, 3),
        "T" => power(1_000, 4),
        "P" => power(1_000, 5),
        "Ki" => power(1_024, 1),
        "Mi" => power(1_024, 2),
        "Gi" => power(1_024, 3),
        "Ti" => power(1_024, 4),
        "Pi" => power(1_024, 5),
        _ => power(10, suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|it| *it <= 18)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_writes_them() {
        let bytes = |text: &str| text.parse::<Quantity>().map(Quantity::bytes);
        for (text, wanted) in [
            ("0", 0),
            ("8Gi", 8 << 30),
            ("1.5Gi", 3 << 29),
            ("12e6", 12_000_000),
            ("8G", 8_000_000_000),
            ("512Mi", 512 << 20),
            ("128974848000m", 128_974_848),
            (".5Ki", 512),
        ] {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        let percent = |text: &str| text.parse::<Quantity>().unwrap().parts_per_million();
        assert_eq!([percent("30"), percent("33400m"), percent("0.5")], [300_000, 334_000, 5_000]);
        for wrong in [
            "",
            "Gi",
            "8GiB",
            "-1",
            "1.2.3",
            "8 Gi",
            "e3",
            "1e-3",
            "1e99",
            "0x10",
            "9999999999999999999999",
        ] {
            let line = bytes(wrong).unwrap_err();
            assert_eq!(line, format!("{wrong:?} isn't an amount such as 8Gi"));
        }
    }
}
