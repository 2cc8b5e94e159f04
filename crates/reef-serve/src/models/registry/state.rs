//! State of the registry: loaded models and the repository.

use super::change_locks::ChangeLocks;
use crate::config::settings::Config;
use crate::engine::node::Node;
use crate::error::Result;
use crate::models::budget::{Budget, Reservation};
use crate::models::config::load::Replacement;
use crate::models::placement::placer::Placer;
use crate::models::placement::replicas::Replicas;
use crate::models::placement::unavailable::UnavailableModels;
use crate::models::repository::Repository;
use crate::models::shaped::factory::VariantFactory;
use crate::name::ModelName;
use crate::observe::observer::Observer;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Loaded versions, by name and number.
pub(in crate::models) type LoadedVersions = BTreeMap<ModelName, BTreeMap<u32, Arc<Replicas>>>;

/// Models that are loaded, and the repository with those that could be.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(super) repository: Repository,
    pub(in crate::models) placer: Placer,
    pub(super) budget: Arc<Budget>,
    /// Maximum number of bytes of a model; 0 means no limit.
    pub(super) model_bytes: u64,
    pub(in crate::models) loaded: RwLock<LoadedVersions>,
    /// Models whose devices are all lost.
    pub(in crate::models) unavailable: UnavailableModels,
    /// Replacements of models that were loaded with parameters.
    pub(super) replacements: Mutex<BTreeMap<ModelName, Replacement>>,
    /// Held while models are loaded or unloaded.
    pub(crate) changes: ChangeLocks,
    /// Number of versions that are being created. Locked after `loaded`.
    pub(super) pending: Mutex<usize>,
    /// Set when the daemon ends: no further change begins.
    pub(in crate::models) closing: Arc<AtomicBool>,
}

impl Registry {
    pub(crate) fn new(
        nodes: &[Arc<Node>],
        repository: Repository,
        config: &Config,
        observer: &Arc<Observer>,
    ) -> Self {
        let budget = Budget::new(config.memory.total_mib << 20);
        let closing: Arc<AtomicBool> = Arc::default();
        let factory = |node: &Arc<Node>| {
            let (node, observer) = (node.clone(), observer.clone());
            let (host, budget) = (budget.clone(), budget.of_device(node.engine.memory()));
            let model_bytes = config.memory.model_mib << 20;
            let closing = closing.clone();
            let message_bytes = (config.limits.message_mib as u64) << 20;
            Arc::new(VariantFactory {
                node,
                budget,
                host,
                model_bytes,
                message_bytes,
                observer,
                closing,
            })
        };
        let factories = nodes.iter().map(factory).collect();
        let (limits, usual) = (config.limits.clone(), config.models.replicas);
        let placer = Placer { factories, limits, usual, choice: Mutex::default() };
        let model_bytes = config.memory.model_mib << 20;
        let (loaded, unavailable, replacements, changes, pending) = Default::default();
        Self {
            repository,
            placer,
            budget,
            model_bytes,
            loaded,
            unavailable,
            replacements,
            changes,
            pending,
            closing,
        }
    }

    /// Returns the budget of all models and clients.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Reserves bytes of a device for `what`, until the reservation is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted`, with the requested and the remaining bytes.
    pub(crate) fn reserve_on(&self, device: &Node, what: &str, bytes: u64) -> Result<Reservation> {
        self.placer.factories[device.index].budget.reserve(what, bytes)
    }
}
