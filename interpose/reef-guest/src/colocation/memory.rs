//! Memory of pairs: what was found for real-time programs that have ended, until they start again.

use super::pairs::Pairs;
use super::share::Slo;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Programs that are kept, and those of one user.
const MAX_KEPT: usize = 64;
const MAX_OF_USER: usize = 16;

/// Real-time program on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramKey {
    /// UUID of the device.
    pub(crate) device: [u8; 16],
    pub(crate) uid: u32,
    /// Name of the program, which it has when it starts again.
    pub(crate) name: u64,
}

/// Pairs of programs that have ended, the one that ended first at the front. It is in the daemon's
/// memory alone.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Vec<(ProgramKey, Pairs)>>);

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Vec<(ProgramKey, Pairs)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the pairs of a program that has ended, in place of what was kept of it before. If
    /// there are too many, the first one of its user makes room, or the first one of all.
    pub(crate) fn put(&self, key: ProgramKey, mut pairs: Pairs) {
        pairs.forget_alone();
        let mut all = self.lock();
        all.retain(|(of, _)| *of != key);
        let is_own = |(of, _): &(ProgramKey, Pairs)| of.uid == key.uid;
        if all.iter().filter(|one| is_own(one)).count() >= MAX_OF_USER {
            let first = all.iter().position(is_own);
            first.into_iter().for_each(|at| drop(all.remove(at)));
        } else if all.len() >= MAX_KEPT {
            drop(all.remove(0));
        }
        all.push((key, pairs));
    }

    /// Takes the pairs of a program that has started. `None`: it is not known, or had another
    /// target.
    pub(crate) fn take(&self, key: ProgramKey, target: Slo) -> Option<Pairs> {
        let mut all = self.lock();
        let at = all.iter().position(|(of, _)| *of == key)?;
        Some(all.remove(at).1).filter(|pairs| pairs.target() == target)
    }

    /// Returns the number of programs that are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(uid: u32, name: u64) -> ProgramKey {
        ProgramKey { device: [1; 16], uid, name }
    }

    fn pairs(target: f64) -> Pairs {
        Pairs::new(Slo::of(target).unwrap(), 0)
    }

    #[test]
    fn program_is_taken_once_and_only_by_its_own_key() {
        let (memory, slo) = (Memory::default(), Slo::of(1.1).unwrap());
        memory.put(key(1, 7), pairs(1.1));
        memory.put(key(1, 7), pairs(1.1));
        assert_eq!(memory.len(), 1, "the later one takes the place of the earlier one");
        let elsewhere = ProgramKey { device: [2; 16], ..key(1, 7) };
        for other in [key(2, 7), key(1, 8), elsewhere] {
            assert!(memory.take(other, slo).is_none(), "{other:?}");
        }
        assert!(memory.take(key(1, 7), slo).is_some());
        assert!(memory.take(key(1, 7), slo).is_none(), "another process has it");
        memory.put(key(1, 7), pairs(1.2));
        assert!(memory.take(key(1, 7), slo).is_none(), "it was found for another target");
        assert_eq!(memory.len(), 0);
    }

    #[test]
    fn programs_are_bounded_and_a_user_displaces_its_own() {
        let (memory, slo) = (Memory::default(), Slo::of(1.1).unwrap());
        memory.put(key(2, 0), pairs(1.1));
        (0..100).for_each(|name| memory.put(key(1, name), pairs(1.1)));
        assert_eq!(memory.len(), 1 + MAX_OF_USER);
        assert!(memory.take(key(1, 99 - MAX_OF_USER as u64), slo).is_none());
        assert!(memory.take(key(1, 100 - MAX_OF_USER as u64), slo).is_some());
        assert!(memory.take(key(2, 0), slo).is_some(), "that of another user stays");
        (3..200).for_each(|uid| memory.put(key(uid, 0), pairs(1.1)));
        assert_eq!(memory.len(), MAX_KEPT);
        assert!(memory.take(key(199, 0), slo).is_some() && memory.take(key(3, 0), slo).is_none());
    }
}
