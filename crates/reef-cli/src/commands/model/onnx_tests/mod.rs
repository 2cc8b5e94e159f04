//! `reef model verify --against onnx-tests`: test data in the form of ONNX's own, run on a device
//! and compared.
//!
//! In: folders, each with `model.onnx` and `test_data_set_0/`, which holds inputs and expected
//! outputs. Out: the cases that a device computes, and the reasons why it does not compute the
//! others. Invariant: a network is read with the shapes of its data, and values of inputs are bound
//! beforehand only where shapes depend on them.

mod case;
mod report;
pub(crate) mod run;
