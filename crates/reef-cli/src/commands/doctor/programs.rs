//! Unmodified programs: the library that takes the driver's place, and limits.

use super::driver::Found;
use super::finding::{Check, Finding};
use crate::commands::exec::bind;
use crate::commands::exec::library::{self, SHIM};
use reef_guest::limit::{self, AccountsFile, Cgroups, Limits};
use std::path::Path;

/// Checks whether `reef exec` finds its library. Without a driver it is of no use, so nothing is
/// wrong then.
pub(super) fn library(shim: Option<&Path>, driver: &Found) -> Finding {
    let has_driver = driver.is_there();
    let is_named = shim.is_some() || std::env::var_os("REEF_SHIM").is_some();
    let remedy = "cargo build --release -p reef-shim, and name it with REEF_SHIM=FILE or put it next to `reef`";
    match library::library(SHIM, shim, "REEF_SHIM") {
        Ok(path) => found(&path, driver),
        Err(why) if has_driver || is_named => {
            Finding::wrong(Check::Library, why.to_string(), remedy)
        }
        Err(why) => Finding::absent(Check::Library, why.to_string(), remedy),
    }
}

/// Returns the library, with the ways past it: functions of the driver that it hides from programs
/// because it does not know their variants, and the paths of the driver's files.
fn found(path: &Path, driver: &Found) -> Finding {
    let mut found = path.display().to_string();
    let mut remedies = Vec::new();
    match driver.unknown_variants(path) {
        Ok(unknown) if unknown.is_empty() => {}
        Ok(unknown) => {
            let names = unknown.join(", ");
            found += &format!("; programs with limits or a class don't find {names}");
            remedies.push(
                "the driver has newer variants of these: take a version of REEF that knows them",
            );
        }
        Err(why) => return Finding::wrong(Check::Library, format!("{why:#}"), "build it again"),
    }
    match bind::check(path) {
        Ok(()) => found += "; mounts over the driver's files: allowed",
        Err(why) => {
            found += &format!("; mounts over the driver's files: refused ({why})");
            remedies.push("allow mount namespaces, or programs that open the driver by its path pass limits and classes");
        }
    }
    let remedy = (!remedies.is_empty()).then(|| remedies.join("; "));
    Finding { remedy, ..Finding::ok(Check::Library, found) }
}

/// Returns what keeps limits of memory.
fn kept_by() -> String {
    let regions = limit::own_cgroup().and_then(|own| limit::regions(&Cgroups::default(), &own));
    match regions {
        Ok(regions) => format!("the kernel (dmem: {}) and the library", regions.join(", ")),
        Err(why) => format!("the library alone ({why})"),
    }
}

/// Checks whether limits can be kept, and whether those that this environment sets can be read.
pub(super) fn limits() -> Finding {
    let environment =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    if let Err(why) = Limits::read(environment) {
        return Finding::wrong(Check::Limits, why, "correct or unset the variable");
    }
    let folder = limit::folder(environment);
    match AccountsFile::check(&folder) {
        Ok(()) => {
            let found = format!("accounts in {}; memory: {}", folder.display(), kept_by());
            Finding::ok(Check::Limits, found)
        }
        Err(error) => {
            let remedy = "name a folder that is yours alone, in memory, with REEF_ACCOUNTS=FOLDER";
            Finding::wrong(Check::Limits, error.to_string(), remedy)
        }
    }
}
