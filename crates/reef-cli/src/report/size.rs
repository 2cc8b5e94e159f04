//! Sizes of memory as typed.

use reef::models::Budget;

/// Units of sizes, with their bytes: all are powers of 1024.
const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// Reads `512MiB`, `2GiB` or `0`; `2g` is as good as `2GiB`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let wrong =
        || format!("must be a number with KiB, MiB, GiB or TiB, such as 2GiB, got {text:?}");
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    if unit.is_empty() && number == 0 {
        return Ok(0);
    }
    let is = |name: &str| unit == name || unit.eq_ignore_ascii_case(&name[..1]);
    let (_, shift) = UNITS.iter().find(|(name, _)| is(name)).ok_or_else(wrong)?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Budget of this many bytes; 0 means no limit.
pub(crate) fn budget(bytes: u64) -> Budget {
    Budget::new(if bytes == 0 { u64::MAX } else { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("0", 0), ("64KiB", 64 << 10), ("512MiB", 512 << 20), ("2g", 2 << 30), ("1T", 1 << 40)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in
            ["", "64", "64MB", "64mib", "MiB", "-1MiB", "1.5GiB", "99999999999TiB", "1 GiB"]
        {
            assert!(parse(wrong).unwrap_err().contains("such as 2GiB"), "{wrong}");
        }
    }
}
