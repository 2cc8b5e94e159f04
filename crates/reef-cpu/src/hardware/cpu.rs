//! The handle of an open software device, which its queues and their work hold.
//!
//! It stands in a circle on purpose: the device runs launches, and a launch names the device's
//! types (`Cpu → Shared → Hardware → Launch<Cpu>`). Opening it would make four files generic for
//! nothing.

use super::units::Shared;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// An open software device. Its threads end with the last clone and the last queue.
///
/// ```
/// use reef_core::Device;
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=2")?; // options as text; `Cpu::open_with` takes them as values
/// assert_eq!(device.info().units, 2);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cpu(pub(crate) Arc<Open>);

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) shared: Arc<Shared>,
    pub(crate) units: Vec<JoinHandle<()>>,
    pub(crate) uuid: Option<[u8; 16]>,
    /// Best-effort blocks run next to real-time kernels.
    pub(crate) pads: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.close();
        for unit in self.units.drain(..) {
            if unit.thread().id() != thread::current().id() {
                let _ = unit.join(); // kernels' panics are caught, so there is nothing to learn
            }
        }
    }
}

impl Cpu {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }
}
