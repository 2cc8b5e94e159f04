//! Profile of one thread.

use super::api::Api;
use super::histogram::Counts;
use super::kernels::Kernels;
use super::ring::{Call, Event, Ring};
use super::totals::Totals;
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Counts of one function. Written by one thread alone.
#[derive(Debug)]
struct Calls {
    count: AtomicU64,
    nanos: AtomicU64,
    /// Sum of each call's whole microseconds, which differs from the microseconds of `nanos`.
    micros: AtomicU64,
    amount: AtomicU64,
    times: Counts,
}

/// Profile of one thread. All zero: it is free and empty.
#[derive(Debug)]
pub struct ThreadProfile {
    /// Thread that has it; zero: it is free.
    thread: AtomicU32,
    calls: [Calls; Api::ALL.len()],
    kernels: Kernels,
    /// Calls that were not sent because the ring was full.
    missed: AtomicU64,
    ring: Ring,
}

fn grow(of: &AtomicU64, by: u64) {
    of.store(of.load(Relaxed).wrapping_add(by), Relaxed);
}

impl ThreadProfile {
    /// Takes it for a thread. Returns false if another thread has it.
    pub(super) fn take(&self, thread: u32) -> bool {
        self.thread.compare_exchange(0, thread.max(1), Acquire, Relaxed).is_ok()
    }

    /// Gives it back. Its counts stay. For its thread alone.
    pub fn give_back(&self) {
        self.thread.store(0, Release);
    }

    /// Counts a call. For its thread alone.
    pub fn note(&self, call: &Call) {
        let calls = &self.calls[call.api as usize];
        grow(&calls.count, 1);
        grow(&calls.nanos, call.nanos);
        grow(&calls.micros, call.nanos / 1000);
        grow(&calls.amount, call.amount);
        calls.times.note(call.nanos);
        if call.api == Api::Launch {
            self.kernels.note(call.what, call.nanos);
        }
    }

    /// Sends a call to the writing thread. Returns false if the ring is full. For its thread alone.
    pub fn send(&self, call: &Call) -> bool {
        self.ring.push(self.thread.load(Relaxed), call)
    }

    /// Counts a call that wasn't sent. For its thread alone.
    pub fn miss(&self) {
        grow(&self.missed, 1);
    }

    pub(super) fn drain(&self, take: impl FnMut(Event)) {
        self.ring.drain(take);
    }

    pub(super) fn add_calls(&self, all: &mut Totals) {
        for (api, calls) in Api::ALL.into_iter().zip(&self.calls) {
            let read = |of: &AtomicU64| of.load(Relaxed);
            let total = all.of_mut(api);
            total.count += read(&calls.count);
            total.nanos += read(&calls.nanos);
            total.micros += read(&calls.micros);
            total.amount += read(&calls.amount);
            calls.times.add_to(&mut total.times);
        }
        all.missed += self.missed.load(Relaxed);
    }

    pub(super) fn add_kernels(&self, all: &mut Totals) {
        self.kernels.add_to(all);
    }
}
