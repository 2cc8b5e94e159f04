//! Options of the software device: `units=4&nice=0`.

use reef_core::{Error, Result, did_you_mean};
use std::fmt;
use std::thread;
use std::time::Duration;

/// Most units: enough to try out schedules of a large GPU.
const MAX_UNITS: u32 = 256;
/// Names of the options.
const KEYS: [&str; 5] = ["units", "nice", "pin", "colocation", "uuid"];

/// Options of a device when it is opened.
///
/// ```
/// use reef_core::Device;
/// use reef_cpu::{Cpu, Options};
///
/// let mut options = Options::default();
/// (options.units, options.pin) = (2, false);
/// assert_eq!(Cpu::open_with(0, options)?.info().units, 2);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Threads; default: one per core.
    pub units: u32,
    /// Time for which a unit without work looks for some before it sleeps.
    pub(crate) spin: Duration,
    /// Niceness that is added to the units' threads, so that a client which wakes up gets a core at
    /// once; default 5.
    pub nice: i32,
    /// Pin each unit to one core; default yes (`pin=1`).
    pub pin: bool,
    /// Run best-effort blocks next to real-time kernels (`colocation=padded`, the default), or not
    /// (`colocation=none`).
    pub pads: bool,
    /// Name of the device in other processes, like the UUID of a GPU: 32 hexadecimal digits;
    /// default none.
    pub uuid: Option<[u8; 16]>,
}

/// Longer than the last block of a kernel takes on another unit, as waking up costs 50 µs.
const SPIN: Duration = Duration::from_micros(300);

impl Default for Options {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let units = cores.clamp(1, MAX_UNITS);
        Self { units, spin: SPIN, nice: 5, pin: true, pads: true, uuid: None }
    }
}

impl Options {
    /// Refuses what [`parse`](Self::parse) would not have given.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self { units, .. } if !(1..=MAX_UNITS).contains(units) => {
                Err(out_of_range("units", 1, MAX_UNITS, units))
            }
            Self { nice, .. } if !(0..=19).contains(nice) => Err(out_of_range("nice", 0, 19, nice)),
            _ => Ok(()),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut options = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.set(key, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "units" => self.units = number(key, value, 1, MAX_UNITS)?,
            "nice" => self.nice = number(key, value, 0, 19)? as i32,
            "pin" => self.pin = number(key, value, 0, 1)? == 1,
            "colocation" => self.pads = pads(value)?,
            "uuid" => self.uuid = Some(uuid(value)?),
            _ => {
                let (have, meant) = (KEYS.join(", "), did_you_mean(key, KEYS));
                return Err(Error::invalid(
                    format!("cpu option {key:?}"),
                    format!("unknown (have: {have}){meant}"),
                ));
            }
        }
        Ok(())
    }
}

fn number(key: &str, value: &str, min: u32, max: u32) -> Result<u32> {
    match value.parse() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(out_of_range(key, min, max, &value)),
    }
}

fn out_of_range(key: &str, min: u32, max: u32, got: &dyn fmt::Debug) -> Error {
    Error::invalid(
        format!("cpu option {key}"),
        format!("must be a number from {min} to {max}, got {got:?}"),
    )
}

fn pads(value: &str) -> Result<bool> {
    match value {
        "padded" => Ok(true),
        "none" => Ok(false),
        _ => Err(Error::invalid(
            "cpu option colocation",
            format!("must be padded or none, got {value:?}"),
        )),
    }
}

fn uuid(value: &str) -> Result<[u8; 16]> {
    let is_hex = value.len() == 32 && value.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(value, 16).ok()).flatten();
    number.map(u128::to_be_bytes).ok_or_else(|| {
        Error::invalid("cpu option uuid", format!("must be 32 hexadecimal digits, got {value:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_checked() {
        let options = Options::parse("units=4&nice=0&pin=0").unwrap();
        let want = Options { units: 4, spin: SPIN, nice: 0, pin: false, pads: true, uuid: None };
        assert_eq!(options, want);
        let uuid = Options::parse("uuid=000102030405060708090a0b0c0d0eff").unwrap().uuid;
        assert_eq!(uuid, Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]));
        for bad in [
            "units=0",
            "uuid=12",
            "uuid=+00102030405060708090a0b0c0d0eff",
            "units=257",
            "units",
            "units=x",
            "spin=0",
            "cores=2",
            "colocation=capped",
            "colocation",
        ] {
            assert!(Options::parse(bad).is_err(), "{bad}");
        }
        let pads = |text| Options::parse(text).unwrap().pads;
        assert_eq!(["", "colocation=padded", "colocation=none"].map(pads), [true, true, false]);
        let said = Options::parse("unit=2").unwrap_err().to_string();
        assert!(
            said.ends_with("(have: units, nice, pin, colocation, uuid): did you mean units?"),
            "{said}"
        );
    }
}
