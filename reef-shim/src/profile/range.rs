//! The part of a program that is recorded, if it is not all of it.

use crate::bind::state::{pause_profile, resume_profile};
use crate::settings::is_range_wanted;

/// Records from here on, or no longer, if that is for the program to say.
pub(crate) fn range(is_begin: bool, real: impl FnOnce() -> u32) -> u32 {
    match is_begin {
        _ if !is_range_wanted() => {}
        true => resume_profile(),
        false => pause_profile(),
    }
    real()
}
