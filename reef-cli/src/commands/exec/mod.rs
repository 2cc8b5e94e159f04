//! `reef exec`: runs a program that knows nothing of REEF, as a guest.

mod executable;
mod limits;
pub(crate) mod run;
