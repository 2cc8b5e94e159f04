//! Options of a CUDA device: `precision=fp16&tune=0`.

use crate::driver::BACKEND;
use reef_core::{Error, Result};

/// How networks are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit values, products on tensor cores with 10 bits of mantissa. The default from sm_80 on.
    Tf32,
    /// 32-bit values and products. The default before sm_80, which has nothing else for them.
    Fp32,
    /// 16-bit values, sums in 32 bits.
    Fp16,
}

/// How the flag that evicts reaches the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// By a memory operation on a stream of the highest priority.
    Stream,
    /// By a kernel of one thread that runs all the time and looks at a word of the host.
    Relay,
}

/// What can be chosen when the device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// `precision=tf32|fp32|fp16`; `None`: the device's default.
    pub(crate) precision: Option<Precision>,
    /// Whether kernels are tuned for their shapes when a network is loaded; default yes (`tune=1`).
    pub(crate) tune: bool,
    /// Best-effort blocks that run at a time beside real-time work, `beside=N`; `Some(None)`, the
    /// default: a fourth of the multiprocessors. `None`, `beside=slices`: beside each real-time kernel
    /// by itself.
    pub(crate) beside: Option<Option<u32>>,
    /// `flag=stream|relay`; default stream.
    pub(crate) delivery: Delivery,
}

impl Options {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut options =
            Self { precision: None, tune: true, beside: Some(None), delivery: Delivery::Stream };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.set(key, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match (key, value) {
            ("precision", "tf32") => self.precision = Some(Precision::Tf32),
            ("precision", "fp32") => self.precision = Some(Precision::Fp32),
            ("precision", "fp16") => self.precision = Some(Precision::Fp16),
            ("precision", _) => return Err(bad(key, "tf32, fp32 or fp16", value)),
            ("tune", "0" | "1") => self.tune = value == "1",
            ("tune", _) => return Err(bad(key, "0 or 1", value)),
            ("beside", "slices") => self.beside = None,
            ("beside", blocks) => match blocks.parse() {
                Ok(n) if n > 0 => self.beside = Some(Some(n)),
                _ => return Err(bad(key, "slices or a number of blocks", value)),
            },
            ("flag", "stream") => self.delivery = Delivery::Stream,
            ("flag", "relay") => self.delivery = Delivery::Relay,
            ("flag", _) => return Err(bad(key, "stream or relay", value)),
            _ => {
                let have = "(have: precision, tune, beside, flag)";
                return Err(Error::Invalid(format!("{BACKEND}: unknown option {key:?} {have}")));
            }
        }
        Ok(())
    }
}

fn bad(key: &str, want: &str, value: &str) -> Error {
    Error::Invalid(format!("{BACKEND}: option {key} must be {want}, got {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_checked() {
        let options = Options::parse("precision=fp16&tune=0&beside=20&flag=relay").unwrap();
        let want = Options {
            precision: Some(Precision::Fp16),
            tune: false,
            beside: Some(Some(20)),
            delivery: Delivery::Relay,
        };
        assert_eq!(options, want);
        assert_eq!(Options::parse("beside=slices").unwrap().beside, None);
        for bad in [
            "beside=0",
            "beside",
            "precision=int8",
            "precision",
            "tune=2",
            "flag=pigeon",
            "units=2",
        ] {
            assert!(Options::parse(bad).is_err(), "{bad}");
        }
    }
}
