//! `cuGetProcAddress`: asks the real driver, and puts our hook in the place of a function that we
//! hook.
//!
//! The pointer that comes back says by itself which variant was asked for: version, default stream
//! and all. So it is looked up among the addresses of the variants that we hook.

use super::names::NAMES;
use super::slots::real;

/// A function that we hook: its slot, and our function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hook {
    pub(crate) slot: usize,
    pub(crate) ours: unsafe extern "C" fn(),
}

/// Our function for this address of the real driver, or the address itself.
pub(crate) fn replace(found: usize, hooks: &[Hook]) -> usize {
    let hit = hooks.iter().find(|hook| found != 0 && real(hook.slot) == Some(found));
    hit.map_or(found, |hook| hook.ours as usize)
}

/// Returns whether an address that isn't ours was given for a name that we hook: a variant that we
/// don't know.
pub(crate) fn is_missed(name: &[u8], given: usize, hooks: &[Hook]) -> bool {
    let is_base = |hook: &Hook| NAMES.get(hook.slot).is_some_and(|known| known.to_bytes() == name);
    given != 0 && hooks.iter().any(is_base) && !hooks.iter().any(|hook| hook.ours as usize == given)
}
