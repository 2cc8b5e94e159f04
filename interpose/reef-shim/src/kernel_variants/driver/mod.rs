//! Calls of the driver for variants, and durations by its events.
//!
//! *In*: functions, code and streams. *Out*: what the driver says of them. *Invariant*: nothing
//! here knows a variant; a call that the driver lacks or refuses is `None`.

pub(super) mod calls;
pub(super) mod timing;
