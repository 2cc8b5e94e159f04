//! Host functions of the program: the stream waits until the client has run them.

use super::lock::lock;
use super::quota::Quota;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_remote::server::Resource;
use reef_remote_calls::HostCalled;
use reef_wire::little_endian::{U32, U64};
use reef_wire::{Endpoint, Hot, hot_bytes};
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// This end of the session, and calls of the client that have not returned.
#[derive(Debug, Default)]
pub(crate) struct HostCalls {
    endpoint: OnceLock<Arc<Endpoint>>,
    open: Mutex<(u64, HashSet<u64>)>,
    changed: Condvar,
    standing: Mutex<Standing>,
    quota: Option<Arc<Quota>>,
}

/// Functions in streams and graphs.
#[derive(Debug, Default)]
struct Standing {
    count: usize,
    /// Functions that there may be without asking the server: the most that there were, rounded up.
    granted: usize,
}

/// Functions that a session may have in streams and graphs.
const MAX_STANDING: usize = 1 << 16;
/// Functions for which the server is asked at once.
const GRANT: usize = 1 << 10;

/// Function in a stream.
struct HostCall {
    calls: Arc<HostCalls>,
    token: u64,
    /// No graph calls it again.
    is_once: bool,
}

impl HostCalls {
    /// No calls; this asks the server for room.
    pub(crate) fn new(quota: Option<Arc<Quota>>) -> Self {
        Self { quota, ..Self::default() }
    }

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

    /// Puts what stands for the client's function somewhere: `put` gets a function and its
    /// argument, which live until it has run, or as long as this process if a graph may call it.
    ///
    /// # Errors
    ///
    /// That of `put`; `OUT_OF_MEMORY`: there are too many.
    pub(crate) fn stand_in(
        self: &Arc<Self>,
        token: u64,
        is_once: bool,
        put: impl FnOnce([usize; 2]) -> u32,
    ) -> u32 {
        if !self.admit() {
            return OUT_OF_MEMORY;
        }
        let call = Box::into_raw(Box::new(HostCall { calls: self.clone(), token, is_once }));
        let code = put([run as extern "C" fn(*mut HostCall) as usize, call as usize]);
        if code != 0 {
            // SAFETY: the box of above, which the driver has not taken.
            drop(unsafe { Box::from_raw(call) });
        }
        code
    }

    /// Counts one more function, if there is room for it.
    fn admit(&self) -> bool {
        let mut standing = lock(&self.standing);
        if standing.count == standing.granted {
            let ask = |quota: &Arc<Quota>| quota.take_of(Resource::Functions, GRANT as u64).is_ok();
            if standing.granted >= MAX_STANDING || !self.quota.as_ref().is_none_or(ask) {
                return false;
            }
            standing.granted += GRANT;
        }
        standing.count += 1;
        true
    }

    /// Notes that a function has returned.
    pub(crate) fn returned(&self, call: u64) {
        lock(&self.open).1.remove(&call);
        self.changed.notify_all();
    }
}

/// Runs on a thread of the driver's, which the stream waits for.
extern "C" fn run(this: *mut HostCall) {
    // SAFETY: a box of `stand_in`, which the driver gives back by its one call, or keeps.
    let HostCall { calls, token, is_once } = unsafe { &*this };
    calls.call(*token, *is_once);
    if *is_once {
        // SAFETY: the box of `stand_in`. The driver runs a function that no graph repeats once, and
        // this was the call.
        drop(unsafe { Box::from_raw(this) });
    }
}

impl Drop for HostCall {
    fn drop(&mut self) {
        lock(&self.calls.standing).count -= 1;
    }
}

impl HostCalls {
    /// Has the client call its function, and waits until it has returned.
    fn call(&self, token: u64, is_once: bool) {
        let calls = self;
        let call = {
            let mut open = lock(&calls.open);
            open.0 += 1;
            let call = open.0;
            open.1.insert(call);
            call
        };
        let body = HostCalled {
            token: U64::new(token),
            call: U64::new(call),
            is_once: U32::new(is_once.into()),
            reserved: U32::new(0),
        };
        let Some(endpoint) = calls.endpoint.get() else { return }; // no client is there
        if endpoint.post(HostCalled::OP, 0, &[hot_bytes(&body)]).is_err() {
            return; // the session is over
        }
        let mut open = lock(&calls.open);
        while open.1.contains(&call) {
            open = calls.changed.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_stand_in_streams_are_bounded() {
        let calls = Arc::new(HostCalls::default());
        for _ in 0..2 * MAX_STANDING {
            assert_eq!(calls.stand_in(7, true, |_| 400), 400, "the driver has not taken it");
        }
        let mut boxes = Vec::new();
        let mut put = || {
            calls.stand_in(7, true, |[_, data]| {
                boxes.push(data);
                0
            })
        };
        let codes: Vec<u32> = (0..=MAX_STANDING).map(|_| put()).collect();
        assert_eq!(codes.iter().position(|code| *code != 0), Some(MAX_STANDING));
        assert_eq!(codes[MAX_STANDING], OUT_OF_MEMORY);
        // SAFETY: the box of `stand_in`, as the call of a driver would give it back. No driver runs
        // it here.
        drop(unsafe { Box::from_raw(boxes[0] as *mut HostCall) });
        assert_eq!(calls.stand_in(7, true, |_| 0), 0, "there is room for one");
        for data in &boxes[1..] {
            // SAFETY: the box of `stand_in`, which took it for this call alone. No driver runs it
            // here.
            drop(unsafe { Box::from_raw(*data as *mut HostCall) });
        }
    }
}
