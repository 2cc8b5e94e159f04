//! Promises of each device, in numbers, and the choice of a device for the next client.
//!
//! Real-time clients go where the least real-time load is, so that they stay apart as long as there
//! are devices; best-effort ones where the least load of both classes is, because they take what is
//! left. Equals go where more memory is left, then to the first.

use super::demand::Demand;
use parking_lot::Mutex;
use reef_core::Class;
use std::cmp::Reverse;
use std::sync::Arc;

/// Promises of one device. Loads are in millionths of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Bytes that may be promised; `None`: no limit is known.
    pub(super) memory: Option<u64>,
    pub(super) bytes: u64,
    pub(super) rt_load: u64,
    pub(super) be_load: u64,
    pub(super) clients: u32,
    pub(super) is_lost: bool,
}

impl Entry {
    /// Returns the number of bytes that are left.
    fn bytes_left(&self) -> u64 {
        self.memory.unwrap_or(u64::MAX).saturating_sub(self.bytes)
    }

    fn load(&mut self, class: Class) -> &mut u64 {
        match class {
            Class::RealTime => &mut self.rt_load,
            Class::BestEffort => &mut self.be_load,
        }
    }

    /// Smaller is better.
    fn rank(&self, class: Class) -> (u64, u64, Reverse<u64>) {
        let first = match class {
            Class::RealTime => self.rt_load,
            Class::BestEffort => self.rt_load.saturating_add(self.be_load),
        };
        (first, self.be_load, Reverse(self.bytes_left()))
    }
}

/// The entries of all devices.
#[derive(Debug, Clone)]
pub(super) struct Ledger(Arc<Mutex<Vec<Entry>>>);

impl Ledger {
    pub(super) fn new(memory: impl IntoIterator<Item = Option<u64>>) -> Self {
        let entry = |memory| Entry { memory, ..Entry::default() };
        Self(Arc::new(Mutex::new(memory.into_iter().map(entry).collect())))
    }

    /// Notes a client on the best device that has room for it and is not in `but`.
    pub(super) fn place(
        &self,
        class: Class,
        demand: &Demand,
        but: &[usize],
    ) -> Option<LedgerEntry> {
        let mut entries = self.0.lock();
        let fits = |(at, entry): &(usize, &Entry)| {
            !entry.is_lost && entry.bytes_left() >= demand.bytes && !but.contains(at)
        };
        let best = entries.iter().enumerate().filter(fits);
        let (at, _) = best.min_by_key(|(_, entry)| entry.rank(class))?;
        let (bytes, load) = (demand.bytes, demand.millionths());
        let entry = &mut entries[at];
        entry.bytes += bytes;
        entry.clients += 1;
        *entry.load(class) += load;
        Some(LedgerEntry { ledger: self.clone(), at, bytes, client: Some((class, load)) })
    }

    /// Notes memory of the device at `at`, which several clients share; `None`: it has not as much
    /// left.
    pub(super) fn take(&self, at: usize, bytes: u64) -> Option<LedgerEntry> {
        let entry = &mut self.0.lock()[at];
        (entry.bytes_left() >= bytes).then(|| {
            entry.bytes += bytes;
            LedgerEntry { ledger: self.clone(), at, bytes, client: None }
        })
    }

    /// No client goes to the device at `at` from now on.
    pub(super) fn note_lost(&self, at: usize) {
        self.0.lock()[at].is_lost = true;
    }

    /// Promises at most `memory` bytes of the device at `at` from now on.
    pub(super) fn limit(&self, at: usize, memory: u64) {
        self.0.lock()[at].memory = Some(memory);
    }

    pub(super) fn entry(&self, at: usize) -> Entry {
        self.0.lock()[at]
    }
}

/// A client, or memory, in the ledger until this is dropped.
#[derive(Debug)]
pub(super) struct LedgerEntry {
    ledger: Ledger,
    at: usize,
    bytes: u64,
    client: Option<(Class, u64)>,
}

impl LedgerEntry {
    /// Returns the position of the device.
    pub(super) fn at(&self) -> usize {
        self.at
    }
}

impl Drop for LedgerEntry {
    fn drop(&mut self) {
        let entry = &mut self.ledger.0.lock()[self.at];
        entry.bytes -= self.bytes;
        if let Some((class, load)) = self.client {
            entry.clients -= 1;
            *entry.load(class) -= load;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::seq::IndexedRandom;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn places(ledger: &Ledger, class: Class, demands: &[Demand]) -> Vec<(usize, LedgerEntry)> {
        let place =
            |demand| ledger.place(class, demand, &[]).map(|entered| (entered.at(), entered));
        demands.iter().filter_map(place).collect()
    }

    fn at(placed: &[(usize, LedgerEntry)]) -> Vec<usize> {
        placed.iter().map(|(at, _)| *at).collect()
    }

    #[test]
    fn real_time_clients_stay_apart_and_best_effort_fills_up() {
        let ledger = Ledger::new([None; 3]);
        let rt = places(&ledger, Class::RealTime, &[Demand::default().load(0.2); 2]);
        assert_eq!(at(&rt), [0, 1]);
        let be = places(&ledger, Class::BestEffort, &[Demand::default(); 4]);
        assert_eq!(at(&be), [2, 0, 1, 2]);
        let third = places(&ledger, Class::RealTime, &[Demand::default().load(0.2); 2]);
        assert_eq!(at(&third), [2, 0], "the device without a real-time client comes first");
    }

    #[test]
    fn client_is_placed_where_its_memory_fits() {
        let ledger = Ledger::new([Some(10), Some(30), Some(20)]);
        let ask = |bytes| Demand::default().bytes(bytes);
        let rt = places(&ledger, Class::RealTime, &[ask(5), ask(5), ask(5), ask(21), ask(15)]);
        assert_eq!(at(&rt), [1, 2, 0, 1, 2], "and one more has no place");
        assert!(ledger.place(Class::RealTime, &ask(6), &[]).is_none());
        assert!(ledger.take(0, 6).is_none() && ledger.take(0, 5).is_some());
    }

    #[test]
    fn invalid_load_is_clamped() {
        for (load, want) in [(f64::NAN, 0), (-1.0, 0), (f64::INFINITY, 1_000_000), (0.5, 500_000)] {
            assert_eq!(Demand::default().load(load).millionths(), want, "{load}");
        }
    }

    fn demand(rng: &mut impl Rng) -> Demand {
        Demand::default()
            .bytes(rng.random_range(0..40))
            .load(rng.random_range(0..=10) as f64 / 10.0)
    }

    /// Clients come and go and devices are lost, at random.
    #[test]
    fn best_device_is_taken_within_its_memory() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let memory: Vec<_> =
                (0..rng.random_range(1..6)).map(|_| rng.random_range(0..100)).collect();
            let ledger = Ledger::new(memory.iter().copied().map(Some));
            let mut clients: Vec<LedgerEntry> = Vec::new();
            for _ in 0..100 {
                let before: Vec<_> = (0..memory.len()).map(|at| ledger.entry(at)).collect();
                let lost = before.iter().filter(|entry| entry.is_lost).count();
                match rng.random_range(0..20) {
                    0 if lost + 1 < memory.len() => {
                        ledger.note_lost(rng.random_range(0..memory.len()))
                    }
                    1..8 if !clients.is_empty() => {
                        clients.swap_remove(rng.random_range(0..clients.len()));
                    }
                    _ => {
                        let class = *Class::ALL.choose(&mut rng).unwrap();
                        let demand = demand(&mut rng);
                        let placed = ledger.place(class, &demand, &[]);
                        check(&before, class, &demand, placed.as_ref(), seed);
                        clients.extend(placed);
                    }
                }
            }
            clients.clear();
            for (at, &memory) in memory.iter().enumerate() {
                let entry = ledger.entry(at);
                let empty =
                    Entry { memory: Some(memory), is_lost: entry.is_lost, ..Entry::default() };
                assert_eq!(entry, empty, "seed {seed}");
            }
        }
    }

    fn check(
        before: &[Entry],
        class: Class,
        demand: &Demand,
        placed: Option<&LedgerEntry>,
        seed: u64,
    ) {
        let fits = |e: &&Entry| !e.is_lost && e.bytes + demand.bytes <= e.memory.unwrap();
        let fitting: Vec<_> = before.iter().filter(fits).collect();
        let Some(placed) = placed else {
            return assert!(fitting.is_empty(), "seed {seed}: there was room");
        };
        let entry = &before[placed.at()];
        assert!(fits(&entry), "seed {seed}: {demand:?} on {entry:?}");
        let load = |e: &Entry| match class {
            Class::RealTime => e.rt_load,
            Class::BestEffort => e.rt_load + e.be_load,
        };
        let least = fitting.iter().map(|e| load(e)).min();
        assert_eq!(Some(load(entry)), least, "seed {seed}: {demand:?} on {entry:?}");
    }
}
