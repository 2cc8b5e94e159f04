//! Operations that a device has one launch for become one.
//!
//! In: a network, and what its device says to an operation. Out: its steps, of which some are
//! joined: a sum of products with the formula that alone reads it (`finished`), formulas of rows
//! with what these rows become (`rows`), convolutions of each channel by itself (`depthwise`) and
//! those between numbers of 8 bits (`eight`). What others read, outputs of the network among them,
//! stays. The joined steps give what those that they are made of give; `eight` says of which
//! numbers that is not so.

pub(super) mod depthwise;
pub(super) mod eight;
mod finished;
pub(super) mod joined;
pub(super) mod moves;
mod padding;
mod readers;
mod row_cluster;
mod rows;
