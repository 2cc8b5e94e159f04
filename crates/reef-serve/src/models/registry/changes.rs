//! Loading and unloading of models while the daemon runs.

use super::lookups::not_loaded;
use super::state::Registry;
use crate::error::{Error, Result};
use crate::models::config::load::{LoadParameters, Replacement};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::placement::replicas::Replicas;
use crate::models::retiring::Retiring;
use crate::models::sequences::table::Sequences;
use crate::name::ModelName;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Registry {
    /// Loads a model of the configuration. `*` is all of the repository; models that cannot be
    /// loaded are then logged and left out.
    ///
    /// # Errors
    ///
    /// Errors of [`load`](Self::load); for `*` only if none of them can be loaded.
    pub(crate) fn load_named(&self, name: &str) -> Result<()> {
        if name != "*" {
            return self.load(&ModelName::new(name)?);
        }
        for error in self.repository.unread() {
            tracing::warn!(%error, "not read");
        }
        let listed = self.repository.list()?;
        let try_load =
            |name: &ModelName| self.load(name).inspect_err(|e| log_refused(name, e)).err();
        let mut errors = listed.iter().filter_map(|listed| try_load(&listed.name));
        let first = errors.next();
        let failed = usize::from(first.is_some()) + errors.count();
        match first {
            Some(error) if failed == listed.len() => Err(error),
            _ => Ok(()),
        }
    }

    /// Loads all loaded models again, with their parameters. Blocks. A model that fails is logged
    /// and stays as it is.
    pub(crate) fn reload(&self) {
        let mut names: BTreeSet<_> = self.loaded.read().keys().cloned().collect();
        names.extend(self.unavailable.names());
        let open = names.iter().take_while(|_| !self.is_closing());
        open.for_each(|name| self.reload_model(name));
    }

    /// Loads one model again, unless it was unloaded since its name was noted.
    pub(crate) fn reload_model(&self, name: &ModelName) {
        let reload = || {
            if !self.loaded.read().contains_key(name)
                && self.unavailable.reason(name, None).is_none()
            {
                return Ok(());
            }
            let given = self.replacements.lock().get(name).cloned().unwrap_or_default();
            self.load_now(name, given)
        };
        let _ = self.change(name, reload).inspect_err(|error| log_refused(name, error));
    }

    /// Runs a change of one model: after those of the same model, and together with others.
    ///
    /// # Errors
    ///
    /// `Unavailable` once the daemon ends; errors of `change`.
    fn change<T>(&self, name: &ModelName, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.changes.of_model(name, || {
            if self.is_closing() {
                return Err(Error::Unavailable("the daemon is shutting down".into()));
            }
            change()
        })
    }

    /// Loads the versions of a model that its description selects, again if they are loaded.
    /// Blocks.
    ///
    /// Requests go to the old versions until the new ones are ready, if the budget has room for
    /// both.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` if its files are wrong; `Exhausted`; errors of the device.
    pub(crate) fn load(&self, name: &ModelName) -> Result<()> {
        self.change(name, || self.load_now(name, Replacement::default()))
    }

    /// Loads a model for a client, with the parameters `given` in place of the repository's
    /// description. A failure is logged, except for an unknown model.
    ///
    /// # Errors
    ///
    /// Errors of [`load`](Self::load) and of the parameters.
    pub(crate) fn load_with(&self, name: &ModelName, given: &LoadParameters) -> Result<()> {
        let given = Replacement::new(name, given, &self.budget, self.model_bytes)?;
        // Nothing is held while a client's parameters are read and its files written.
        self.change(name, || self.load_for_client(name, given))
    }

    /// Loads a model within a change of it, and logs a failure.
    fn load_for_client(&self, name: &ModelName, given: Replacement) -> Result<()> {
        let log = |error: &Error| {
            if !matches!(error, Error::NotFound(_)) {
                log_refused(name, error);
            }
        };
        self.load_now(name, given).inspect_err(log)
    }

    /// Loads a model within a change of it, for a caller that reports a failure itself.
    fn load_now(&self, name: &ModelName, given: Replacement) -> Result<()> {
        let specs = self.repository.specs(name, None, &given)?;
        let pending = self.reserve_versions(name, specs.len())?;
        let made = self.make_all(specs)?;
        made.iter().flat_map(|replicas| replicas.each()).for_each(|served| log_loaded(served));
        let number = |replicas: &Replicas| replicas.first().spec.version;
        let new =
            made.into_iter().map(|replicas| (number(&replicas), Arc::new(replicas))).collect();
        self.note_replacement(name, given);
        let mut loaded = self.loaded.write();
        let old = loaded.insert(name.clone(), new);
        drop(pending); // they count among the loaded ones from now on
        drop(loaded);
        self.unavailable.forget(name);
        old.into_iter().flatten().for_each(|(_, served)| served.retire());
        Ok(())
    }

    fn note_replacement(&self, name: &ModelName, given: Replacement) {
        let mut replacements = self.replacements.lock();
        let before = if given.config.is_some() {
            replacements.insert(name.clone(), given)
        } else {
            replacements.remove(name)
        };
        drop(replacements);
        drop(before); // with its files
    }

    /// Unloads all versions of a model. Blocks until their requests have ended and their memory is
    /// free.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub(crate) fn unload(&self, name: &ModelName) -> Result<()> {
        self.change(name, || self.unload_now(name))
    }

    fn unload_now(&self, name: &ModelName) -> Result<()> {
        let versions = self.loaded.write().remove(name);
        if !self.unavailable.forget(name) && versions.is_none() {
            return Err(not_loaded(name, self.loaded.read().keys()));
        }
        self.note_replacement(name, Replacement::default());
        versions.into_iter().flatten().map(|(_, served)| served).for_each(|served| {
            served.retire();
            tracing::info!(model = %served.first().title(), "unloaded");
        });
        Ok(())
    }

    /// Unloads everything, finally. Blocks, but not for changes that have not begun: they are
    /// refused.
    pub(crate) fn clear(&self) {
        self.close();
        let _change = self.changes.all.write();
        let all = std::mem::take(&mut *self.loaded.write());
        let replacements = std::mem::take(&mut *self.replacements.lock());
        drop(replacements);
        let all = all.into_values().flatten();
        let retiring: Vec<_> = all.flat_map(|(_, served)| served.start_retiring()).collect();
        retiring.into_iter().for_each(Retiring::wait);
    }

    /// Refuses changes from now on, and ends loads that wait for a program: the daemon ends.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// True if everything is being unloaded.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Returns a model as [`get`](Self::get) without a version, and loads it if it is not loaded.
    ///
    /// # Errors
    ///
    /// Errors of [`load`](Self::load).
    pub(crate) fn get_or_load(&self, name: &str) -> Result<Arc<LoadedModel>> {
        if let Ok(served) = self.get(name, "") {
            return Ok(served);
        }
        let model = ModelName::new(name)?;
        self.change(&model, || {
            if let Err(Error::NotFound(_)) = self.get(name, "") {
                // No other thread has loaded it meanwhile.
                self.load_for_client(&model, Replacement::default())?;
            }
            self.get(name, "")
        })
    }

    /// Drops networks of shapes that have been unused for `idle`. Blocks until their memory is
    /// free.
    pub(crate) fn expire_unused(&self, idle: Option<Duration>) {
        let loaded: Vec<_> =
            self.loaded.read().values().flatten().map(|(_, m)| m.clone()).collect();
        for model in loaded.iter().flat_map(|replicas| replicas.each()) {
            let dropped = idle.map_or(0, |idle| model.variants.expire(idle));
            model.sequences.iter().for_each(Sequences::expire);
            if dropped > 0 {
                let title = model.title();
                tracing::info!(model = %title, dropped, "dropped networks of unused shapes");
            }
        }
    }

    /// Refuses more versions than allowed, before any of them is created. They count until the
    /// result is dropped.
    fn reserve_versions(&self, name: &ModelName, more: usize) -> Result<PendingVersions<'_>> {
        let (max, loaded) = (self.placer.limits.models, self.loaded.read());
        let mut pending = self.pending.lock();
        let have = *pending + loaded.values().map(BTreeMap::len).sum::<usize>();
        if have.saturating_add(more) <= max {
            *pending += more;
            return Ok(PendingVersions { count: &self.pending, versions: more });
        }
        Err(Error::Exhausted(format!(
            "model {name}: loaded versions must be at most {max} (limits.models), got {have} + {more}"
        )))
    }

    /// Creates all of them, or none.
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

/// Versions that are being created, until this is dropped.
struct PendingVersions<'a> {
    count: &'a Mutex<usize>,
    versions: usize,
}

impl Drop for PendingVersions<'_> {
    fn drop(&mut self) {
        *self.count.lock() -= self.versions;
    }
}

fn log_refused(model: &ModelName, error: &Error) {
    tracing::warn!(%model, %error, "not loaded");
}

pub(in crate::models) fn log_loaded(served: &LoadedModel) {
    let (model, bytes, device) = (served.title(), served.bytes(), &served.node().name);
    if served.spec.is_made_up() {
        tracing::warn!(%model, bytes, %device, "loaded with made-up weights");
    } else {
        tracing::info!(%model, bytes, %device, "loaded");
    }
}
