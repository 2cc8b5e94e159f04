//! Latency of repeated work alone, kind by kind, and whether a later run is late.
//!
//! - **In**: lengths of runs while nothing ran next to them, each with the kind of its work.
//! - **Out**: for a later run whether it is longer than a multiple of its own kind's tail alone,
//!   and how much that says.
//! - **Invariant**: kinds are never mixed. A limit is the quantile that a kind's samples can tell,
//!   the 99th percentile if there are many and a lower one if there are few; the share of late
//!   runs that is allowed is the share that was above the limit alone.
//!
//! ```
//! use reef_latency::Baseline;
//!
//! let mut alone = Baseline::new(1, 0.05);
//! (0..400).for_each(|at| alone.note(7, 100.0 + f64::from(at % 10)));
//! alone.settle();
//! assert!(!alone.verdict(7, 115.0, 1.10).unwrap().is_late);
//! assert!(alone.verdict(7, 125.0, 1.10).unwrap().is_late);
//! assert!(alone.verdict(8, 125.0, 1.10).is_none(), "a kind that was never alone");
//! ```

mod baseline;
mod kind;
mod quantile;

pub use baseline::{Baseline, Verdict};
pub use kind::LATE_SHARE;
pub use quantile::quantile;
