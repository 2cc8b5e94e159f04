//! How models come and go while the daemon runs.

use super::state::Registry;
use crate::error::{Error, Result};
use crate::models::config::load::{LoadParameters, Replacement};
use crate::models::loaded_model::LoadedModel;
use crate::models::model_spec::ModelSpec;
use crate::models::placement::replicas::Replicas;
use crate::models::retiring::Retiring;
use crate::name::ModelName;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Registry {
    /// Loads what configurations name: `*` is all of the repository, of which those that can't be
    /// loaded are logged and left out.
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

    /// Loads all that is loaded anew, with the parameters that it was loaded with. Blocks. What
    /// fails is logged and stays as it is.
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

    /// The same with what `given` has in the place of what the repository says, as a client asks
    /// for it. What fails but for a model that is not there is logged.
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

    /// Unloads all versions of a model. Blocks until their requests are done and their memory is
    /// free.
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

    /// Drops networks for shapes that nobody has used for as long as `idle`. Blocks until their
    /// memory is free.
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

pub(in crate::models) fn say_loaded(served: &LoadedModel) {
    let (model, bytes, device) = (served.title(), served.bytes(), &served.node().name);
    match served.spec.is_made_up() {
        true => tracing::warn!(%model, bytes, %device, "loaded with made-up weights"),
        false => tracing::info!(%model, bytes, %device, "loaded"),
    }
}
