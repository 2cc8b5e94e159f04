//! A network that is on its device on demand, as the requests for it see it.

use super::factory::{PeakBytes, VariantFactory};
use crate::class::Class;
use crate::error::{Error, Result};
use crate::models::declaration::Shapes;
use crate::models::model_spec::ModelSpec;
use crate::residency::facts::{Facts, Held, ProcessName, budget_of};
use crate::residency::networks::{Network, Networks};
use crate::residency::residents::{Refusal, Resident};
use parking_lot::Mutex;
use reef_suspend::Uuid;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Maximum time that a load waits for room. The budget or the device refuses it afterwards.
const ROOM_TIMEOUT: Duration = Duration::from_secs(30);

/// Residency of a network with all of its variants, which leave and return together.
#[derive(Debug)]
pub(crate) struct OnDemand {
    resident: Resident,
    networks: Arc<Networks>,
    /// Number among the networks, once it can move.
    number: OnceLock<u32>,
    /// Device, if that is a GPU, and the budget for it.
    device: Option<Uuid>,
    budget: Uuid,
    /// Shapes of its default network, if its description names them.
    first: OnceLock<Shapes>,
    /// Maximum bytes that are reserved only while one of its networks is made.
    transient: AtomicU64,
    /// True once it does not move any more. Locked during a move.
    is_over: Mutex<bool>,
    /// Reason for the last return that failed.
    why: Mutex<Option<Error>>,
}

impl OnDemand {
    /// Adds a network that is being loaded; `None` if it is always on its device.
    ///
    /// # Errors
    ///
    /// `Failed` if the thread for moves cannot be started.
    pub(crate) fn new(spec: &ModelSpec, factory: &VariantFactory) -> Result<Option<Arc<Self>>> {
        let observer = &factory.observer;
        let Some((idle, residents)) = spec.idle.zip(observer.residents.get()) else {
            return Ok(None);
        };
        let node = &factory.node;
        // Requests of both classes use it. The class of those that use it decides when it leaves.
        let (class, instance) = (Class::BestEffort, 0);
        let (model, version) = (spec.name.to_string(), spec.version);
        let title = format!("{model}/{version} network").into();
        let name = ProcessName { model, version, class, instance, device: node.name.clone() };
        let facts = Facts { name, title, idle, limit: 0, device: None };
        let (budget, left) = (budget_of(node.index), factory.budget.clone());
        observer.networks.add_budget(budget, move || left.remaining());
        Ok(Some(Arc::new(Self {
            resident: residents.add(facts)?,
            networks: observer.networks.clone(),
            number: OnceLock::new(),
            device: node.engine.uuid(),
            budget,
            first: OnceLock::new(),
            transient: AtomicU64::new(0),
            is_over: Mutex::new(false),
            why: Mutex::new(None),
        })))
    }

    /// Notes the shapes of its default network, if its description names them.
    pub(crate) fn set_first(&self, shapes: Option<&Shapes>) {
        if let Some(shapes) = shapes {
            let _ = self.first.set(shapes.clone()); // once, at the load
        }
    }

    /// Returns the shapes of its default network, if its description names them.
    pub(crate) fn first(&self) -> Option<&Shapes> {
        self.first.get()
    }

    /// Waits until there is room for one more of its networks, for which others leave. Without
    /// room, the budget or the device refuses it.
    pub(crate) fn wait_for_room(&self, factory: &VariantFactory, peak: PeakBytes) {
        let PeakBytes { own, staged, reading } = peak;
        self.transient.fetch_max(staged.saturating_add(reading), Ordering::Relaxed);
        let needed = own.saturating_add(staged); // what it was read into is reserved already
        if !factory.budget.fits_without(u64::MAX, needed) {
            return; // not even alone
        }
        let is_over = || factory.closing.load(Ordering::SeqCst);
        let room = self.resident.wait_for(self.held(own, staged), ROOM_TIMEOUT, &is_over);
        if room.is_err() {
            tracing::debug!("no room was made for a network");
        }
    }

    /// Notes that it is loaded with these bytes, and can move from now on.
    pub(crate) fn begin(&self, network: Weak<dyn Network>, bytes: u64) {
        let number = *self.number.get_or_init(|| self.networks.add(network));
        self.resident.note_network(number, self.held(bytes, 0));
    }

    /// Waits until no move runs. None begins afterwards.
    pub(crate) fn end(&self) {
        *self.is_over.lock() = true;
        self.number.get().into_iter().for_each(|number| self.networks.remove(*number));
    }

    /// Runs a departure, which returns the bytes that the network had.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it is being unloaded.
    pub(crate) fn leave(&self, leave: impl FnOnce() -> u64) -> Result<Held> {
        let is_over = self.is_over.lock();
        check_goes_on(*is_over)?;
        let bytes = leave();
        drop(is_over);
        Ok(self.held(bytes, self.transient.load(Ordering::Relaxed)))
    }

    /// Runs a return, which returns the bytes that the network has then.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it is being unloaded; errors of `come_back`.
    pub(crate) fn come_back(&self, come_back: impl FnOnce() -> Result<u64>) -> Result<()> {
        let is_over = self.is_over.lock();
        check_goes_on(*is_over)?;
        let back = come_back();
        drop(is_over);
        *self.why.lock() = back.as_ref().err().cloned();
        self.resident.note_needs(self.held(back?, 0));
        Ok(())
    }

    /// True if it has left its device, or moves.
    pub(crate) fn is_off(&self) -> bool {
        self.resident.is_off()
    }

    /// Waits until it is on its device, and keeps it there until the result is dropped.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it is not there within `time`, or if no client waits any more.
    pub(crate) fn enter(
        self: &Arc<Self>,
        class: Class,
        time: Duration,
        gone: &dyn Fn() -> bool,
    ) -> Result<Stay> {
        let counted = CountedClass::new(self, class);
        match self.resident.begin_use(time, gone) {
            Ok(()) => Ok(Stay { on_demand: self.clone(), is_kept: false, _counted: counted }),
            Err(Refusal::Away(error)) => Err(error),
            Err(Refusal::Lost(error)) => {
                self.resident.forget_failures(); // the next request tries again
                let why = self.why.lock().clone();
                Err(why.map_or(error, |why| {
                    Error::Unavailable(format!("the model does not return to its device: {why}"))
                }))
            }
        }
    }

    /// Returns its bytes on the device, with `transient` bytes more of the budget.
    fn held(&self, bytes: u64, transient: u64) -> Held {
        let device = self.device.map(|device| (device, bytes));
        device.into_iter().chain([(self.budget, bytes.saturating_add(transient))]).collect()
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        self.end(); // of a load that has failed
    }
}

fn check_goes_on(is_over: bool) -> Result<()> {
    if is_over {
        return Err(Error::Unavailable("the model is being unloaded".into()));
    }
    Ok(())
}

/// A real-time request of a network, while it waits or runs.
#[derive(Debug)]
struct CountedClass(Option<Arc<OnDemand>>);

impl CountedClass {
    fn new(on_demand: &Arc<OnDemand>, class: Class) -> Self {
        let counted = (class == Class::RealTime).then(|| on_demand.clone());
        counted.iter().for_each(|counted| counted.resident.begin_real_time());
        Self(counted)
    }
}

impl Drop for CountedClass {
    fn drop(&mut self) {
        self.0.iter().for_each(|counted| counted.resident.end_real_time());
    }
}

/// Use of a network, which keeps it on its device.
#[derive(Debug)]
pub(crate) struct Stay {
    on_demand: Arc<OnDemand>,
    /// True for a client, whose use may never end.
    is_kept: bool,
    _counted: CountedClass,
}

impl Stay {
    /// Makes it the use of a client for as long as that is connected. No model waits for its end.
    pub(crate) fn keep(mut self) -> Self {
        self.on_demand.resident.begin_keep();
        self.is_kept = true;
        self
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if self.is_kept {
            self.on_demand.resident.end_keep();
        }
        self.on_demand.resident.end_use();
    }
}
