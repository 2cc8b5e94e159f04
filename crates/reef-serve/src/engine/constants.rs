//! A model's constants on a device, and kernels that it brings.

#![allow(unsafe_code)] // kernels that come as source are trusted here

use crate::error::Result;
use reef::models::{Model, Weights};
use reef::op::Operators;
use reef::program::Program;

/// Copies the constants of a model to the device, and compiles kernels that come as source.
///
/// # Errors
///
/// Errors of the weights and of the device, for example that it cannot compile.
pub(super) fn weights<D: Operators>(device: &D, model: &Model) -> Result<Weights<D>> {
    let Some(kernels) = model.kernels() else { return Ok(model.weights(device)?) };
    // SAFETY: the operator of the daemon answers for these kernels: without models.kernels such a
    // folder is not read, and no files of others come into the repository.
    let program = unsafe { Program::trusted(kernels) };
    Ok(model.load_kernels(device, program)?)
}

/// Loads the model of `base` at other sizes; equal constants are shared.
///
/// # Errors
///
/// Errors of [`weights`].
pub(super) fn weights_sharing<D: Operators>(
    device: &D,
    model: &Model,
    base: &Weights<D>,
) -> Result<Weights<D>> {
    match model.kernels() {
        None => Ok(model.weights_sharing(base)?),
        Some(_) => weights(device, model),
    }
}
