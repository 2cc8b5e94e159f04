//! Networks that bring their kernels as source, in folders as REEF publishes them.

use reef::models::{self, Budget, Network, ProgramModel, ProgramWeights, Seeded};
use reef::op::Operators;
use reef::program::Program;
use std::sync::Arc;

/// Returns whether a network is such a folder, and not one that is built under this name.
pub(crate) fn is_program(network: &str) -> bool {
    !models::NAMES.contains(&network)
        && !models::TENSOR_NAMES.contains(&network)
        && models::is_program(network)
}

/// Reads a folder.
pub(crate) fn open(folder: &str) -> models::Result<ProgramModel> {
    ProgramModel::load(folder, &Budget::default())
}

/// Compiles its kernels, and brings its weights onto the device.
pub(crate) fn load<D: Operators>(
    device: &D,
    model: &ProgramModel,
    seed: Seeded,
) -> models::Result<Arc<ProgramWeights<D>>> {
    // SAFETY: the caller named a folder with kernels on the command line, which is consent to run
    // this code, like the name of a program: docs/models.md says so.
    let program = unsafe { Program::trusted(model.text()) };
    ProgramWeights::load(device, model, program, seed)
}

/// An instance that looks at what `seed` makes up; integers are zeros.
pub(crate) fn instance<D: Operators>(
    model: &ProgramModel,
    weights: &Arc<ProgramWeights<D>>,
    seed: Seeded,
) -> models::Result<Network<D>> {
    let network = Network::of_program(model, weights)?;
    for input in model.inputs().iter().filter(|input| input.element.name() == "float32") {
        let values = seed.input(input.elements);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        network.stage_bytes(input.offset, &bytes)?;
    }
    Ok(network)
}
