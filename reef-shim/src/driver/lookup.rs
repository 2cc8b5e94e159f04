//! `cuGetProcAddress`: asks the real driver, and replaces a function that has a hook by the hook.
//!
//! The returned pointer alone identifies the variant that was asked for, with its version and its
//! default stream. So it is looked up among the addresses of the variants with hooks.

use super::names::NAMES;
use super::slots::real;

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

/// Returns whether an address that isn't ours was returned for a name with a hook: an unknown
/// variant.
pub(crate) fn is_missed(name: &[u8], given: usize, hooks: &[Hook]) -> bool {
    let is_base = |hook: &Hook| NAMES.get(hook.slot).is_some_and(|known| known.to_bytes() == name);
    given != 0 && hooks.iter().any(is_base) && !hooks.iter().any(|hook| hook.ours as usize == given)
}
