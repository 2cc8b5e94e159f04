//! The AMD backend. So far it finds the runtime and says which devices are there; it can't run work
//! on them yet.
//!
//! The runtime library is opened at run time, so this builds and starts on machines without it.

mod driver;

use driver::Driver;
use reef_core::Result;

/// The name users type.
pub const NAME: &str = "hip";

/// One line for each device: its name and compute units.
///
/// # Errors
///
/// `NotFound` if there is no runtime library, saying where it was looked for; the runtime's.
pub fn devices() -> Result<Vec<String>> {
    let driver = Driver::open()?;
    (0..driver.count()?).map(|ordinal| driver.describe(ordinal)).collect()
}

#[cfg(test)]
mod tests {
    use reef_core::Error;

    #[test]
    fn a_machine_without_a_runtime_says_what_was_tried() {
        match super::devices() {
            Ok(devices) => eprintln!("skipped: this machine has {} devices", devices.len()),
            Err(Error::NotFound(text)) => assert!(text.contains("libamdhip64.so"), "{text}"),
            Err(Error::Driver { call, .. }) => assert_eq!(call, "hipGetDeviceCount"),
            Err(other) => panic!("{other}"),
        }
    }
}
