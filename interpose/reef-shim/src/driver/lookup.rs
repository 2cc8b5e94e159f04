//! `cuGetProcAddress`: asks the real driver, and replaces a function that has a hook by the hook.
//!
//! The returned pointer alone identifies the variant that was asked for, with its version and its
//! default stream. So it is looked up among the addresses of the variants with hooks.

use super::names::NAMES;
use super::slots::real;
use std::collections::BTreeSet;
use std::ffi::CStr;

/// Hook: the slot of a driver function, and our function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hook {
    pub(crate) slot: usize,
    pub(crate) ours: unsafe extern "C" fn(),
}

/// Returns our function for this address of the real driver, or the address itself.
pub(crate) fn replace(found: usize, hooks: &[Hook]) -> usize {
    let hit = hooks.iter().find(|hook| found != 0 && real(hook.slot) == Some(found));
    hit.map_or(found, |hook| hook.ours as usize)
}

/// Returns whether an address of the real driver is a variant that isn't known, of a function of
/// which other variants have hooks.
pub(crate) fn is_unknown_variant(
    name: &CStr,
    found: usize,
    hooks: &[Hook],
    others: &[Hook],
) -> bool {
    let is_its = |hook: &Hook| {
        NAMES
            .get(hook.slot)
            .is_some_and(|known| family(known.to_bytes()) == family(name.to_bytes()))
    };
    let is_known = |hook: &Hook| real(hook.slot) == Some(found) || hook.ours as usize == found;
    found != 0 && hooks.iter().any(is_its) && !hooks.iter().chain(others).any(is_known)
}

/// Returns a function's name without what marks its variants: a version, and a default stream.
fn family(name: &[u8]) -> &[u8] {
    let ptsz = [&b"_ptsz"[..], b"_ptds"].into_iter().find_map(|ptsz| name.strip_suffix(ptsz));
    let name = ptsz.unwrap_or(name);
    let end = name.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
    match name[..end].strip_suffix(b"_v") {
        Some(base) if end < name.len() => base,
        _ => name,
    }
}

/// Returns the names with hooks, each once and without what marks its variants.
pub(crate) fn families(hooks: &[Hook]) -> BTreeSet<&'static [u8]> {
    let name = |hook: &Hook| NAMES.get(hook.slot).map(|name| family(name.to_bytes()));
    hooks.iter().filter_map(name).collect()
}
