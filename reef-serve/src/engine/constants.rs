//! A model's constants on a device, whatever kind of model it is.

#![allow(unsafe_code)] // kernels that come as source are trusted here

use super::api::ReadModel;
use crate::error::Result;
use reef::models::profile::Latencies;
use reef::models::{Loaded, Network, ProgramModel, ProgramWeights, Seeded};
use reef::op::Operators;
use reef::program::Program;
use std::sync::Arc;

/// Seed of weights that no file has.
const SEED: Seeded = Seeded(2022);

/// Constants that any number of instances share.
#[derive(Debug)]
pub(super) enum Constants<D: Operators> {
    Network(Loaded<D>),
    Program(Box<ProgramModel>, Arc<ProgramWeights<D>>),
}

impl<D: Operators> Constants<D> {
    /// Brings them onto the device, and compiles what comes as source. Latencies come along, if the
    /// files have some.
    ///
    /// # Errors
    ///
    /// What is wrong with the weights; the device's, among them that it compiles nothing.
    pub(super) fn bring(device: &D, model: ReadModel) -> Result<(Self, Option<Latencies>)> {
        match model {
            ReadModel::Network(opened) => {
                Ok((Self::Network(opened.model.load(device)?), opened.latencies))
            }
            ReadModel::Program(model) => {
                // SAFETY: the operator of the daemon answers for these kernels: without
                // models.kernels such a folder isn't read, and nobody else's files come into the
                // repository.
                let program = unsafe { Program::trusted(model.text()) };
                let weights = ProgramWeights::load(device, &model, program, SEED)?;
                Ok((Self::Program(model, weights), None))
            }
        }
    }

    /// As [`bring`](Self::bring), for the same model at other sizes: what is the same is shared.
    /// Bytes that aren't come along.
    ///
    /// # Errors
    ///
    /// As [`bring`](Self::bring).
    pub(super) fn bring_beside(&self, device: &D, model: ReadModel) -> Result<(Self, u64)> {
        match (self, model) {
            (Self::Network(base), ReadModel::Network(opened)) => {
                let loaded = opened.model.load_beside(base)?;
                let own = loaded.own_constant_bytes(Some(base)) as u64;
                Ok((Self::Network(loaded), own))
            }
            (_, model) => {
                let loaded = Self::bring(device, model)?.0;
                let own = loaded.own_bytes();
                Ok((loaded, own))
            }
        }
    }

    /// Bytes of all.
    pub(super) fn own_bytes(&self) -> u64 {
        match self {
            Self::Network(loaded) => loaded.own_constant_bytes(None) as u64,
            Self::Program(model, _) => model.constant_bytes() as u64,
        }
    }

    /// An instance with memory of its own.
    pub(super) fn network(&self) -> Result<Network<D>> {
        Ok(match self {
            Self::Network(loaded) => loaded.network()?,
            Self::Program(model, weights) => Network::of_program(model, weights)?,
        })
    }
}
