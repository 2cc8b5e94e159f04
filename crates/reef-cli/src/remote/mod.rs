//! A daemon as others see it: its HTTP and its metrics.

pub(crate) mod daemon;
pub(crate) mod residency;
pub(crate) mod scrape;
pub(crate) mod servers;
