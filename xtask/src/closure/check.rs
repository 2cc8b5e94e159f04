//! Checks of what the command relies on: `cargo xtask stale --check`, and `--update`.

use super::workspace::{metadata, packages};
use super::{examples, files, inputs, programs, unify};

/// Checks the tables and the manifest that unites features, or writes that anew.
pub(crate) fn run(is_update: bool) -> Result<bool, String> {
    let metadata = metadata()?;
    let packages = packages(&metadata);
    let files = files::all(&packages)?;
    let mut faults = inputs::faults(&packages, &files)?;
    faults.extend(programs::faults(&packages)?);
    faults.extend(examples::faults(&packages, &files)?);
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
