//! The library for unmodified programs.

use super::args::Args;
use super::finding::{Check, Finding};
use crate::commands::exec::library::{SHIM, library};

/// Whether `reef exec` finds its library. Without a driver it is of no use, so nothing is wrong
/// then.
pub(super) fn finding(args: &Args, has_driver: bool) -> Finding {
    let is_named = args.shim.is_some() || std::env::var_os("REEF_SHIM").is_some();
    let remedy = "cargo build --release -p reef-shim, and name it with REEF_SHIM=FILE or put it next to `reef`";
    match library(SHIM, args.shim.as_deref(), "REEF_SHIM") {
        Ok(path) => Finding::ok(Check::Library, path.display().to_string()),
        Err(why) if has_driver || is_named => {
            Finding::wrong(Check::Library, why.to_string(), remedy)
        }
        Err(why) => Finding::absent(Check::Library, why.to_string(), remedy),
    }
}
