//! `reef run`: what a network sees in images, or makes of arrays.

pub(crate) mod args;
pub(crate) mod command;
pub(crate) mod infer;
pub(crate) mod note;
mod program;
pub(crate) mod report;
mod stoppable;
mod tensors;
