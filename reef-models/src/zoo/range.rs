//! Sizes that a network can be built for.

use crate::errors::error::{Error, Result};
use std::ops::RangeInclusive;

/// Largest image and batch, so that no shape overflows.
pub(super) const MAX_SIZE: usize = 8192;

pub(super) fn in_range(
    network: &str,
    what: &'static str,
    asked: usize,
    possible: RangeInclusive<usize>,
) -> Result<()> {
    if possible.contains(&asked) {
        return Ok(());
    }
    let (least, most) = possible.into_inner();
    Err(Error::OutOfRange { network: network.into(), what, asked, least, most })
}
