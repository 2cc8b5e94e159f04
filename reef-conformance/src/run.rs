//! Opens a device and runs a case on it at each of its levels.

use crate::skip::skip;
use reef_core::{Device, PreemptLevel};

/// Opens device `ordinal`, or says aloud why its tests are skipped.
///
/// # Panics
///
/// If it can't be opened although `REEF_CONFORMANCE_REQUIRE` is set.
pub fn open<D: Device>(ordinal: usize, options: &str) -> Option<D> {
    match D::open(ordinal, options) {
        Ok(device) => Some(device),
        Err(error) if std::env::var_os("REEF_CONFORMANCE_REQUIRE").is_some() => {
            panic!("{}:{ordinal}: {error}", D::NAME)
        }
        Err(error) => {
            skip(&format!("{}:{ordinal}: {error}", D::NAME));
            None
        }
    }
}

/// Runs `case` on a device opened with `options` at each of its levels, and `after` behind each.
///
/// # Panics
///
/// If the case does.
pub fn run<D: Device>(name: &str, options: &str, case: fn(&D, PreemptLevel), after: impl Fn()) {
    let Some(device) = open::<D>(0, options) else { return };
    let deepest = device.info().level;
    for level in PreemptLevel::EACH.into_iter().filter(|&level| level <= deepest) {
        println!("{name} at level {level}");
        case(&device, level);
        after();
    }
}
