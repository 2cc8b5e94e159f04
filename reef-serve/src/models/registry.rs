//! The models that are loaded, and how they come and go while the daemon runs.

use crate::config::settings::Config;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::budget::{Budget, Reservation};
use crate::models::config::load::{LoadParameters, Replacement};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::placement::away::Away;
use crate::models::placement::placer::Placer;
use crate::models::placement::replicas::Replicas;
use crate::models::repository::Repository;
use crate::models::retiring::Retiring;
use crate::models::shaped::maker::Maker;
use crate::name::{self, ModelName};
use crate::nearest::did_you_mean;
use crate::observe::metrics::{ClassLabels, ModelLabels};
use crate::observe::observer::Observer;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Loaded versions, by name and number.
type Loaded = BTreeMap<ModelName, BTreeMap<u32, Arc<Replicas>>>;

/// The models that are loaded, and those that could be.
#[derive(Debug)]
pub(crate) struct Registry {
    repository: Repository,
    pub(super) placer: Placer,
    budget: Arc<Budget>,
    /// Most bytes of a model; 0 is no limit.
    model_bytes: u64,
    pub(super) loaded: RwLock<Loaded>,
    /// Those that no device has any more.
    pub(super) away: Away,
    /// Of models that were loaded with parameters.
    replacements: Mutex<BTreeMap<ModelName, Replacement>>,
    /// Held while models are loaded or unloaded: one change at a time.
    pub(crate) change: Mutex<()>,
    /// The daemon ends: of several changes no further one begins.
    pub(super) closing: AtomicBool,
}

/// A version in the repository's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) name: ModelName,
    pub(crate) version: Option<u32>,
    pub(crate) ready: bool,
}

impl Indexed {
    /// The protocol's word for it.
    pub(crate) fn state(&self) -> &'static str {
        if self.ready { "READY" } else { "UNAVAILABLE" }
    }
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

    /// Loads what configurations name: `*` is all of the repository, of which those that can't be loaded are
    /// logged and left out.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load); for `*` only if none of them can be loaded.
    pub(crate) fn load_named(&self, name: &str) -> Result<()> {
        if name != "*" {
            return self.load(&ModelName::new(name)?);
        }
        for error in self.repository.unread() {
            tracing::warn!(%error, "not read");
        }
        let listed = self.repository.list()?;
        let failed = |name: &ModelName| self.load(name).inspect_err(|e| say_refused(name, e)).err();
        let mut errors = listed.iter().filter_map(|listed| failed(&listed.name));
        let first = errors.next();
        let failed = usize::from(first.is_some()) + errors.count();
        match first {
            Some(error) if failed == listed.len() => Err(error),
            _ => Ok(()),
        }
    }

    /// Loads all that is loaded anew, with the parameters that it was loaded with. Blocks. What fails is logged and stays
    /// as it is.
    pub(crate) fn reload(&self) {
        let mut names: BTreeSet<_> = self.loaded.read().keys().cloned().collect();
        names.extend(self.away.names());
        let open = names.iter().take_while(|_| !self.is_closing());
        open.for_each(|name| self.reload_one(name));
    }

    /// The same of one, unless it was unloaded since its name was noted.
    pub(crate) fn reload_one(&self, name: &ModelName) {
        let _change = self.change.lock();
        if !self.loaded.read().contains_key(name) && self.away.why(name, None).is_none() {
            return;
        }
        let given = self.replacements.lock().get(name).cloned().unwrap_or_default();
        let _ = self.load_now(name, given).inspect_err(|error| say_refused(name, error));
    }

    /// Loads the versions of a model that its description chooses, anew if they are loaded. Blocks.
    ///
    /// Requests go to the old ones until the new ones are there, if the budget has room for both.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` if its files are wrong; `Exhausted`; the device's.
    pub(crate) fn load(&self, name: &ModelName) -> Result<()> {
        let _change = self.change.lock();
        self.load_now(name, Replacement::default())
    }

    /// The same with what `given` has in the place of what the repository says, as a client asks for it. What fails but for
    /// a model that is not there is logged.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), and what is wrong with the parameters.
    pub(crate) fn load_with(&self, name: &ModelName, given: &LoadParameters) -> Result<()> {
        let given = Replacement::new(name, given, &self.budget, self.model_bytes)?;
        let _change = self.change.lock(); // not while a client's words are read and its files written
        self.load_asked(name, given)
    }

    /// As [`load_with`](Self::load_with), for a caller that holds `change`.
    fn load_asked(&self, name: &ModelName, given: Replacement) -> Result<()> {
        let say = |error: &Error| {
            if !matches!(error, Error::NotFound(_)) {
                say_refused(name, error);
            }
        };
        self.load_now(name, given).inspect_err(say)
    }

    /// As [`load`](Self::load), for a caller that holds `change`, and that says what fails.
    fn load_now(&self, name: &ModelName, given: Replacement) -> Result<()> {
        let specs = self.repository.specs(name, None, &given)?;
        self.check_room(name, specs.len())?;
        let made = self.make_all(specs)?;
        made.iter().flat_map(|replicas| replicas.each()).for_each(|served| say_loaded(served));
        let number = |replicas: &Replicas| replicas.first().spec.version;
        let new =
            made.into_iter().map(|replicas| (number(&replicas), Arc::new(replicas))).collect();
        self.note_replacement(name, given);
        let old = self.loaded.write().insert(name.clone(), new);
        self.away.forget(name);
        old.into_iter().flatten().for_each(|(_, served)| served.retire());
        Ok(())
    }

    fn note_replacement(&self, name: &ModelName, given: Replacement) {
        let mut replacements = self.replacements.lock();
        let before = match given.config.is_some() {
            true => replacements.insert(name.clone(), given),
            false => replacements.remove(name),
        };
        drop(replacements);
        drop(before); // with its files
    }

    /// Unloads all versions of a model. Blocks until their requests are done and their memory is free.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub(crate) fn unload(&self, name: &ModelName) -> Result<()> {
        let _change = self.change.lock();
        let versions = self.loaded.write().remove(name);
        if !self.away.forget(name) && versions.is_none() {
            return Err(Error::NotFound(format!("{name} is not loaded")));
        }
        self.note_replacement(name, Replacement::default());
        versions.into_iter().flatten().map(|(_, served)| served).for_each(|served| {
            served.retire();
            tracing::info!(model = %served.first().title(), "unloaded");
        });
        Ok(())
    }

    /// Unloads everything, for good. Blocks, but for no change that has not begun.
    pub(crate) fn clear(&self) {
        self.closing.store(true, Ordering::SeqCst);
        let _change = self.change.lock();
        let all = std::mem::take(&mut *self.loaded.write());
        let replacements = std::mem::take(&mut *self.replacements.lock());
        drop(replacements);
        let all = all.into_values().flatten();
        let retiring: Vec<_> = all.flat_map(|(_, served)| served.begin_to_retire()).collect();
        retiring.into_iter().for_each(Retiring::wait);
    }

    /// Whether all is being unloaded.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// A loaded version of a model, the newest if none is named: the replica with the least to do.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` if its device is lost and no other has it.
    pub(crate) fn get(&self, name: &str, version: &str) -> Result<Arc<LoadedModel>> {
        self.get_near(name, version, None)
    }

    /// The same, but the replica on `device`, if it has one.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(crate) fn get_near(
        &self,
        name: &str,
        version: &str,
        device: Option<&Node>,
    ) -> Result<Arc<LoadedModel>> {
        let (name, version) = (ModelName::new(name)?, name::version(version)?);
        let loaded = self.loaded.read();
        let versions = loaded.get(&name);
        let found = versions.and_then(|versions| match version {
            Some(version) => versions.get(&version),
            None => versions.values().next_back(),
        });
        let away = if found.is_none() { self.away.why(&name, version) } else { None };
        if let Some(why) = away {
            return Err(why);
        }
        let version = version.map(|v| format!(" version {v}")).unwrap_or_default();
        let near = |replicas: &Replicas| device.and_then(|device| replicas.on(device)).cloned();
        let replica = |all: &Arc<Replicas>| near(all).unwrap_or_else(|| all.next().clone());
        found.map(replica).ok_or_else(|| {
            let meant = match versions {
                Some(_) => String::new(),
                None => did_you_mean(&name, loaded.keys().cloned()),
            };
            Error::NotFound(format!("model {name}{version} is not loaded{meant}"))
        })
    }

    /// As [`get`](Self::get) without a version, loading it if it is not there.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub(crate) fn get_or_load(&self, name: &str) -> Result<Arc<LoadedModel>> {
        if let Ok(served) = self.get(name, "") {
            return Ok(served);
        }
        let _change = self.change.lock();
        if let Err(Error::NotFound(_)) = self.get(name, "") {
            self.load_asked(&ModelName::new(name)?, Replacement::default())?; // no other thread has meanwhile
        }
        self.get(name, "")
    }

    /// All loaded versions; of `name` and `version` unless they are empty.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is a name that is not loaded.
    pub(crate) fn select(&self, name: &str, version: &str) -> Result<Vec<Arc<Replicas>>> {
        let one = match (name, version) {
            ("", "") => None,
            _ => Some(self.get(name, version)?.spec.version),
        };
        let is_asked = |number: &u32| version.is_empty() || one == Some(*number);
        let loaded = self.loaded.read();
        let chosen = loaded.iter().filter(|(n, _)| name.is_empty() || n.as_str() == name);
        let chosen = chosen.flat_map(|(_, versions)| versions);
        Ok(chosen.filter(|(n, _)| is_asked(n)).map(|(_, replicas)| replicas.clone()).collect())
    }

    /// Versions of a model that are loaded.
    pub(crate) fn versions(&self, name: &ModelName) -> Vec<u32> {
        let loaded = self.loaded.read();
        loaded.get(name).into_iter().flat_map(|versions| versions.keys().copied()).collect()
    }

    /// What is loaded and what could be.
    ///
    /// # Errors
    ///
    /// `Failed` if the repository can't be read.
    pub(crate) fn index(&self) -> Result<Vec<Indexed>> {
        let builtin = self.repository.builtin().into_iter().map(|name| (name, vec![1]));
        let listed = self.repository.list()?.into_iter().map(|l| (l.name, l.versions));
        let mut all: BTreeMap<ModelName, Vec<u32>> = builtin.chain(listed).collect();
        for (name, versions) in &*self.loaded.read() {
            let known = all.entry(name.clone()).or_default();
            known.extend(versions.keys());
            known.sort_unstable();
            known.dedup();
        }
        let indexed = |(name, versions): (ModelName, Vec<u32>)| {
            let ready = self.versions(&name);
            let versions: Vec<_> = match versions.is_empty() {
                true => vec![None],
                false => versions.into_iter().map(Some).collect(),
            };
            versions.into_iter().map(move |version| Indexed {
                name: name.clone(),
                version,
                ready: version.is_some_and(|version| ready.contains(&version)),
            })
        };
        Ok(all.into_iter().flat_map(indexed).collect())
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

    /// Bytes that are reserved of each device.
    pub(crate) fn device_memory(&self) -> impl Iterator<Item = u64> {
        self.placer.makers.iter().map(|maker| maker.budget.used())
    }

    /// Where the version is that this is a replica of, as places among the daemon's devices; empty if it has only one.
    pub(crate) fn devices(&self, model: &LoadedModel) -> Vec<usize> {
        if model.node().is_alone {
            return Vec::new();
        }
        let loaded = self.loaded.read();
        let versions = loaded.get(&model.spec.name);
        let replicas = versions.and_then(|versions| versions.get(&model.spec.version));
        replicas.iter().flat_map(|all| all.each()).map(|one| one.node().index).collect()
    }

    /// Titles of the versions that each device has.
    pub(crate) fn models_by_device(&self) -> BTreeMap<usize, Vec<String>> {
        let mut all: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let loaded = self.loaded.read();
        for served in loaded.values().flatten().flat_map(|(_, replicas)| replicas.each()) {
            all.entry(served.node().index).or_default().push(served.title().into());
        }
        all
    }

    /// Drops networks for shapes that nobody has used for as long as `idle`. Blocks until their memory is free.
    pub(crate) fn expire_shapes(&self, idle: Duration) {
        let loaded: Vec<_> =
            self.loaded.read().values().flatten().map(|(_, m)| m.clone()).collect();
        for model in loaded.iter().flat_map(|replicas| replicas.each()) {
            let dropped = model.variants.expire(idle);
            if dropped > 0 {
                let title = model.title();
                tracing::info!(model = %title, dropped, "networks of shapes that nobody used for long");
            }
        }
    }

    /// Versions that are loaded.
    pub(crate) fn len(&self) -> usize {
        self.loaded.read().values().map(BTreeMap::len).sum()
    }

    /// Bytes that each version has reserved.
    pub(crate) fn memory(&self) -> Vec<(ModelLabels, u64)> {
        let loaded = self.loaded.read();
        let all = loaded.values().flatten();
        all.map(|(_, replicas)| (replicas.first().which(), replicas.bytes())).collect()
    }

    /// Requests that wait, by model and class; a model with replicas comes several times.
    pub(crate) fn depths(&self) -> Vec<(ClassLabels, usize)> {
        let loaded = self.loaded.read();
        let replicas = loaded.values().flatten().flat_map(|(_, replicas)| replicas.each());
        replicas.flat_map(|served| served.depths()).collect()
    }

    /// Refuses more versions than there may be, before any of them is made.
    fn check_room(&self, name: &ModelName, more: usize) -> Result<()> {
        let (most, have) = (self.placer.limits.models, self.len());
        if have.saturating_add(more) <= most {
            return Ok(());
        }
        let why = format!("{more} versions beside {have} that are loaded");
        Err(Error::Exhausted(format!("model {name}: {why}, limits.models allows {most}")))
    }

    /// All of them, or none.
    fn make_all(&self, specs: Vec<ModelSpec>) -> Result<Vec<Replicas>> {
        let mut made = Vec::new();
        for spec in specs {
            match self.make(&spec) {
                Ok(one) => made.push(one),
                Err(error) => {
                    made.iter().for_each(Replicas::retire);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    fn make(&self, spec: &ModelSpec) -> Result<Replicas> {
        let made = Replicas::new(self.placer.place(spec, &[], &Arc::default())?);
        made.ok_or_else(|| Error::Failed("no replica was made".into()))
    }
}

fn say_refused(model: &ModelName, error: &Error) {
    tracing::warn!(%model, %error, "not loaded");
}

pub(super) fn say_loaded(served: &LoadedModel) {
    let (model, bytes, device) = (served.title(), served.bytes(), &served.node().name);
    match served.spec.is_made_up() {
        true => tracing::warn!(%model, bytes, %device, "loaded with made-up weights"),
        false => tracing::info!(%model, bytes, %device, "loaded"),
    }
}
