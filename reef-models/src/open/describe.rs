//! Text and bytes that say which network this is, for digests.

use super::kind::ModelKind;
use super::model::Model;
use crate::model::params::Params;
use crate::model::tensors::Tensors;
use crate::tensors::constant::Constant;
use std::fmt;
use std::io;

impl Model {
    /// Writes all that decides about the launches of the network, without its name and the values
    /// of its constants: storages, steps, operations. Two networks with the same text compute the
    /// same of the same constants. The text is for comparing: other versions may write another.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write_structure(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        if let Some(scales) = self.scales() {
            write!(out, "{scales:?} ")?;
        }
        match self.kind() {
            ModelKind::Image(model, _) => {
                let graph = model.graph();
                write!(out, "image {:?} {:?}", graph.storages, graph.given)?;
                write!(out, "{:?} {:?}", graph.steps, model.layers())
            }
            ModelKind::Tensors(model) => {
                write!(out, "tensors {:?} {:?}", model.inputs, model.outputs)?;
                write!(out, "{:?} {:?}", model.storages, model.steps)
            }
            ModelKind::Program(model, _) => {
                let graph = model.graph();
                write!(out, "program {:?} {:?}", graph.storages, graph.given)?;
                write!(out, "{:?} {:?}", graph.steps, model.text())
            }
        }
    }

    /// Writes the values of all constants with their names, in an order that depends on the network
    /// alone. Of constants that are made up it writes the seed.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write_constants(&self, out: &mut dyn io::Write) -> io::Result<()> {
        match self.kind() {
            ModelKind::Image(_, Tensors::Read(params)) => write_params(params, out),
            ModelKind::Image(_, Tensors::Seeded(seed)) => write!(out, "{seed:?}"),
            ModelKind::Tensors(model) => model.constants.iter().try_for_each(|(at, constant)| {
                write!(out, "{at} ")?;
                match constant {
                    Constant::Values(array) => {
                        write!(out, "{} {} ", array.element(), array.len())?;
                        out.write_all(&array.to_le_bytes())
                    }
                    Constant::MadeUp(seed, tensor) => write!(out, "{seed:?} {tensor:?}"),
                }
            }),
            ModelKind::Program(model, seed) => match model.params() {
                Some(params) => write_params(params, out),
                None => write!(out, "{seed:?}"),
            },
        }
    }
}

fn write_params(params: &Params, out: &mut dyn io::Write) -> io::Result<()> {
    params.tensors.iter().try_for_each(|(name, values)| {
        write!(out, "{name:?} {} ", values.len())?;
        values.chunks(4096).try_for_each(|values| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            out.write_all(&bytes)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(model: &Model) -> (String, Vec<u8>) {
        let (mut structure, mut constants) = (String::new(), Vec::new());
        model.write_structure(&mut structure).expect("a string takes all");
        model.write_constants(&mut constants).expect("so does a vector");
        (structure, constants)
    }

    #[test]
    fn sizes_change_the_structure_and_seeds_the_constants() {
        let of = |size, seed| {
            texts(&Model::open("resnet18").input_size(size).seed(seed).read().expect("it is built"))
        };
        let (structure, constants) = of(32, 1);
        assert_eq!(of(32, 1), (structure.clone(), constants.clone()), "read twice");
        assert_eq!(of(32, 2).0, structure);
        assert_ne!(of(32, 2).1, constants);
        assert_ne!(of(64, 1).0, structure);
        assert_eq!(of(64, 1).1, constants);
    }

    #[test]
    fn each_value_changes_the_constants() {
        let with = |value: f32| {
            let tensors = [("a".into(), vec![1.0; 5000]), ("b".into(), vec![value])].into();
            let mut out = Vec::new();
            write_params(&Params { tensors }, &mut out).expect("a vector takes all");
            out
        };
        assert_ne!(with(0.0), with(-0.0), "the sign of a zero");
        assert_eq!(with(2.0).len(), with(1.0).len());
    }
}
