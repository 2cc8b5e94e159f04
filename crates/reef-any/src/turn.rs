//! Right to a network's memory.

use crate::fault::{Fault, Result};
use crate::memory::{End, Memory, MemoryLocation, Side};
use crate::network::{AnyNetwork, Network};
use crate::owner::Hold;
use crate::request::Request;
use std::time::Duration;

/// Right to a network's memory, from the inputs of a request to its outputs. Other threads wait for
/// its end.
#[derive(Debug)]
pub struct Turn<'a> {
    network: &'a Network,
    hold: Hold<'a>,
}

impl<'a> Turn<'a> {
    /// Takes the memory of `network`. Waits while another thread has it, for no longer than
    /// `limit`; `None`: it has it still.
    ///
    /// # Errors
    ///
    /// `Busy`: a request is on its way that no thread's turn includes; `Lost`: the device lost one,
    /// and may still write its outputs.
    pub fn take(network: &'a Network, limit: Option<Duration>) -> Option<Result<Self>> {
        Some(network.owner.take(limit)?.map(|hold| Self { network, hold }))
    }

    /// Takes the memory of `network`, as [`take`](Self::take) without a limit.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`take`](Self::take).
    pub fn wait(network: &'a Network) -> Result<Self> {
        let held = || Fault::busy("another thread has the network's memory");
        Self::take(network, None).ok_or_else(held).flatten()
    }

    /// The network whose memory it is.
    pub fn network(&self) -> &'a Network {
        self.network
    }

    /// Writes inputs of the next request from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `Busy`: the turn's request is on its way; `Invalid`: it does not fit.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<()> {
        self.hold.ended()?;
        self.network.inner.write(offset, data)
    }

    /// Reads outputs of the last request that finished, from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `Busy`: the turn's request is on its way; `Invalid`: there are fewer.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        self.hold.ended()?;
        self.network.inner.read(offset, data)
    }

    /// Starts a request by `submit`. It has the memory until it ends, also if the turn ends before.
    pub(crate) fn start(
        &mut self,
        submit: impl FnOnce(&dyn AnyNetwork) -> Result<Request>,
    ) -> Result<Request> {
        self.hold.ended()?;
        let request = submit(&*self.network.inner)?;
        self.hold.begin(request.clone());
        Ok(request)
    }

    /// Copies `bytes` bytes of another library's memory on the device into the inputs there, from
    /// byte `offset` on. Blocks until they are there; [`Network::has_arrived`] is true.
    ///
    /// # Safety
    ///
    /// `bytes` bytes from `address` on are memory of the device, and stay so during the call.
    ///
    /// # Errors
    ///
    /// `Busy`: the turn's request is on its way; `Invalid`: it does not fit; the errors of
    /// [`Network::stream`].
    pub unsafe fn copy_in(&mut self, offset: usize, address: u64, bytes: usize) -> Result<()> {
        self.hold.ended()?;
        let to = self.network.memory(End::Inputs, Side::Device);
        inside(to, offset, bytes)?;
        let to = to.address() + offset as u64;
        // SAFETY: `bytes` bytes from `address` on are memory of the device during the call:
        // `copy_in` demands it. `inside` has found the other range in the network's memory, which
        // this turn alone has.
        unsafe { self.network.inner.transfers()?.copy(to, address, bytes) }
    }

    /// Copies all outputs on the device, as [`Network::outputs`] lays them out, to memory of the
    /// same device. Blocks until they are there.
    ///
    /// # Errors
    ///
    /// `Busy`: the turn's request is on its way; `Invalid`: it is other memory, or smaller.
    pub fn copy_out(&self, to: &Memory) -> Result<()> {
        self.hold.ended()?;
        let from = self.network.memory(End::Outputs, Side::Device);
        let bytes = self.network.outputs().bytes();
        inside(to, 0, bytes)?;
        if to.location() != from.location() {
            return Err(Fault::invalid("the memory is not on the network's device"));
        }
        if to.location() == MemoryLocation::Host {
            let mut data = vec![0; bytes];
            return from.read(0, &mut data).and_then(|()| to.write(0, &data));
        }
        // SAFETY: both are memory of the device, and large enough.
        unsafe { self.network.inner.transfers()?.copy(to.address(), from.address(), bytes) }
    }
}

/// Refuses a range that is not inside of the memory.
fn inside(memory: &Memory, offset: usize, bytes: usize) -> Result<()> {
    if offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes()) {
        return Ok(());
    }
    let have = memory.bytes();
    Err(Fault::invalid(format!("{bytes} B from byte {offset} on must be inside of {have} B")))
}
