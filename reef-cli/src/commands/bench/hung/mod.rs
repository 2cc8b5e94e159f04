//! `reef bench hung`: what a kernel that doesn't end costs the clients beside it.

pub(crate) mod args;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
