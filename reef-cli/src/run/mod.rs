//! `reef run`: what a network sees in pictures.

pub(crate) mod args;
pub(crate) mod command;
pub(crate) mod infer;
pub(crate) mod labels;
pub(crate) mod report;
mod tensors;
