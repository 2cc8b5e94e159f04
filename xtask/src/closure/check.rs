//! Checks of what the command relies on: `cargo xtask stale --check`, and `--update`.

use super::workspace::{Packages, list, metadata, packages};
use super::{examples, files, inputs, programs, table, unify};
use serde_json::Value;

/// Packages that README's test command leaves to the gate: doubles for tests, models of protocols,
/// laboratories, and what checks or makes the others.
const NOT_DEFAULT: &[&str] = &[
    "fake-libcuda",
    "fake-libnvml",
    "reef-conformance",
    "reef-cpu-loom",
    "reef-gfx906",
    "reef-guest-loom",
    "reef-kernels",
    "reef-loom",
    "reef-serve-loom",
    "reef-simulate",
    "reef-unify",
    "reef-wire-loom",
    "xtask",
];

/// Checks the tables and the manifest that unites features, or writes that anew.
pub(crate) fn run(is_update: bool) -> Result<bool, String> {
    let metadata = metadata()?;
    let packages = packages(&metadata);
    let files = files::all(&packages)?;
    let mut faults = inputs::faults(&packages, &files)?;
    faults.extend(programs::faults(&packages)?);
    faults.extend(examples::faults(&packages, &files)?);
    faults.extend(table::faults(&packages)?);
    faults.extend(not_default(&metadata, &packages));
    let manifest = unify::manifest(&metadata);
    if is_update {
        let written = std::fs::write(unify::MANIFEST, &manifest);
        written.map_err(|error| format!("{}: {error}", unify::MANIFEST))?;
    } else if std::fs::read_to_string(unify::MANIFEST).ok().as_deref() != Some(&manifest) {
        let what = "must be made anew: cargo xtask stale --update";
        faults.push(format!("{}: {what}", unify::MANIFEST));
    }
    faults.iter().for_each(|fault| eprintln!("xtask: stale: {fault}"));
    println!("stale: {} packages, {} faults", packages.len(), faults.len());
    Ok(faults.is_empty())
}

/// Says which packages are default members and must not be, or the other way round.
fn not_default(metadata: &Value, packages: &Packages) -> Vec<String> {
    let folders: Vec<&str> =
        list(&metadata["workspace_default_members"]).iter().filter_map(Value::as_str).collect();
    let is_default = |name: &String| {
        let folder = packages[name].folder.to_str().unwrap_or_default();
        let root = metadata["workspace_root"].as_str().unwrap_or_default();
        let path = format!("{root}/{folder}");
        folders.iter().any(|id| {
            let id = id.trim_start_matches("path+file://");
            id.split('#').next() == Some(path.trim_end_matches('/'))
        })
    };
    let wrong = packages.keys().filter(|name| is_default(name) == NOT_DEFAULT.contains(&&***name));
    let fault =
        |name| format!("{name}: must be among default-members or among NOT_DEFAULT, not both");
    wrong.map(fault).collect()
}
