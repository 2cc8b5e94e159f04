//! `reef bench hung`: the cost of a kernel that doesn't end for other clients.

pub(crate) mod args;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
