//! Hardware queues: what the host writes, and how the device takes it up.

mod aql;
mod ring;
mod sdma;
mod signal;
#[cfg(test)]
mod tests;

pub(crate) use aql::{Aql, Taken};
pub(crate) use ring::Ring;
pub(crate) use sdma::Sdma;
