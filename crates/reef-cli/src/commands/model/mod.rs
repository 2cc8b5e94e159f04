//! `reef model`: what networks are made of, and whether files of them are right.

mod calibrate;
pub(crate) mod command;
pub(crate) mod facts;
mod graph;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod onnx_tests;
pub(crate) mod profile;
pub(crate) mod show;
pub(crate) mod show_program;
pub(crate) mod show_tensors;
pub(crate) mod verify;
mod verify_tensors;
