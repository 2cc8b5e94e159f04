//! Locks of changes: those of one model run one after the other, those of different models
//! together. Changes of all models exclude every other one.

use crate::name::ModelName;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Locks of the registry's changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeLocks {
    /// Shared by changes of one model, held alone by those of all.
    pub(crate) all: RwLock<()>,
    /// One for each model that is changed or waits for that.
    models: Mutex<HashMap<ModelName, Weak<Mutex<()>>>>,
}

impl ChangeLocks {
    /// Runs `change` of one model, after those of the same model that came before.
    pub(super) fn of_model<T>(&self, name: &ModelName, change: impl FnOnce() -> T) -> T {
        let model = self.model(name);
        let _of_model = model.lock(); // first: a change that waits for it delays none of all models
        let _any = self.all.read();
        change()
    }

    fn model(&self, name: &ModelName) -> Arc<Mutex<()>> {
        let mut models = self.models.lock();
        if let Some(lock) = models.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        models.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        models.insert(name.clone(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_models_that_nothing_changes_are_forgotten() {
        let (locks, name) = (ChangeLocks::default(), |name: &str| ModelName::new(name).unwrap());
        for model in ["a", "b", "c"] {
            assert_eq!(locks.of_model(&name(model), || model), model);
        }
        locks.of_model(&name("d"), || locks.of_model(&name("e"), || ()));
        let kept = locks.models.lock().values().filter(|lock| lock.strong_count() > 0).count();
        assert_eq!((kept, locks.models.lock().len()), (0, 2));
    }
}
