//! `reef bench cluster`: several devices of one process, compared with the first device alone.

pub(crate) mod args;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
