//! The cores of the hostile process: its own on a large machine, so that effects on others come
//! from the daemon and not from the machine's scheduler.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of the hostile process, where there are twice as many or more.
const HOSTILE: usize = 4;

/// The cores of both sides.
pub(super) struct Cores {
    all: usize,
    sides: Option<Sides>,
}

struct Sides {
    good: CpuSet,
    hostile: CpuSet,
}

impl Cores {
    /// Splits what this thread may run on. From now on it runs on those of the good side, and so do
    /// its children.
    pub(super) fn split() -> Self {
        let allowed = sched_getaffinity(None).expect("Linux says it");
        let all: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        let sides = (all.len() >= 2 * HOSTILE).then(|| {
            let (good, hostile) = all.split_at(all.len() - HOSTILE);
            Sides { good: set(good), hostile: set(hostile) }
        });
        sides.iter().for_each(|sides| pin(&sides.good));
        Self { all: all.len(), sides }
    }

    /// Does something, such as starting a process, on the cores of the hostile side.
    pub(super) fn hostile<R>(&self, start: impl FnOnce() -> R) -> R {
        let Some(sides) = &self.sides else { return start() };
        pin(&sides.hostile);
        let started = start();
        pin(&sides.good);
        started
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} processors, the hostile process on ", self.all)?;
        match self.sides {
            Some(_) => write!(f, "{HOSTILE} of its own"),
            None => f.write_str("the same"),
        }
    }
}

fn set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    set
}

fn pin(cores: &CpuSet) {
    sched_setaffinity(None, cores).expect("cores that we may run on");
}
