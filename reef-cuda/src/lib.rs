//! The NVIDIA backend. So far it finds the driver and says which devices are there; it can't run
//! work on them yet.
//!
//! The driver library is opened at run time, so this builds and starts on machines without it.

mod cache;
mod driver;
mod image;
mod nvrtc;
mod source;

use driver::Driver;
use reef_core::Result;

/// The name users type.
pub const NAME: &str = "cuda";

/// One line for each device: its name, compute capability and multiprocessors.
///
/// # Errors
///
/// `NotFound` if there is no driver library, saying where it was looked for; the driver's.
pub fn devices() -> Result<Vec<String>> {
    let driver = Driver::open()?;
    (0..driver.count()?).map(|ordinal| driver.describe(ordinal)).collect()
}

#[cfg(test)]
mod tests {
    use reef_core::Error;

    #[test]
    fn a_machine_without_a_driver_says_what_was_tried() {
        match super::devices() {
            Ok(devices) => eprintln!("skipped: this machine has {} devices", devices.len()),
            Err(Error::NotFound(text)) => assert!(text.contains("libcuda.so.1"), "{text}"),
            Err(Error::Driver { call, .. }) => assert_eq!(call, "cuInit"), // a driver, no device
            Err(other) => panic!("{other}"),
        }
    }
}
