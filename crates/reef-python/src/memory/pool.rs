//! Memory of a network's requests: instances, and device memory for outputs.
//!
//! *In*: requests that begin. *Out*: a [`Lease`] for each. *Invariant*: an instance has one lease
//! at a time, and gets its next when its request has ended and nothing of Python refers to its
//! memory.

use crate::errors::raised;
use crate::memory::ports::PortSpec;
use parking_lot::Mutex;
use pyo3::prelude::*;
use reef::models::Model;
use reef_any::{End, Fault, Memory, MemoryLocation, Network, Side, Turn};
use std::sync::Arc;

/// Instances of one network.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) inputs: Vec<PortSpec>,
    pub(crate) outputs: Vec<PortSpec>,
    /// First byte, among the outputs, of each number that isn't 0 if a loop did not end, and the
    /// loop.
    pub(crate) checks: Vec<(usize, String)>,
    first: Arc<Network>,
    max_instances: usize,
    state: Mutex<State>,
}

struct State {
    made: usize,
    free: Vec<Arc<Network>>,
    /// Instances whose requests are on their way, and for which no object of Python waits.
    abandoned: Vec<Arc<Network>>,
    /// Memory for outputs, oldest first.
    outputs: Vec<Memory>,
}

impl Pool {
    pub(crate) fn new(name: String, first: Network, max_instances: usize) -> Self {
        let first = Arc::new(first);
        let free = vec![first.clone()];
        let state = State { made: 1, free, abandoned: Vec::new(), outputs: Vec::new() };
        let checks = first.outputs().checks();
        let checks = checks.map(|(offset, port)| (offset, port.name.clone())).collect();
        Self {
            name,
            inputs: PortSpec::of(first.inputs()),
            outputs: PortSpec::of(first.outputs()),
            checks,
            first,
            max_instances,
            state: Mutex::new(state),
        }
    }

    /// Location of the memory on the device.
    pub(crate) fn location(&self) -> MemoryLocation {
        self.first.location()
    }

    /// Loads the network at other sizes.
    pub(crate) fn resized(&self, model: &Model) -> reef_any::Result<Network> {
        self.first.resized(model)
    }

    /// Takes an instance that no request has.
    ///
    /// # Errors
    ///
    /// `BusyError` if there is none; the device's.
    pub(crate) fn take(self: &Arc<Self>, py: Python<'_>) -> PyResult<Lease> {
        let mut state = self.state.lock();
        state.check_abandoned();
        if let Some(network) = state.free.pop() {
            return Ok(Lease::new(self.clone(), network));
        }
        if state.made == self.max_instances {
            let text = format!(
                "{} requests of {} are on their way: wait for one, or load it with more instances",
                self.max_instances, self.name
            );
            return Err(raised(Fault::busy(text)));
        }
        state.made += 1;
        drop(state);
        match py.detach(|| self.first.instance()) {
            Ok(network) => Ok(Lease::new(self.clone(), Arc::new(network))),
            Err(fault) => {
                self.state.lock().made -= 1;
                Err(raised(fault))
            }
        }
    }

    /// Memory of the device for all outputs of a request. The oldest is used again first.
    fn outputs(self: &Arc<Self>) -> reef_any::Result<Arc<Outputs>> {
        let found = {
            let mut state = self.state.lock();
            (!state.outputs.is_empty()).then(|| state.outputs.remove(0))
        };
        let memory = match found {
            Some(memory) => memory,
            None => self.first.alloc(self.first.outputs().bytes())?,
        };
        Ok(Arc::new(Outputs { pool: self.clone(), memory }))
    }
}

impl State {
    fn check_abandoned(&mut self) {
        let before = self.abandoned.len();
        self.abandoned.retain(|network| !network.is_lost());
        self.made -= before - self.abandoned.len();
        let at_rest = self.abandoned.extract_if(.., |network| network.is_at_rest());
        self.free.extend(at_rest);
    }
}

/// Outputs of a request on the device, in memory of their own.
pub(crate) struct Outputs {
    pool: Arc<Pool>,
    pub(crate) memory: Memory,
}

impl Drop for Outputs {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        if state.outputs.len() < self.pool.max_instances {
            state.outputs.push(self.memory.clone());
        }
    }
}

/// Right to use an instance.
pub(crate) struct Lease {
    pub(crate) pool: Arc<Pool>,
    pub(crate) network: Arc<Network>,
}

impl Lease {
    fn new(pool: Arc<Pool>, network: Arc<Network>) -> Self {
        Self { pool, network }
    }

    /// Copies the outputs on the device to memory of their own.
    pub(crate) fn copy_outputs(&self) -> reef_any::Result<Arc<Outputs>> {
        let outputs = self.pool.outputs()?;
        Turn::wait(&self.network)?.copy_out(&outputs.memory)?;
        Ok(outputs)
    }

    pub(crate) fn memory(&self, end: End, side: Side) -> &Memory {
        self.network.memory(end, side)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        let list = if self.network.is_at_rest() { &mut state.free } else { &mut state.abandoned };
        list.push(self.network.clone());
    }
}
