//! `reef bench disb`: the workloads of DISB, run as DISB runs them, under REEF and its baselines.

pub(crate) mod args;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod load;
pub(crate) mod measure;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod requests;
pub(crate) mod run;
pub(crate) mod task_loop;
