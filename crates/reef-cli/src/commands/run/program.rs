//! `reef run NAME=FILE.npy` of a network that brings its kernels.

use super::args::Args;
use super::tensors;
use crate::report::usage::Usage;
use crate::workload::networks::WEIGHTS;
use crate::workload::program;
use crate::workload::tensors::{InputArrays, run_once};
use anyhow::Result;
use reef::models::Model;
use reef::models::kinds::{ProgramInput, ProgramModel};
use reef::op::Operators;
use reef::tensor::{Array, Element, Spec};
use std::time::Duration;

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.input.is_empty() || !args.images.is_empty() {
        return Err(Usage(format!("{} takes NAME=FILE.npy, not images", args.model)).into());
    }
    if args.preempt {
        return Err(
            Usage("--preempt: networks that bring their kernels don't take it".into()).into()
        );
    }
    let given = tensors::read_inputs(args)?;
    let model = args.sizes().opened(&args.model).seed(WEIGHTS.0).budget(&args.budget()).read()?;
    let brings = model.program().expect("such a folder brings its kernels");
    check(brings, &given)?;
    let (output, time) =
        reef::with_device(&args.device, Run { model: &model, brings, given: &given })??;
    let spec = Spec { element: Element::F32, dims: vec![output.len()] };
    tensors::report(args, &[("output".into(), spec, None)], &[Array::F32(output)], (time, None))
}

/// Refuses inputs that are missing, unknown, or of another type or length.
fn check(model: &ProgramModel, given: &InputArrays) -> Result<()> {
    for input in model.inputs() {
        let ProgramInput { name, element, elements, .. } = input;
        let want = format!("{elements} of {}", element.name());
        let missing = || Usage(format!("input {name}=FILE.npy is missing: {want}"));
        let (_, array) = given.get(name).ok_or_else(missing)?;
        let of_bytes = (array.element().bytes(), element.bytes()) == (1, 1);
        let same = of_bytes || array.element().name() == element.name();
        let fits = same && array.len() == *elements;
        if !fits {
            let have = format!("{} of {}", array.len(), array.element());
            return Err(Usage(format!("input {name}: must be {want}, got {have}")).into());
        }
    }
    let unknown = given.keys().find(|name| model.inputs().iter().all(|input| input.name != **name));
    match unknown {
        Some(name) => {
            let have = model.inputs().iter().map(|input| input.name.as_str());
            Err(tensors::no_input(name, have).into())
        }
        None => Ok(()),
    }
}

/// One inference, on whichever device was named.
struct Run<'a> {
    model: &'a Model,
    brings: &'a ProgramModel,
    given: &'a InputArrays,
}

impl reef::Visit for Run<'_> {
    type Output = Result<(Vec<f32>, Duration)>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        let network = program::weights(&device, self.model)?.network()?;
        for input in self.brings.inputs() {
            network.stage_bytes(input.offset, &self.given[&input.name].1.to_le_bytes())?;
        }
        let time = run_once(&device, &network.inference())?;
        Ok((network.staged_output()?, time))
    }
}
