//! Totals of all threads of a process.

use super::api::Api;
use super::histogram::Histogram;
use std::collections::BTreeMap;

/// Totals of one function.
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

/// Totals of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTotal {
    /// Launches.
    pub count: u64,
    /// Host time of its launches, in nanoseconds.
    pub nanos: u64,
    /// Host times of its launches.
    pub times: Histogram,
}

/// Totals of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    calls: [Total; Api::ALL.len()],
    /// Kernels by the driver's handles; zero: all that weren't counted separately.
    pub kernels: BTreeMap<u64, KernelTotal>,
    /// Calls of threads without a profile.
    pub lost: u64,
    /// Calls that were counted but not written one by one, because a ring was full.
    pub missed: u64,
}

impl Default for Totals {
    fn default() -> Self {
        let calls = std::array::from_fn(|_| Total::default());
        Self { calls, kernels: BTreeMap::new(), lost: 0, missed: 0 }
    }
}

impl Totals {
    /// Returns the totals of one function.
    pub fn of(&self, api: Api) -> &Total {
        &self.calls[api as usize]
    }

    /// Returns the totals of one function, mutably.
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
