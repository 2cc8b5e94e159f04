//! `reef model verify --against onnx-tests`: test data in the form of ONNX's own, run on a device
//! and compared.
//!
//! In: folders, each with `model.onnx` and `test_data_set_0/`, which holds inputs and the outputs
//! that are wanted. Out: which of them a device computes, and why not the others. Invariant: a
//! network is asked for with the shapes of its data, and values of inputs are given beforehand only
//! where shapes depend on them.

mod case;
mod report;
pub(crate) mod run;
