//! `reef exec`: runs an unmodified program as a guest of a daemon.

pub(crate) mod bind;
mod colocate;
mod executable;
mod kernel;
pub(crate) mod library;
mod limits;
mod remote;
mod reserve;
pub(crate) mod run;
mod search;
mod slices;
