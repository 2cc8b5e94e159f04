//! Limits of contexts that take memory.

use super::memory::{firmly, room};
use crate::bind::state::Inside;
use crate::limit::contexts::{Raised, cost, raised};
use crate::limit::device::{self, Standing};
use crate::limit::refusal::OUT_OF_MEMORY;
use crate::own::calls;

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
