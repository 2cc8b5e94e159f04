//! Options of a remote device: `ADDRESS/DEVICE[?options]`.

use crate::error::invalid;
use reef_core::{Error, Result};
use reef_wire::{Address, Line};
use std::path::PathBuf;
use std::time::Duration;

/// Place and name of a device, and the way there.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Address of the server.
    pub(crate) address: Option<Address>,
    /// The device, as the server names it.
    pub(crate) device: String,
    /// File with the token, `remote.token_file`.
    pub(crate) token_file: Option<PathBuf>,
    /// File with the certificates of authorities, `remote.ca`.
    pub(crate) ca: Option<PathBuf>,
    /// Line to be emulated, `remote.emulate`.
    pub(crate) line: Option<Line>,
    /// Time for which the reader polls for messages before it sleeps, `remote.spin`.
    pub(crate) spin: Duration,
}

impl Options {
    /// Reads `ADDRESS/DEVICE[?remote.key=value&…]`.
    ///
    /// # Errors
    ///
    /// `Invalid` names the part.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let (address, device) = place.rsplit_once('/').ok_or_else(|| {
            Error::invalid("remote device", format!("must be ADDRESS/DEVICE, got {place:?}"))
        })?;
        let address = address.parse().map_err(|e| invalid(format!("remote {e}")))?;
        if device.is_empty() || device.starts_with("remote") || device.contains(['*', ',']) {
            return Err(Error::invalid(
                "remote device",
                format!("must be one device of the server, got {device:?}"),
            ));
        }
        let mut read = Self { address: Some(address), device: device.into(), ..Self::default() };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match key {
                "remote.token_file" => read.token_file = Some(value.into()),
                "remote.ca" => read.ca = Some(value.into()),
                "remote.emulate" => {
                    // A comma joins devices, so a plus may stand in its place here.
                    let line = value.replace('+', ",").parse();
                    read.line = Some(line.map_err(|e| invalid(format!("{key}: {e}")))?);
                }
                "remote.spin" => {
                    read.spin = spin(value).map_err(|e| Error::invalid("remote.spin", e))?;
                }
                _ => {
                    let keys = "remote.token_file, remote.ca, remote.emulate or remote.spin";
                    return Err(Error::invalid(
                        "option of a remote device",
                        format!(
                            "must be {keys}, got {key:?}; the server opens the device with its own"
                        ),
                    ));
                }
            }
        }
        Ok(read)
    }
}

/// Reads a time to spin, such as `200us`, of at most 100 ms.
///
/// # Errors
///
/// The bounds, and the text that was given.
pub fn spin(text: &str) -> std::result::Result<Duration, String> {
    let micros = text.strip_suffix("us").and_then(|number| number.parse::<u32>().ok());
    match micros {
        Some(micros @ 0..=100_000) => Ok(Duration::from_micros(micros.into())),
        _ => Err(format!("must be a time of at most 100000us, such as 200us, got {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_name_has_address_device_and_options() {
        let read = |text| Options::parse(text).map_err(|e| e.to_string());
        let options = read("unix:/run/a/reef.sock/cpu:0?remote.emulate=rtt:5ms+bw:1mbit").unwrap();
        assert_eq!(options.address.unwrap().to_string(), "unix:/run/a/reef.sock");
        assert_eq!((&*options.device, options.line.is_some()), ("cpu:0", true));
        assert_eq!(read("[::1]:7733/cuda:1").unwrap().device, "cuda:1");
        assert_eq!(read("host:1/cpu?remote.spin=7us").unwrap().spin, Duration::from_micros(7));
        for (text, part) in [
            ("host:1", "ADDRESS/DEVICE"),
            ("host/cpu:0", "HOST:PORT"),
            ("host:1/", "one device"),
            ("host:1/cuda:*", "one device"),
            ("host:1/cpu?units=4", "got \"units\""),
            ("host:1/cpu?remote.emulate=x", "rtt:5ms"),
            ("host:1/cpu?remote.spin=5", "such as 200us, got \"5\""),
            ("host:1/cpu?remote.spin=100001us", "at most 100000us"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
