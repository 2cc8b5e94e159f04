//! Real-time clients and their requests.

use crate::client::{AnyClient, gone};
use crate::fault::{Fault, Result};
use crate::memory::Side;
use crate::network::{AnyNetwork, of};
use crate::request::{AnyRequest, Request, Times};
use parking_lot::Mutex;
use reef::op::Operators;
use reef::{RtClient, Ticket, Timing};
use std::sync::Arc;
use std::time::Duration;

/// A real-time client; `None` once it was freed.
pub(crate) struct RealTime<D: Operators>(Mutex<Option<RtClient<D>>>);

impl<D: Operators> RealTime<D> {
    pub(crate) fn new(client: RtClient<D>) -> Self {
        Self(Mutex::new(Some(client)))
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
        let mut client = self.0.lock();
        let client = client.as_mut().ok_or_else(gone)?;
        let ticket = client.submit_before(&work.task, deadline)?;
        Ok(Arc::new(RealTimeRequest { ticket, waiting: Mutex::new(()) }))
    }

    fn close(&self) {
        drop(self.0.lock().take());
    }
}

struct RealTimeRequest<D: Operators> {
    ticket: Ticket<D>,
    /// Held by the one thread that waits: the dispatcher wakes no more than one.
    waiting: Mutex<()>,
}

impl<D: Operators> AnyRequest for RealTimeRequest<D> {
    fn look(&self) -> Option<Result<Times>> {
        self.ticket.try_wait().map(|how| Ok(times(how?)))
    }

    fn wait(&self, limit: Option<Duration>) -> Option<Result<Times>> {
        if let Some(how) = self.look() {
            return Some(how);
        }
        let Some(_waiting) = self.waiting.try_lock() else {
            return Some(Err(Fault::busy("another thread waits for the request")));
        };
        let how = self.ticket.wait_timeout(limit.unwrap_or(Duration::MAX));
        how.map(|how| Ok(times(how?)))
    }

    fn cancel(&self) -> Result<bool> {
        Ok(self.ticket.cancel())
    }
}

fn times(timing: Timing) -> Times {
    Times { delay: Some(timing.delay), device: Some(timing.device), total: timing.total }
}
