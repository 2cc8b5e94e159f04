//! Real-time clients and their requests.

use crate::client::{AnyClient, Usage, gone};
use crate::fault::{Fault, Result};
use crate::memory::Side;
use crate::network::{AnyNetwork, of};
use crate::request::{AnyRequest, Request, Times};
use crate::trace::{EndedRequest, Requests};
use parking_lot::Mutex;
use reef::op::Operators;
use reef::{Class, RtClient, Ticket, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A real-time client; `None` once it was freed.
pub(crate) struct RealTime<D: Operators> {
    client: Mutex<Option<RtClient<D>>>,
    requests: Arc<Requests>,
}

impl<D: Operators> RealTime<D> {
    pub(crate) fn new(client: RtClient<D>, requests: Arc<Requests>) -> Self {
        Self { client: Mutex::new(Some(client)), requests }
    }
}

impl<D: Operators> AnyClient for RealTime<D> {
    fn submit(
        &self,
        network: &dyn AnyNetwork,
        side: Side,
        deadline: Option<Duration>,
    ) -> Result<Request> {
        let work = of::<D>(network)?.work(side)?;
        let mut client = self.client.lock();
        let client = client.as_mut().ok_or_else(gone)?;
        let ticket = client.submit_before(&work.task, deadline)?;
        let requests = self.requests.clone();
        let (waiting, is_noted) = Default::default();
        Ok(Arc::new(RealTimeRequest { ticket, waiting, requests, is_noted }))
    }

    fn usage(&self) -> Option<Usage> {
        let usage = self.client.lock().as_ref()?.account().usage();
        let (requests, late) = (Some(usage.tasks), Some(usage.late));
        Some(Usage { served: usage.served, requests, late })
    }

    fn close(&self) {
        drop(self.client.lock().take());
    }
}

struct RealTimeRequest<D: Operators> {
    ticket: Ticket<D>,
    /// Held by the one thread that waits: the dispatcher wakes no more than one.
    waiting: Mutex<()>,
    requests: Arc<Requests>,
    /// True once a trace has it, or there was none at its end.
    is_noted: AtomicBool,
}

impl<D: Operators> RealTimeRequest<D> {
    fn times(&self, timing: Timing) -> Times {
        if !self.is_noted.swap(true, Ordering::Relaxed) {
            self.requests.note(|| {
                let Timing { submitted, delay, device, .. } = timing;
                let began = submitted + delay;
                EndedRequest { class: Class::RealTime, submitted, began, ended: began + device }
            });
        }
        Times { delay: Some(timing.delay), device: Some(timing.device), total: timing.total }
    }
}

impl<D: Operators> AnyRequest for RealTimeRequest<D> {
    fn poll(&self) -> Option<Result<Times>> {
        self.ticket.try_wait().map(|how| Ok(self.times(how?)))
    }

    fn wait(&self, limit: Option<Duration>) -> Option<Result<Times>> {
        if let Some(how) = self.poll() {
            return Some(how);
        }
        let Some(_waiting) = self.waiting.try_lock() else {
            return Some(Err(Fault::busy("another thread waits for the request")));
        };
        let how = self.ticket.wait_timeout(limit.unwrap_or(Duration::MAX));
        how.map(|how| Ok(self.times(how?)))
    }

    fn cancel(&self) -> Result<bool> {
        Ok(self.ticket.cancel())
    }
}
