//! State of a session.

use super::handles::Handles;
use super::host_calls::HostCalls;
use super::lock::lock;
use super::printed::Printed;
use super::quota::Quota;
use super::staging::Staging;
use super::waiters::Waiters;
use super::window::Window;
use crate::driver::Driver;
use reef_remote_calls::{CALLS, Failed, KernelPrinted, ToDevice, ToHost, Way};
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Hot, hot_bytes};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// State that the reader, the executor and the waiters share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Driver,
    pub(crate) handles: Mutex<Handles>,
    pub(crate) staging: Staging,
    pub(crate) host_calls: Arc<HostCalls>,
    /// Streams that stand for the own default streams of the client's threads, in each context.
    pub(crate) own_streams: Mutex<HashMap<(u32, u64), usize>>,
    /// Numbers of the devices' primary contexts.
    pub(crate) primaries: Mutex<HashMap<usize, u64>>,
    /// Addresses that the client has reserved as well.
    pub(crate) window: Mutex<Option<Window>>,
    /// Bound of the program's memory, if it has one.
    pub(crate) quota: Option<Arc<Quota>>,
    waiters: Waiters,
}

/// Message that is to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) lane: u32,
    pub(crate) number: u64,
    pub(crate) wants_reply: bool,
    /// Call of the table that the message is, or a number of its operation.
    pub(crate) call: u32,
}

impl Shared {
    pub(crate) fn new(driver: Driver, window: Option<Window>, quota: Option<Arc<Quota>>) -> Self {
        Self {
            driver,
            handles: Mutex::default(),
            staging: Staging::default(),
            host_calls: Arc::default(),
            own_streams: Mutex::default(),
            primaries: Mutex::default(),
            window: Mutex::new(window),
            quota,
            waiters: Waiters::default(),
        }
    }

    /// Forgets what has ended with a context.
    pub(crate) fn end_context(&self, context: u64) {
        lock(&self.handles).remove_children(context);
        lock(&self.own_streams).retain(|(_, of), _| *of != context);
        self.staging.forget(context);
        if let Some(window) = &mut *lock(&self.window) {
            window.end_context(&self.driver, context);
        }
        if let Some(quota) = &self.quota {
            quota.end_context(context);
        }
    }

    /// Answers a message, or reports its failure if it has no reply.
    pub(crate) fn answer(&self, request: Request, code: u32, bytes: &[u8]) {
        let endpoint = self.host_calls.endpoint();
        let sent = if request.wants_reply {
            let head = [code.to_le_bytes(), [0; 4]].concat();
            if Self::has_waited(request.call) {
                // Before the reply, as a driver of this machine writes it before it returns.
                Printed::take(|bytes| {
                    let body = KernelPrinted { reserved: U64::new(0) };
                    let parts = [hot_bytes(&body), bytes];
                    let _ = endpoint.push(KernelPrinted::OP, 0, &parts); // as below
                });
            }
            let sent = endpoint.reply(request.number, Ok(&[&head, bytes]));
            endpoint.flush();
            sent
        } else if code != 0 {
            let body = Failed { code: U32::new(code), call: U32::new(request.call) };
            endpoint.post(Failed::OP, request.lane, &[hot_bytes(&body)]).map(|_| ())
        } else {
            Ok(())
        };
        let _ = sent; // the session is over, and this process with it
    }

    /// Returns whether a call may have waited for kernels, which have printed then.
    fn has_waited(call: u32) -> bool {
        match CALLS.get(call as usize) {
            Some(spec) => spec.way == Way::Blocking,
            None => [ToDevice::OP, ToHost::OP].iter().any(|op| call == u32::MAX - u32::from(*op)),
        }
    }

    /// Has another thread do this, in a context.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        context: usize,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let (this, relaxed) = (self.clone(), self.clone());
        let job = Box::new(move || {
            this.driver.set_context(context);
            job(&this);
        });
        self.waiters.run(job, move || relaxed.driver.relax_captures());
    }
}
