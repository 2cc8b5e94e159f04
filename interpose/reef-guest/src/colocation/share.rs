//! Wishes of a program: `--colocate`, `--floor` and `--slo`.

use crate::limit::quantity::WHOLE;
use std::fmt;

/// Part of the time in whole percent, 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// No time.
    pub const NONE: Self = Self(0);
    /// All of the time.
    pub const ALL: Self = Self(100);

    /// Returns a part of the time. `None`: more than 100.
    pub const fn new(percent: u8) -> Option<Self> {
        if percent <= 100 { Some(Self(percent)) } else { None }
    }

    /// Parses a whole number from 0 to 100, with or without `%`.
    ///
    /// # Errors
    ///
    /// The rule and the value.
    pub fn parse(text: &str) -> Result<Self, String> {
        read_percent(text)
            .and_then(Self::new)
            .ok_or_else(|| format!("must be a whole number from 0 to 100 %, got {text:?}"))
    }

    /// Returns the number of percent.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns parts per million.
    pub const fn parts(self) -> u32 {
        self.0 as u32 * (WHOLE / 100)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} %", self.0)
    }
}

/// Target of a real-time program's latency, as a multiple of its latency alone: 1.01 to 10, in
/// thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slo(u16);

impl Slo {
    /// Returns a target of this number of thousandths. `None`: it isn't between 1.01 and 10.
    pub const fn new(thousandths: u16) -> Option<Self> {
        if thousandths >= 1010 && thousandths <= 10_000 { Some(Self(thousandths)) } else { None }
    }

    /// Parses a ratio such as `1.10`.
    ///
    /// # Errors
    ///
    /// The rule and the value.
    pub fn parse(text: &str) -> Result<Self, String> {
        read_number(text)
            .and_then(Self::of)
            .ok_or_else(|| format!("must be a ratio from 1.01 to 10, got {text:?}"))
    }

    /// Returns the nearest target. `None`: the ratio isn't between 1.01 and 10.
    pub fn of(ratio: f64) -> Option<Self> {
        let thousandths = (ratio * 1000.0).round();
        ((1010.0..=10_000.0).contains(&thousandths)).then_some(Self(thousandths as u16))
    }

    /// Returns the ratio.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2}", self.ratio())
    }
}

/// Shares that a program asks for. The daemon decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareRequest {
    /// Part of the time in which a best-effort program runs while real-time programs are busy.
    /// `None`: the daemon's default.
    pub colocate: Option<Percent>,
    /// Part of the time that a best-effort program has whatever real-time programs do. `None`: the
    /// daemon's default.
    pub floor: Option<Percent>,
    /// Target of a real-time program, in which best-effort programs are let through. `None`: the
    /// daemon's default.
    pub slo: Option<Slo>,
}

impl ShareRequest {
    /// Encodes it for a message: a byte for `colocate` plus one, a byte for `floor` plus one, and
    /// the target's thousandths. Zero: no wish.
    pub(crate) fn to_word(self) -> u32 {
        let byte = |part: Option<Percent>| part.map_or(0, |part| u32::from(part.0) + 1);
        let slo = self.slo.map_or(0, |slo| u32::from(slo.0));
        byte(self.colocate) | byte(self.floor) << 8 | slo << 16
    }

    /// Decodes a wish.
    ///
    /// # Errors
    ///
    /// A value is out of range.
    pub(crate) fn from_word(word: u32) -> Result<Self, String> {
        let part = |name: &str, byte: u8| match byte.checked_sub(1) {
            None => Ok(None),
            Some(part) => {
                Percent::new(part).map(Some).ok_or_else(|| format!("a {name} of {part} %"))
            }
        };
        let [colocate, floor, low, high] = word.to_le_bytes();
        let slo = match u16::from_le_bytes([low, high]) {
            0 => None,
            number => Some(Slo::new(number).ok_or_else(|| format!("an slo of {number} / 1000"))?),
        };
        Ok(Self { colocate: part("colocate", colocate)?, floor: part("floor", floor)?, slo })
    }

    /// Reads `REEF_COLOCATE`, `REEF_FLOOR` and `REEF_SLO`.
    ///
    /// # Errors
    ///
    /// The variable, the rule and the value.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let part = |name: &str| {
            let text = variable(name).filter(|text| !text.is_empty());
            let read = text.map(|text| Percent::parse(&text)).transpose();
            read.map_err(|why| format!("{name}: {why}"))
        };
        let slo = variable("REEF_SLO").filter(|text| !text.is_empty());
        let slo = slo.map(|text| Slo::parse(&text)).transpose();
        let slo = slo.map_err(|why| format!("REEF_SLO: {why}"))?;
        Ok(Self { colocate: part("REEF_COLOCATE")?, floor: part("REEF_FLOOR")?, slo })
    }
}

/// Reads a whole number, with or without `%`.
fn read_percent(text: &str) -> Option<u8> {
    text.trim().trim_end_matches('%').trim_end().parse().ok()
}

/// Reads a finite number.
fn read_number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_out_of_range_are_refused_with_the_rule() {
        assert_eq!(Percent::parse(" 30 % "), Ok(Percent(30)));
        assert_eq!(Percent::parse("0"), Ok(Percent::NONE));
        for text in ["101", "-1", "x", "", "1.5", "300%"] {
            let error = Percent::parse(text).unwrap_err();
            assert_eq!(error, format!("must be a whole number from 0 to 100 %, got {text:?}"));
        }
        assert_eq!(Slo::parse("1.10"), Ok(Slo(1100)));
        assert_eq!(Slo::parse("10").map(Slo::ratio), Ok(10.0));
        for text in ["1", "0.9", "10.1", "inf", "NaN", "x"] {
            let error = Slo::parse(text).unwrap_err();
            assert_eq!(error, format!("must be a ratio from 1.01 to 10, got {text:?}"));
        }
    }

    #[test]
    fn variables_are_read_and_named_in_errors() {
        let of = |name: &'static str, value: &'static str| {
            ShareRequest::read(move |asked| (asked == name).then(|| value.into()))
        };
        assert_eq!(of("REEF_COLOCATE", "30%").unwrap().colocate, Percent::new(30));
        assert_eq!(of("REEF_FLOOR", "").unwrap(), ShareRequest::default());
        assert_eq!(of("REEF_SLO", "1.25").unwrap().slo, Slo::new(1250));
        let error = of("REEF_SLO", "0.5").unwrap_err();
        assert_eq!(error, "REEF_SLO: must be a ratio from 1.01 to 10, got \"0.5\"");
        assert!(of("REEF_FLOOR", "5x").unwrap_err().starts_with("REEF_FLOOR: must be"));
    }

    proptest! {
        #[test]
        fn words_are_refused_or_come_back(word: u32, colocate in 0..=100_u8, floor in 0..=100_u8,
                                          slo in 1010..=10_000_u16) {
            if let Ok(wish) = ShareRequest::from_word(word) {
                prop_assert_eq!(wish.to_word(), word);
            }
            let wish = ShareRequest { colocate: Percent::new(colocate), floor: Percent::new(floor),
                              slo: Slo::new(slo) };
            prop_assert_eq!(ShareRequest::from_word(wish.to_word()), Ok(wish));
        }
    }
}
