//! Observation of requests.

use crate::engine::api::{Instance, Run, RunTiming};
use crate::engine::call::{Call, CallOutput};
use crate::engine::node::Node;
use crate::error::Result;
use crate::observe::latency::Latencies;
use crate::observe::metrics::Metrics;
use crate::observe::tracer::Tracer;
use crate::residency::networks::Networks;
use crate::residency::residents::Residents;
use crate::suspend::memory_policy::MemoryPolicy;
use crate::suspend::suspensions::Suspensions;
use parking_lot::{Mutex, RwLock};
use reef::HostMemory;
use reef_guest::limit::Audit;
use reef_guest::registry::Registry;
use reef_suspend::store::Store;
use std::sync::{Arc, OnceLock, Weak};

/// Metrics and traces.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) metrics: Metrics,
    pub(crate) tracer: Tracer,
    /// Of answered requests, for the page.
    pub(crate) latencies: Latencies,
    /// Unmodified programs, for traces, and the daemon's own numbers among them.
    pub(crate) guests: Mutex<(Weak<Registry>, Vec<u32>)>,
    /// Limits of unmodified programs. Set once the registry of guests is open.
    pub(crate) limits: OnceLock<Arc<RwLock<Audit>>>,
    /// Set if guests may register.
    pub(crate) suspensions: OnceLock<Arc<Suspensions>>,
    /// Models that are on their device on demand. Set before the first one is loaded.
    pub(crate) residents: OnceLock<Arc<Residents>>,
    /// Folders from which processes of such models start. Set if there are any, before the first
    /// one is loaded.
    pub(crate) checkpoints: OnceLock<Arc<Store>>,
    /// The daemon's own networks among them.
    pub(crate) networks: Arc<Networks>,
    /// Memory for real-time work, once guests may register.
    pub(crate) memory_policy: OnceLock<MemoryPolicy>,
}

/// An instance whose busy time is counted.
#[derive(Debug)]
pub(crate) struct ObservedInstance {
    pub(crate) instance: Box<dyn Instance>,
    pub(crate) node: Arc<Node>,
}

impl Instance for ObservedInstance {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.instance.write(offset, bytes)
    }

    fn share(&mut self, memory: HostMemory, slots: &[(usize, usize)]) -> Result<bool> {
        self.instance.share(memory, slots)
    }

    fn run(&mut self, run: Run<'_>) -> Result<RunTiming> {
        let _working = self.node.busy.begin();
        self.instance.run(run)
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.instance.read(offset, bytes)
    }

    /// Not on the device, as far as the daemon knows: not counted.
    fn call(&mut self, call: Call<'_>) -> Result<Vec<CallOutput>> {
        self.instance.call(call)
    }

    fn call_all(&mut self, calls: &[Call<'_>]) -> Vec<Result<Vec<CallOutput>>> {
        self.instance.call_all(calls)
    }

    fn reads_files(&self) -> bool {
        self.instance.reads_files()
    }

    fn recovers(&self) -> bool {
        self.instance.recovers()
    }
}
