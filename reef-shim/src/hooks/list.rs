//! All hooks with their slots.

use crate::bind::lookup::Hook;

include!(concat!(env!("OUT_DIR"), "/hooks.rs"));
