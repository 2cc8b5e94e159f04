//! Contexts, and limits of theirs that take memory.

use super::reserve::{firmly, reserved, room};
use crate::driver::calls;
use crate::driver::state::Inside;
use crate::limit::charges::{self, Charge, Kind};
use crate::limit::contexts::{Raised, begin, cost, raised};
use crate::limit::device::{self, Standing};
use crate::limit::refusal::OUT_OF_MEMORY;

/// Sets a limit of the current context. What it takes is in the books before.
pub(crate) fn set_limit(limit: u32, value: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    firmly(|| {
        let device = match device::current() {
            Standing::Free => return real(),
            Standing::Broken => return OUT_OF_MEMORY,
            Standing::Limited(device) => device,
        };
        let current = || {
            let mut value = 0;
            let is_known = calls::context_limit(&mut value, limit) == Some(0);
            is_known.then(|| cost(device, limit, value as u64)).flatten()
        };
        let (Some(before), Some(wanted)) = (current(), cost(device, limit, value as u64)) else {
            return real();
        };
        let mut all = raised();
        let raised =
            all.entry((calls::context(), limit)).or_insert_with(|| Raised::new(device, before));
        let more = raised.charge(wanted).saturating_sub(raised.bytes);
        if !room(device, more) {
            return OUT_OF_MEMORY;
        }
        let code = real();
        raised.settle(more, current().unwrap_or(wanted));
        code
    })
}

/// Makes a context. The first one of a process on a device is besides its limit, as long as nobody
/// says what it takes.
pub(crate) fn create(to: *const usize, ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::limited() else { return real() };
    firmly(|| match device::of(ordinal) {
        Standing::Free => real(),
        Standing::Broken => OUT_OF_MEMORY,
        Standing::Limited(device) => {
            let bytes = if has_context(ordinal) { begin(device) } else { 0 };
            reserved(device, bytes, real, || {
                // SAFETY: where the driver has just written.
                let context = unsafe { to.as_ref() }.copied().unwrap_or_default();
                charges::note(Kind::Context, context, Charge { device, bytes, context });
            })
        }
    })
}

/// Whether this process has a context on a device.
fn has_context(ordinal: i32) -> bool {
    let (mut flags, mut is_active) = (0, 0);
    let _ = calls::primary_state(ordinal, &mut flags, &mut is_active); // not said: there is none
    is_active != 0 || charges::has(Kind::Context, ordinal)
}
