//! `reef bench cluster`: what several devices of one process do together, beside what the first
//! does alone.

pub(crate) mod args;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
