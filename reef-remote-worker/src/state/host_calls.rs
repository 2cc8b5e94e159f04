//! Host functions of the program: the stream waits until the client has run them.

use super::lock::lock;
use reef_remote_calls::HostCalled;
use reef_wire::little_endian::U64;
use reef_wire::{Endpoint, Hot, hot_bytes};
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// This end of the session, and calls of the client that have not returned.
#[derive(Debug, Default)]
pub(crate) struct HostCalls {
    endpoint: OnceLock<Arc<Endpoint>>,
    open: Mutex<(u64, HashSet<u64>)>,
    changed: Condvar,
}

/// Function in a stream.
struct HostCall {
    calls: Arc<HostCalls>,
    token: u64,
}

impl HostCalls {
    pub(crate) fn begin(&self, endpoint: Arc<Endpoint>) {
        let _ = self.endpoint.set(endpoint); // a session begins once
    }

    /// Returns this end of the session.
    ///
    /// # Panics
    ///
    /// Before the session has begun.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.endpoint.get().expect("messages come after the session's begin")
    }

    /// Returns the function and the argument that stand in a stream for the client's function. They
    /// live as long as this process: a graph may call them at any time.
    pub(crate) fn stand_in(self: &Arc<Self>, token: u64) -> [usize; 2] {
        let call = Box::leak(Box::new(HostCall { calls: self.clone(), token }));
        [run as extern "C" fn(&HostCall) as usize, std::ptr::from_ref(call) as usize]
    }

    /// Notes that a function has returned.
    pub(crate) fn returned(&self, call: u64) {
        lock(&self.open).1.remove(&call);
        self.changed.notify_all();
    }
}

/// Runs on a thread of the driver's, which the stream waits for.
extern "C" fn run(this: &HostCall) {
    let calls = &this.calls;
    let call = {
        let mut open = lock(&calls.open);
        open.0 += 1;
        let call = open.0;
        open.1.insert(call);
        call
    };
    let body = HostCalled { token: U64::new(this.token), call: U64::new(call) };
    if calls.endpoint().post(HostCalled::OP, 0, &[hot_bytes(&body)]).is_err() {
        return; // the session is over
    }
    let mut open = lock(&calls.open);
    while open.1.contains(&call) {
        open = calls.changed.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
}
