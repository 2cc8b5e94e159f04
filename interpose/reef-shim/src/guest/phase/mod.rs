//! Real-time phases of a best-effort guest: while one lasts, the guest holds others as a real-time
//! guest does.
//!
//! *In*: the beginning and the end of phases, and launches. *Out*: a second guest of this process,
//! of the real-time class, whose page says that it is busy. *Invariant*: the page is busy only
//! during a phase; the guest's own gates are open then; a launch without a phase costs one load.
//!
//! A real-time guest holds others anyway: in a phase its watchdog keeps the hold between launches.

pub(crate) mod member;
pub(crate) mod state;
