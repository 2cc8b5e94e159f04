//! Networks that bring their kernels as source, in folders as REEF publishes them.

use reef::models::{self, Model, Network, Seeded, Weights};
use reef::op::Operators;
use reef::program::Program;
use reef::tensor::Element;

/// Returns whether a network is such a folder, and not one that is built under this name.
pub(crate) fn is_program(network: &str) -> bool {
    !models::NAMES.contains(&network)
        && !models::TENSOR_NAMES.contains(&network)
        && models::is_program(network)
}

/// Brings the weights of a network onto the device, and compiles its kernels if it brings some.
pub(crate) fn weights<D: Operators>(device: &D, model: &Model) -> models::Result<Weights<D>> {
    let Some(kernels) = model.kernels() else { return model.weights(device) };
    // SAFETY: a folder with kernels on the command line names code that is to run, as the name of a
    // program does, and its user answers for it: docs/models.md says so.
    let program = unsafe { Program::trusted(kernels) };
    model.load_kernels(device, program)
}

/// Stages values that `seed` makes up in all inputs of floats.
pub(crate) fn stage_floats<D: Operators>(network: &Network<D>, seed: Seeded) -> models::Result<()> {
    let floats = network.inputs().iter().filter(|(_, port)| port.spec.element == Element::F32);
    for (offset, port) in floats {
        let values = seed.input(port.spec.elements());
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        network.stage_bytes(offset, &bytes)?;
    }
    Ok(())
}
