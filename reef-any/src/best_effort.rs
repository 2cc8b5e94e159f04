//! Best-effort clients and their requests.
//!
//! Waiting shares the client with other waiters, and lets other threads submit in between.

use crate::client::{AnyClient, gone};
use crate::fault::{Fault, Reason, Result};
use crate::memory::Side;
use crate::network::{AnyNetwork, of};
use crate::request::{AnyRequest, Request, Times};
use parking_lot::RwLock;
use reef::op::Operators;
use reef::{BeClient, Seq};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time that a waiter keeps others from submitting.
const TURN: Duration = Duration::from_millis(1);

/// A best-effort client.
pub(crate) struct BestEffort<D: Operators>(Arc<Shared<D>>);

struct Shared<D: Operators> {
    /// `None` once it was freed.
    client: RwLock<Option<BeClient<D>>>,
    /// Commands that can wait.
    capacity: u64,
    /// Position that had completed when it was freed.
    completed: AtomicU64,
}

impl<D: Operators> BestEffort<D> {
    pub(crate) fn new(client: BeClient<D>, capacity: usize) -> Self {
        let client = RwLock::new(Some(client));
        Self(Arc::new(Shared { client, capacity: capacity as u64, completed: AtomicU64::new(0) }))
    }
}

impl<D: Operators> AnyClient for BestEffort<D> {
    fn submit(
        &self,
        network: &dyn AnyNetwork,
        side: Side,
        deadline: Option<Duration>,
    ) -> Result<Request> {
        let commands = &of::<D>(network)?.work(side)?.best_effort;
        let mut client = self.0.client.write();
        let client = client.as_mut().ok_or_else(gone)?;
        has_room(client, commands.len() as u64, self.0.capacity)?;
        let since = Instant::now();
        let last = client.submit_before(commands, deadline)?;
        Ok(Arc::new(BestEffortRequest { client: self.0.clone(), last, since }))
    }

    fn close(&self) {
        let mut place = self.0.client.write();
        let Some(mut client) = place.take() else { return };
        self.0.completed.store(client.submitter().completed().0, Ordering::Relaxed);
        drop(place); // waiters needn't wait for what runs
        drop(client);
    }
}

/// Refuses what the queue has no room for: submitting never blocks.
fn has_room<D: Operators>(client: &mut BeClient<D>, commands: u64, capacity: u64) -> Result<()> {
    if commands > capacity {
        let text =
            format!("the network has {commands} commands, the client's capacity is {capacity}");
        return Err(Fault::invalid(text));
    }
    let queue = client.submitter();
    let waiting = queue.submitted().0 - queue.completed().0;
    if waiting + commands > capacity {
        let text = format!(
            "the queue is full: {waiting} of {capacity} commands wait, {commands} more do not fit"
        );
        return Err(Fault::busy(text));
    }
    Ok(())
}

struct BestEffortRequest<D: Operators> {
    client: Arc<Shared<D>>,
    last: Seq,
    since: Instant,
}

impl<D: Operators> BestEffortRequest<D> {
    /// Waits for `time` at most, as long as no thread may submit.
    fn turn(&self, time: Duration) -> Option<Result<Times>> {
        let client = self.client.client.read();
        let over = match client.as_ref() {
            Some(client) => client.wait_for(self.last, time).map_err(Fault::from),
            None if self.last.0 < self.client.completed.load(Ordering::Relaxed) => Ok(true),
            None => Err(gone()),
        };
        match over {
            Ok(false) => None,
            Ok(true) => Some(Ok(Times { delay: None, device: None, total: self.since.elapsed() })),
            Err(fault) => Some(Err(fault)),
        }
    }
}

impl<D: Operators> AnyRequest for BestEffortRequest<D> {
    fn look(&self) -> Option<Result<Times>> {
        self.turn(Duration::ZERO)
    }

    fn wait(&self, limit: Option<Duration>) -> Option<Result<Times>> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = end.map_or(TURN, |end| end.saturating_duration_since(Instant::now()));
            let how = self.turn(left.min(TURN));
            if how.is_some() || left.is_zero() {
                return how;
            }
        }
    }

    fn cancel(&self) -> Result<bool> {
        let text = "a best-effort request is cancelled with its client: free that";
        Err(Fault::new(Reason::Unsupported, text))
    }
}
