//! `reef bench churn`: what real-time requests pay while best-effort clients come and go.

pub(crate) mod args;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
