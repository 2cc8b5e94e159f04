//! List of all hooks with their slots.

use crate::driver::lookup::Hook;

include!(concat!(env!("OUT_DIR"), "/hooks.rs"));
