//! Networks of the daemon that are on their device on demand, moved in the same way as processes.
//!
//! Each has a number in the place of a process's.

use super::facts::{Held, is_budget};
use super::mover::Mover;
use crate::error::{Error, Result};
use crate::suspend::suspensions::Suspender;
use parking_lot::Mutex;
use reef_suspend::helper::AdoptedFolder;
use reef_suspend::{MARGIN, Suspended, Uuid};
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// First number of a network. Numbers of Linux's processes are below 2²².
const FIRST_NUMBER: u32 = 1 << 30;

/// A network that leaves its device and returns.
pub(crate) trait Network: Debug + Send + Sync {
    /// Frees its memory on the device. Returns the bytes that its return needs. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it is being unloaded; `Failed` if the device is lost.
    fn leave(self: Arc<Self>) -> Result<Held>;

    /// Brings it back. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of its files and of the device; `Exhausted`. It is still away then.
    fn come_back(self: Arc<Self>) -> Result<()>;
}

/// Function that returns the bytes that are left of a budget.
type BytesLeft = Box<dyn Fn() -> u64 + Send + Sync>;

/// All networks that are on their devices on demand, and the budgets for their memory.
#[derive(Default)]
pub(crate) struct Networks(Mutex<State>);

#[derive(Default)]
struct State {
    all: BTreeMap<u32, NetworkEntry>,
    count: u32,
    budgets: BTreeMap<Uuid, BytesLeft>,
}

/// A network, and whether it is away. The latter is read without holding the network, whose last
/// holder frees it.
struct NetworkEntry {
    network: Weak<dyn Network>,
    is_away: Arc<AtomicBool>,
}

impl Debug for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Networks").finish_non_exhaustive()
    }
}

impl Networks {
    /// Adds a network that is on its device. Returns its number.
    pub(crate) fn add(&self, network: Weak<dyn Network>) -> u32 {
        let mut state = self.0.lock();
        let number = FIRST_NUMBER + state.count;
        state.count = (state.count + 1) % FIRST_NUMBER;
        state.all.insert(number, NetworkEntry { network, is_away: Arc::default() });
        number
    }

    /// Removes a network, which does not move any more.
    pub(crate) fn remove(&self, number: u32) {
        self.0.lock().all.remove(&number);
    }

    /// Adds the [budget](super::facts::budget_of) of a device, unless it is known.
    pub(crate) fn add_budget(&self, budget: Uuid, left: impl Fn() -> u64 + Send + Sync + 'static) {
        self.0.lock().budgets.entry(budget).or_insert_with(|| Box::new(left));
    }

    fn find(&self, number: u32) -> Result<(Arc<dyn Network>, Arc<AtomicBool>)> {
        let state = self.0.lock();
        let known = state.all.get(&number);
        let found = known.and_then(|known| Some((known.network.upgrade()?, known.is_away.clone())));
        found.ok_or_else(|| Error::Unavailable("the model is being unloaded".into()))
    }

    /// Returns whether a network is away; `None` for the number of a process.
    fn is_away(&self, number: u32) -> Option<bool> {
        let is_away = |known: &NetworkEntry| known.is_away.load(Ordering::SeqCst);
        (number >= FIRST_NUMBER).then(|| self.0.lock().all.get(&number).is_some_and(is_away))
    }

    /// Returns the bytes that are left of a budget, with those that stay free on a GPU.
    fn remaining(&self, budget: Uuid) -> Option<u64> {
        let state = self.0.lock();
        let left = state.budgets.get(&budget)?;
        Some(left().saturating_add(MARGIN))
    }
}

/// Moves networks, and processes if there are any.
#[derive(Debug)]
pub(crate) struct Movers {
    networks: Arc<Networks>,
    processes: Option<Box<dyn Mover>>,
}

impl Movers {
    pub(crate) fn new(networks: Arc<Networks>, processes: Option<Box<dyn Mover>>) -> Self {
        Self { networks, processes }
    }

    fn processes(&self) -> Result<&dyn Mover> {
        let without = || Error::Unavailable("guests.listen is false: no process moves".into());
        self.processes.as_deref().ok_or_else(without)
    }
}

impl Mover for Movers {
    fn leave(&self, pid: u32) -> Result<Held> {
        if pid < FIRST_NUMBER {
            return self.processes()?.leave(pid);
        }
        let (network, is_away) = self.networks.find(pid)?;
        let held = network.leave()?;
        is_away.store(true, Ordering::SeqCst);
        Ok(held)
    }

    fn come_back(&self, pid: u32) -> Result<()> {
        if pid < FIRST_NUMBER {
            return self.processes()?.come_back(pid);
        }
        let (network, is_away) = self.networks.find(pid)?;
        network.come_back()?;
        is_away.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Passes it on: no network takes part.
    fn turn_over(
        &self,
        leaver: u32,
        had: &Held,
        returner: u32,
        left: &mut dyn FnMut(Result<Held>),
        back: &mut dyn FnMut(Result<()>),
    ) {
        match self.processes() {
            Ok(processes) => processes.turn_over(leaver, had, returner, left, back),
            Err(error) => {
                left(Err(error.clone()));
                back(Err(error));
            }
        }
    }

    fn free(&self, device: Uuid) -> Option<u64> {
        if is_budget(&device) {
            return self.networks.remaining(device);
        }
        self.processes.as_ref()?.free(device)
    }

    /// Returns none of a network, whose bytes are known.
    fn bytes(&self, pid: u32, told: Option<Uuid>) -> Held {
        match &self.processes {
            Some(processes) if pid < FIRST_NUMBER => processes.bytes(pid, told),
            _ => Held::new(),
        }
    }

    fn suspender(&self, pid: u32) -> Option<Suspender> {
        match self.networks.is_away(pid) {
            Some(is_away) => is_away.then_some(Suspender::Idle),
            None => self.processes.as_ref()?.suspender(pid),
        }
    }

    fn forget(&self, pid: u32) {
        if let Some(processes) = self.processes.as_ref().filter(|_| pid < FIRST_NUMBER) {
            processes.forget(pid);
        }
    }

    fn adopt(&self, pid: u32, records: &[Suspended]) -> Result<()> {
        self.processes()?.adopt(pid, records)
    }

    fn write(&self, pid: u32, into: AdoptedFolder) -> Result<()> {
        self.processes()?.write(pid, into)
    }

    fn sockets(&self) -> PathBuf {
        self.processes.as_ref().map(|processes| processes.sockets()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::facts::budget_of;

    #[derive(Debug)]
    struct TestNetwork;

    impl Network for TestNetwork {
        fn leave(self: Arc<Self>) -> Result<Held> {
            Ok(vec![(budget_of(0), 5)])
        }

        fn come_back(self: Arc<Self>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn network_moves_by_its_number_until_it_is_removed() {
        let networks = Arc::new(Networks::default());
        let movers = Movers::new(networks.clone(), None);
        let network: Arc<dyn Network> = Arc::new(TestNetwork);
        let number = networks.add(Arc::downgrade(&network));
        assert_eq!(movers.suspender(number), None);
        assert_eq!(movers.leave(number), Ok(vec![(budget_of(0), 5)]));
        assert_eq!(movers.suspender(number), Some(Suspender::Idle));
        assert_eq!(movers.come_back(number), Ok(()));
        assert_eq!(movers.suspender(number), None);
        assert_ne!(networks.add(Arc::downgrade(&network)), number);
        networks.remove(number);
        let gone = Error::Unavailable("the model is being unloaded".into());
        assert_eq!(movers.leave(number), Err(gone));
        let without = movers.come_back(1).unwrap_err().to_string();
        assert!(without.contains("guests.listen is false"), "{without}");
    }

    #[test]
    fn budget_counts_as_a_device() {
        let networks = Arc::new(Networks::default());
        let movers = Movers::new(networks.clone(), None);
        networks.add_budget(budget_of(1), || 7);
        assert_eq!(movers.free(budget_of(1)), Some(7 + MARGIN));
        assert_eq!((movers.free(budget_of(0)), movers.free([7; 16])), (None, None));
        assert!(is_budget(&budget_of(1)) && !is_budget(&[7; 16]));
    }
}
