//! Operations that a device has one launch for become one.
//!
//! In: a network, and what its device says to an operation. Out: its steps, of which some are
//! joined: a sum of products with the formula that alone reads it (`finished`), and formulas of
//! rows with what these rows become (`rows`). What others read, outputs of the network among them,
//! stays. The joined steps give what those that they are made of give.

pub(super) mod depthwise;
mod finished;
pub(super) mod joined;
mod padding;
mod readers;
mod row_cluster;
mod rows;
