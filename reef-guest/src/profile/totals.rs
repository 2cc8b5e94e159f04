//! What all threads have recorded.

use super::api::Api;
use super::histogram::Histogram;
use std::collections::BTreeMap;

/// Of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Calls.
    pub count: u64,
    /// Host time, in nanoseconds.
    pub nanos: u64,
    /// Host time as the sum of each call's whole microseconds.
    pub micros: u64,
    /// Bytes of copies and allocations; threads of kernels.
    pub amount: u64,
    /// Host times.
    pub times: Histogram,
}

/// Of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTotal {
    /// Launches.
    pub count: u64,
    /// Host time of its launches, in nanoseconds.
    pub nanos: u64,
    /// Host times of its launches.
    pub times: Histogram,
}

/// Of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    calls: [Total; Api::ALL.len()],
    /// By the driver's handles; zero is all that weren't told apart.
    pub kernels: BTreeMap<u64, KernelTotal>,
    /// Calls that no thread's part had room for.
    pub lost: u64,
    /// Calls that were counted, and that nobody wrote down one by one for want of room.
    pub missed: u64,
}

impl Default for Totals {
    fn default() -> Self {
        let calls = std::array::from_fn(|_| Total::default());
        Self { calls, kernels: BTreeMap::new(), lost: 0, missed: 0 }
    }
}

impl Totals {
    /// Of one function.
    pub fn of(&self, api: Api) -> &Total {
        &self.calls[api as usize]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, api: Api) -> &mut Total {
        &mut self.calls[api as usize]
    }

    pub(super) fn add_kernel(&mut self, handle: u64, count: u64, nanos: u64, times: &Histogram) {
        let kernel = self.kernels.entry(handle).or_default();
        kernel.count += count;
        kernel.nanos += nanos;
        kernel.times.add(times);
    }
}
