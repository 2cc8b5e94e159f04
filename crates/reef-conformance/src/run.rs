//! Opens a device and runs a case on it at each of its levels. Counts tests that cannot run here.
//!
//! The harness can't skip a test while it runs, and shows no output of a passing test. So the count
//! is printed when the program ends.

use reef_core::{Device, PreemptLevel};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::sync::{Mutex, Once};

/// Opens device `ordinal`, or prints why its tests are skipped.
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

/// Runs `case` on a device opened with `options` at each of its levels, and `after` after each.
///
/// # Panics
///
/// If the case does.
pub fn run<D: Device>(name: &str, options: &str, case: fn(&D, PreemptLevel), after: impl Fn()) {
    let Some(device) = open::<D>(0, options) else { return };
    let deepest = device.info().level;
    for level in PreemptLevel::ALL.into_iter().filter(|&level| level <= deepest) {
        println!("{name} at level {level}");
        case(&device, level);
        after();
    }
}

/// Number of skipped tests by reason.
static SKIPPED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static AT_EXIT: Once = Once::new();

/// Prints that a test, or a part of one, is skipped and why; the program's last line counts it.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
    AT_EXIT.call_once(|| {
        // SAFETY: `report` takes nothing, returns nothing and doesn't unwind.
        let _ = unsafe { libc::atexit(report) };
    });
    if let Ok(mut skipped) = SKIPPED.lock() {
        *skipped.entry(reason.to_owned()).or_default() += 1;
    }
}

extern "C" fn report() {
    if let Ok(skipped) = SKIPPED.lock() {
        let _ = std::io::stderr().write_all(summary(&skipped).as_bytes());
    }
}

fn summary(skipped: &BTreeMap<String, usize>) -> String {
    let mut text = format!("skipped: {} in all\n", skipped.values().sum::<usize>());
    for (reason, times) in skipped {
        let _ = writeln!(text, "  {times} × {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_summary_counts_each_reason() {
        let skipped = [("no cuda".to_owned(), 26), ("no graphs".to_owned(), 3)].into();
        let want = "skipped: 29 in all\n  26 × no cuda\n  3 × no graphs\n";
        assert_eq!(summary(&skipped), want);
    }
}
