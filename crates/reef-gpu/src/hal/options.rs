//! Options of a device: `precision=fp16`.

use reef_core::{Error, Result, did_you_mean};
use std::time::Duration;

/// Names of the options.
const KEYS: [&str; 7] =
    ["precision", "colocation", "colocated_blocks", "gates", "timeout", "tune", "warpgroups"];

/// Precision of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit values, products on tensor cores with 10 bits of mantissa. The default where there
    /// are some.
    Tf32,
    /// 32-bit values and products. The default elsewhere.
    Fp32,
    /// 16-bit values, sums in 32 bits.
    Fp16,
}

/// Way in which best-effort blocks run next to real-time work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColocationMode {
    /// Each real-time kernel is launched with best-effort blocks next to it, which stop when it
    /// ends.
    Padded,
    /// Best-effort queues go on with few blocks at a time.
    Capped,
    /// Not at all.
    Never,
}

impl ColocationMode {
    fn name(self) -> &'static str {
        match self {
            Self::Padded => "padded",
            Self::Capped => "capped",
            Self::Never => "none",
        }
    }
}

/// Options of a device, chosen when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// `precision=tf32|fp32|fp16`; `None`: the device's default.
    pub precision: Option<Precision>,
    /// `colocation=padded|capped|none`; `None`: capped, or none with `gates`, where kernels can't
    /// be stopped once they run.
    pub colocation: Option<ColocationMode>,
    /// Best-effort blocks that run at a time next to real-time work where that is capped,
    /// `colocated_blocks=N`. Default: 2000 of queues whose blocks are short, one on every second
    /// unit of others.
    pub colocated_blocks: Option<u32>,
    /// Units for real-time work alone, `split=N`; default none. A baseline of the benches, which
    /// device names have with the feature `baselines`.
    pub split: Option<u32>,
    /// Best-effort launches behind one gate, `gates=N`; default none: kernels are stopped by their
    /// guards.
    pub gates: Option<u32>,
    /// Time that a best-effort queue may have work in flight of which nothing ends, before it is
    /// abandoned, `timeout=SECONDS`; default for ever.
    pub timeout: Option<Duration>,
    /// Measures which tiles of convolutions are the fastest, `tune=on`; default off: a model picks
    /// them.
    pub tune: bool,
    /// Lets convolutions and products run on warpgroups where the device has them; default on,
    /// `warpgroups=off` keeps the other kernels.
    pub warpgroups: bool,
}

/// Options of a device that nothing is said of.
impl Default for Options {
    fn default() -> Self {
        Self {
            precision: None,
            colocation: None,
            colocated_blocks: None,
            split: None,
            gates: None,
            timeout: None,
            tune: false,
            warpgroups: true,
        }
    }
}

impl Options {
    /// Reads `key=value` pairs joined by `&`; `backend` stands in its errors.
    ///
    /// # Errors
    ///
    /// `Invalid` names the key, what it may be, and what was given.
    pub fn parse(backend: &'static str, text: &str) -> Result<Self> {
        let mut options = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.set(backend, key, value)?;
        }
        options.check(backend)?;
        Ok(options)
    }

    /// Refuses options that are 0 or contradict each other; they may have been set one by one.
    pub(crate) fn check(&self, backend: &str) -> Result<()> {
        for (key, want, is_zero) in [
            ("colocated_blocks", "a number of blocks", self.colocated_blocks == Some(0)),
            ("split", "a number of units", self.split == Some(0)),
            ("gates", "a number of launches", self.gates == Some(0)),
            ("timeout", "a number of seconds", self.timeout == Some(Duration::ZERO)),
        ] {
            if is_zero {
                return Err(bad(backend, key, want, "0"));
            }
        }
        let key = "colocation";
        match self.colocation {
            Some(mode) if self.gates.is_some() && mode != ColocationMode::Never => {
                Err(bad(backend, key, "none with gates=N", mode.name()))
            }
            Some(mode) if self.colocated_blocks.is_some() && mode != ColocationMode::Capped => {
                Err(bad(backend, key, "capped with colocated_blocks=N", mode.name()))
            }
            _ => Ok(()),
        }
    }

    fn set(&mut self, backend: &str, key: &str, value: &str) -> Result<()> {
        match (key, value) {
            ("precision", "tf32") => self.precision = Some(Precision::Tf32),
            ("precision", "fp32") => self.precision = Some(Precision::Fp32),
            ("precision", "fp16") => self.precision = Some(Precision::Fp16),
            ("precision", _) => return Err(bad(backend, key, "tf32, fp32 or fp16", value)),
            ("colocation", "padded") => self.colocation = Some(ColocationMode::Padded),
            ("colocation", "capped") => self.colocation = Some(ColocationMode::Capped),
            ("colocation", "none") => self.colocation = Some(ColocationMode::Never),
            ("colocation", _) => return Err(bad(backend, key, "padded, capped or none", value)),
            ("colocated_blocks", blocks) => match blocks.parse() {
                Ok(n) => self.colocated_blocks = Some(n),
                _ => return Err(bad(backend, key, "a number of blocks", value)),
            },
            #[cfg(feature = "baselines")]
            ("split", units) => match units.parse() {
                Ok(n) => self.split = Some(n),
                _ => return Err(bad(backend, key, "a number of units", value)),
            },
            ("gates", launches) => match launches.parse() {
                Ok(n) => self.gates = Some(n),
                _ => return Err(bad(backend, key, "a number of launches", value)),
            },
            ("timeout", seconds) => match seconds.parse() {
                Ok(n) => self.timeout = Some(Duration::from_secs(n)),
                _ => return Err(bad(backend, key, "a number of seconds", value)),
            },
            ("tune", "on") => self.tune = true,
            ("tune", "off") => self.tune = false,
            ("tune", _) => return Err(bad(backend, key, "on or off", value)),
            ("warpgroups", "on") => self.warpgroups = true,
            ("warpgroups", "off") => self.warpgroups = false,
            ("warpgroups", _) => return Err(bad(backend, key, "on or off", value)),
            _ => {
                let (have, meant) = (KEYS.join(", "), did_you_mean(key, KEYS));
                return Err(Error::invalid(
                    format!("{backend} option {key:?}"),
                    format!("unknown (have: {have}){meant}"),
                ));
            }
        }
        Ok(())
    }
}

fn bad(backend: &str, key: &str, want: &str, value: &str) -> Error {
    Error::invalid(format!("{backend} option {key}"), format!("must be {want}, got {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::hal::fake::Fake;

    #[test]
    fn options_are_read_and_checked() {
        let options = "precision=fp16&colocated_blocks=20&gates=4&timeout=9&tune=on&warpgroups=on";
        let options = Options::parse("cuda", options).unwrap();
        let want = Options {
            precision: Some(Precision::Fp16),
            colocation: None,
            colocated_blocks: Some(20),
            split: None,
            gates: Some(4),
            timeout: Some(Duration::from_secs(9)),
            tune: true,
            warpgroups: true,
        };
        assert_eq!(options, want);
        for bad in [
            "colocated_blocks=0",
            "colocated_blocks_on=8",
            "tune=yes",
            "early=off",
            "patience=9",
            "gates=0",
            "timeout=0",
            "timeout=1.5",
            "warpgroups=64",
            "colocated_blocks",
            "precision=int8",
            "precision",
            "flag=pigeon",
            "units=2",
        ] {
            assert!(Options::parse("cuda", bad).is_err(), "{bad}");
        }
        let said = Options::parse("cuda", "precison=fp16").unwrap_err().to_string();
        assert!(said.ends_with("warpgroups): did you mean precision?"), "{said}");
    }

    #[test]
    fn colocation_is_read_and_its_contradictions_are_refused() {
        let read = |text| Options::parse("cuda", text);
        for (text, want) in [
            ("", None),
            ("colocation=padded", Some(ColocationMode::Padded)),
            ("colocated_blocks=8&colocation=capped", Some(ColocationMode::Capped)),
            ("gates=3&colocation=none", Some(ColocationMode::Never)),
        ] {
            assert_eq!(read(text).unwrap().colocation, want, "{text}");
        }
        for (text, said) in [
            ("colocation=padding", "must be padded, capped or none, got \"padding\""),
            ("colocation", "must be padded, capped or none, got \"\""),
            ("gates=3&colocation=padded", "colocation: must be none with gates=N, got \"padded\""),
            ("colocation=capped&gates=3", "colocation: must be none with gates=N, got \"capped\""),
            (
                "colocated_blocks=8&colocation=padded",
                "must be capped with colocated_blocks=N, got \"padded\"",
            ),
            (
                "colocation=none&colocated_blocks=8",
                "must be capped with colocated_blocks=N, got \"none\"",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    /// Behind gates, padding would run blocks of a kernel before those that are held.
    #[test]
    fn options_set_one_by_one_are_checked_as_text_is() {
        let own = Options::default();
        for bad in [
            Options { gates: Some(2), colocation: Some(ColocationMode::Padded), ..own },
            Options { colocated_blocks: Some(8), colocation: Some(ColocationMode::Never), ..own },
            Options { gates: Some(0), ..own },
            Options { colocated_blocks: Some(0), ..own },
            Options { split: Some(0), ..own },
            Options { timeout: Some(Duration::ZERO), ..own },
        ] {
            let error = Gpu::new(Fake::default(), bad).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{bad:?}: {error}");
        }
    }

    #[test]
    fn warpgroups_are_on_unless_turned_off() {
        let read = |text| Options::parse("cuda", text).unwrap().warpgroups;
        assert_eq!(["", "warpgroups=on", "warpgroups=off"].map(read), [true, true, false]);
        assert!(Options::default().warpgroups);
        assert!(!read("warpgroups=off&precision=fp16"), "others leave it as it is");
    }

    #[test]
    fn split_is_an_option_of_the_benches() {
        let read = Options::parse("cuda", "split=64").map(|options| options.split);
        assert_eq!(read.is_ok_and(|split| split == Some(64)), cfg!(feature = "baselines"));
    }
}
