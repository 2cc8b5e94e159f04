//! `reef doctor`: one screen of what works on this machine, with a remedy for each line that is
//! red.
//!
//! - **In**: the machine as it is, a daemon's folder, and the checks that a caller needs.
//! - **Out**: a finding for each check: ok, not there, or wrong. Exit code 1 if one is wrong, or
//!   needed and not ok.
//! - **Invariant**: nothing is changed without `--fix`, but for the accounts file of limits, which
//!   a first program would make.

mod daemon;
mod driver;
mod finding;
mod fix;
mod mps;
mod programs;
pub(crate) mod run;
