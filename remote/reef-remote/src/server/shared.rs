//! State that the threads of a session share: the device, its dispatcher if sessions share it, and
//! the way to the client.

use super::tenants::accounts::{Account, Charge};
use super::tenants::resource::Resource;
use crate::conversions::shifted;
use crate::error::invalid;
use reef_core::Dispatcher;
use reef_op::Operators;
use reef_wire::{Endpoint, Result};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Shared<D: Operators> {
    pub(super) device: D,
    /// `None`: the device is the only session's, and its lanes are hardware queues.
    pub(super) dispatcher: Option<Dispatcher<D>>,
    /// Clients may launch kernels with arguments of their own.
    pub(super) has_raw_launches: bool,
}

/// Way from a session's threads to its client.
#[derive(Debug)]
pub(super) struct Outlet {
    /// Has the threads.
    account: Arc<Account>,
    /// `None`: the session has not begun.
    endpoint: OnceLock<Arc<Endpoint>>,
    /// Nanoseconds from the device's clock to the one that the client knows, which was another
    /// device's if the session has moved.
    shift: AtomicI64,
    /// Threads of lanes.
    threads: AtomicUsize,
}

impl Outlet {
    pub(super) fn new(account: Arc<Account>) -> Self {
        let (endpoint, shift, threads) = Default::default();
        Self { account, endpoint, shift, threads }
    }

    pub(super) fn begin(&self, endpoint: &Arc<Endpoint>) {
        let _ = self.endpoint.set(endpoint.clone()); // a session begins once
    }

    pub(super) fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        self.endpoint.get()
    }

    /// Pushes a message, as [`Endpoint::push`] does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Endpoint::push`]. Without a client there is none.
    pub(super) fn push(&self, op: u16, lane: u32, parts: &[&[u8]]) -> Result<()> {
        self.endpoint().map_or(Ok(()), |endpoint| endpoint.push(op, lane, parts).map(|_| ()))
    }

    pub(super) fn flush(&self) {
        self.endpoint().into_iter().for_each(|endpoint| endpoint.flush());
    }

    /// Answers a message.
    pub(super) fn reply(&self, request: u64) {
        if let Some(endpoint) = self.endpoint() {
            let _ = endpoint.reply(request, Ok(&[])); // without a session none is missed
            endpoint.flush();
        }
    }

    /// Returns the client's time for one of the device.
    pub(super) fn time(&self, at: Duration) -> Duration {
        shifted(at, self.shift.load(Ordering::Relaxed))
    }

    /// Has the device's time `now` be `client` for the client.
    pub(super) fn set_time(&self, now: Duration, client: Duration) {
        let shift = client.as_nanos() as i128 - now.as_nanos() as i128;
        let shift = shift.clamp(i64::MIN.into(), i64::MAX.into());
        self.shift.store(shift as i64, Ordering::Relaxed);
    }

    /// Returns what [`Account::may_be_real_time`] does.
    pub(super) fn may_be_real_time(&self) -> bool {
        self.account.may_be_real_time()
    }

    /// Number of threads of lanes.
    pub(super) fn threads(&self) -> usize {
        self.threads.load(Ordering::SeqCst)
    }

    /// Counts a thread of a lane until what this returns is dropped.
    ///
    /// # Errors
    ///
    /// `Invalid`: the tenant's sessions have too many.
    pub(super) fn enter(self: &Arc<Self>) -> reef_core::Result<LaneThread> {
        let charge = self.account.charge(Resource::Threads, 1).map_err(invalid)?;
        self.threads.fetch_add(1, Ordering::SeqCst);
        Ok(LaneThread { outlet: self.clone(), _charge: charge })
    }
}

/// A thread of a lane.
#[derive(Debug)]
pub(super) struct LaneThread {
    outlet: Arc<Outlet>,
    _charge: Charge,
}

impl Drop for LaneThread {
    fn drop(&mut self) {
        self.outlet.threads.fetch_sub(1, Ordering::SeqCst);
    }
}
