//! Lists of this library's functions with their slots: hooks, and jumps into the driver.

use crate::driver::lookup::Hook;

include!(concat!(env!("OUT_DIR"), "/hooks.rs"));
include!(concat!(env!("OUT_DIR"), "/jumps.rs"));
