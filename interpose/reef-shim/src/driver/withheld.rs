//! Withheld functions: they give the device work, and how is not known well enough to hold, charge
//! or bound it. A scheduled or limited program finds them missing, as on a driver before them.

use crate::settings::{is_limited, is_scheduled};
use std::ffi::CStr;

/// Names of the treatment `[withheld]`, as programs look them up and as the driver exports them.
pub(crate) const WITHHELD: [&CStr; 5] = [
    c"cuFabricCpyBatchAsync",
    c"cuFabricCpyBatchAsync_ptsz",
    c"cuSubgridCreate",
    c"cuSubgridWorkerGridCreate",
    c"cuSubgridWorksetCreate",
];

/// Returns whether this program must not find a function.
pub(crate) fn is_withheld(name: &CStr) -> bool {
    WITHHELD.contains(&name) && (is_scheduled() || is_limited())
}
