//! What is loaded, and what could be.

use crate::config::settings::Config;
use crate::engine::node::Node;
use crate::error::Result;
use crate::models::budget::{Budget, Reservation};
use crate::models::config::load::Replacement;
use crate::models::placement::placer::Placer;
use crate::models::placement::replicas::Replicas;
use crate::models::placement::unavailable::Away;
use crate::models::repository::Repository;
use crate::models::shaped::factory::Maker;
use crate::name::ModelName;
use crate::observe::observer::Observer;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Loaded versions, by name and number.
pub(in crate::models) type Loaded = BTreeMap<ModelName, BTreeMap<u32, Arc<Replicas>>>;

/// The models that are loaded, and those that could be.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(super) repository: Repository,
    pub(in crate::models) placer: Placer,
    pub(super) budget: Arc<Budget>,
    /// Most bytes of a model; 0 is no limit.
    pub(super) model_bytes: u64,
    pub(in crate::models) loaded: RwLock<Loaded>,
    /// Those that no device has any more.
    pub(in crate::models) away: Away,
    /// Of models that were loaded with parameters.
    pub(super) replacements: Mutex<BTreeMap<ModelName, Replacement>>,
    /// Held while models are loaded or unloaded: one change at a time.
    pub(crate) change: Mutex<()>,
    /// The daemon ends: of several changes no further one begins.
    pub(in crate::models) closing: AtomicBool,
}

impl Registry {
    pub(crate) fn new(
        nodes: &[Arc<Node>],
        repository: Repository,
        config: &Config,
        observer: &Arc<Observer>,
    ) -> Self {
        let budget = Budget::new(config.memory.total_mib << 20);
        let maker = |node: &Arc<Node>| {
            let (node, observer) = (node.clone(), observer.clone());
            let (host, budget) = (budget.clone(), budget.of_device(node.engine.memory()));
            let model_bytes = config.memory.model_mib << 20;
            Arc::new(Maker { node, budget, host, model_bytes, observer })
        };
        let makers = nodes.iter().map(maker).collect();
        let (limits, usual) = (config.limits.clone(), config.models.replicas);
        let placer = Placer { makers, limits, usual };
        let model_bytes = config.memory.model_mib << 20;
        let (loaded, away, replacements, change, closing) = Default::default();
        Self {
            repository,
            placer,
            budget,
            model_bytes,
            loaded,
            away,
            replacements,
            change,
            closing,
        }
    }

    /// Bytes that are reserved, and the pot that clients reserve theirs from.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Takes bytes of a device for `what`, until the reservation is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted`, with what was asked and what is left.
    pub(crate) fn reserve_on(&self, device: &Node, what: &str, bytes: u64) -> Result<Reservation> {
        self.placer.makers[device.index].budget.reserve(what, bytes)
    }
}
