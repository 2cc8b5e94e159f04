//! The AMD backend, on the HIP runtime API.
//!
//! The runtime library is opened at run time, so this builds and starts on machines without it; opening a
//! device there is an error that says what was tried. Device code ships with the crate. It runs with HIP
//! 5.2 to 7.

mod bundle;
mod context;
mod driver;
mod elf;
mod facts;
#[cfg(test)]
mod fake;
mod freelist;
mod graph;
mod image;
mod memory;
mod module;
mod split;
mod stream;
mod target;

pub use context::Context;
pub use graph::Exec;
pub use module::{Code, Function};
pub use stream::Stream;

use driver::Driver;
use reef_core::Result;

/// The name users type.
pub const NAME: &str = driver::BACKEND;

/// One line for each device: its name, target and compute units.
///
/// # Errors
///
/// `NotFound` if there is no runtime library, saying where it was looked for, or no device; the
/// runtime's.
pub fn devices() -> Result<Vec<String>> {
    let driver = Driver::get()?;
    (0..facts::count(driver)?).map(|ordinal| facts::describe(driver, ordinal)).collect()
}

#[cfg(test)]
mod tests {
    use reef_core::Error;

    #[test]
    fn a_machine_without_a_runtime_or_a_device_says_so() {
        match super::devices() {
            Ok(devices) => eprintln!("skipped: this machine has {} devices", devices.len()),
            Err(Error::NotFound(text)) => {
                let tried = text.contains("libamdhip64.so.7") || text.contains("$REEF_HIP");
                assert!(tried || text.contains("no device: hipInit"), "{text}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
