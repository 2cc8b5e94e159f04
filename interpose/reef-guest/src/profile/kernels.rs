//! Launches by kernel: a table of a fixed size for each thread.

use super::histogram::{Counts, Histogram};
use super::totals::Totals;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum kernels of a thread that are counted separately. The others share one entry without a
/// handle.
const MAX_KERNELS: usize = 512;

/// Counts of one kernel. Written by one thread alone.
#[derive(Debug)]
struct Kernel {
    /// Handle of the driver. Zero: the entry is free.
    handle: AtomicU64,
    count: AtomicU64,
    nanos: AtomicU64,
    times: Counts,
}

/// Table of one thread. The last entry is for all other kernels.
#[derive(Debug)]
pub(super) struct Kernels([Kernel; MAX_KERNELS + 1]);

fn grow(of: &AtomicU64, by: u64) {
    of.store(of.load(Relaxed).wrapping_add(by), Relaxed);
}

impl Kernels {
    pub(super) fn note(&self, handle: u64, nanos: u64) {
        let kernel = self.find(handle.max(1));
        grow(&kernel.count, 1);
        grow(&kernel.nanos, nanos);
        kernel.times.note(nanos);
    }

    /// Returns the entry of a kernel, or the next free one, or the one for all others.
    fn find(&self, handle: u64) -> &Kernel {
        let first = (handle.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize;
        for at in 0..16 {
            let kernel = &self.0[(first + at) % MAX_KERNELS];
            match kernel.handle.load(Relaxed) {
                0 => {
                    kernel.handle.store(handle, Relaxed);
                    return kernel;
                }
                known if known == handle => return kernel,
                _ => {}
            }
        }
        &self.0[MAX_KERNELS]
    }

    pub(super) fn add_to(&self, all: &mut Totals) {
        for kernel in self.0.iter().filter(|kernel| kernel.count.load(Relaxed) > 0) {
            let mut times = Histogram::default();
            kernel.times.add_to(&mut times);
            let (count, nanos) = (kernel.count.load(Relaxed), kernel.nanos.load(Relaxed));
            all.add_kernel(kernel.handle.load(Relaxed), count, nanos, &times);
        }
    }
}
