//! Tests that can't run here: each says why, and the program's last line counts them.
//!
//! The harness knows no test that is skipped while it runs, and shows nothing that a passing test
//! prints. So the count is printed when the program ends.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::sync::{Mutex, Once};

/// How often each reason was given.
static SKIPPED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static AT_EXIT: Once = Once::new();

/// Says that a test, or a part of one, is skipped and why; the program's last line counts it.
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
    fn each_reason_is_counted() {
        let skipped = [("no cuda".to_owned(), 26), ("no graphs".to_owned(), 3)].into();
        let want = "skipped: 29 in all\n  26 × no cuda\n  3 × no graphs\n";
        assert_eq!(summary(&skipped), want);
    }
}
