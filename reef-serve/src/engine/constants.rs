//! Constants of a model on a device, for every kind of model.

#![allow(unsafe_code)] // kernels that come as source are trusted here

use super::api::ReadModel;
use crate::error::Result;
use reef::models::profile::Latencies;
use reef::models::{Loaded, Network, ProgramModel, ProgramWeights, Seeded};
use reef::op::Operators;
use reef::program::Program;
use std::sync::Arc;

/// Seed of weights that are in no file.
const SEED: Seeded = Seeded(2022);

/// Constants shared by any number of instances.
#[derive(Debug)]
pub(super) enum Constants<D: Operators> {
    Network(Loaded<D>),
    Program(Box<ProgramModel>, Arc<ProgramWeights<D>>),
}

impl<D: Operators> Constants<D> {
    /// Copies them to the device, and compiles kernels that come as source. Returns latencies as
    /// well, if the files have some.
    ///
    /// # Errors
    ///
    /// Errors of the weights and of the device, for example that it cannot compile.
    pub(super) fn load(device: &D, model: ReadModel) -> Result<(Self, Option<Latencies>)> {
        match model {
            ReadModel::Network(opened) => {
                Ok((Self::Network(opened.model.load(device)?), opened.latencies))
            }
            ReadModel::Program(model) => {
                // SAFETY: the operator of the daemon answers for these kernels: without
                // models.kernels such a folder is not read, and only the operator's files enter the
                // repository.
                let program = unsafe { Program::trusted(model.text()) };
                let weights = ProgramWeights::load(device, &model, program, SEED)?;
                Ok((Self::Program(model, weights), None))
            }
        }
    }

    /// Loads the same model at other sizes; equal constants are shared. Returns the bytes of the
    /// others as well.
    ///
    /// # Errors
    ///
    /// Errors of [`load`](Self::load).
    pub(super) fn load_shared(&self, device: &D, model: ReadModel) -> Result<(Self, u64)> {
        match (self, model) {
            (Self::Network(base), ReadModel::Network(opened)) => {
                let loaded = opened.model.load_beside(base)?;
                let own = loaded.own_constant_bytes(Some(base)) as u64;
                Ok((Self::Network(loaded), own))
            }
            (_, model) => {
                let loaded = Self::load(device, model)?.0;
                let own = loaded.own_bytes();
                Ok((loaded, own))
            }
        }
    }

    /// Returns the bytes of all constants.
    pub(super) fn own_bytes(&self) -> u64 {
        match self {
            Self::Network(loaded) => loaded.own_constant_bytes(None) as u64,
            Self::Program(model, _) => model.constant_bytes() as u64,
        }
    }

    /// Creates an instance with memory of its own.
    pub(super) fn network(&self) -> Result<Network<D>> {
        Ok(match self {
            Self::Network(loaded) => loaded.network()?,
            Self::Program(model, weights) => Network::of_program(model, weights)?,
        })
    }
}
