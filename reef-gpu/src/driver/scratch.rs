//! Device memory whose contents don't matter. It is not cleared, and kept for whatever asks next,
//! so that asking makes no call of the driver while there is some.

use crate::driver::context::Context;
use crate::hal::calls::Vendor;
use crate::hal::free_list::place;
use reef_core::Result;
use std::sync::Arc;

/// Some memory of the device.
#[derive(Debug)]
pub(crate) struct Scratch<V: Vendor> {
    address: u64,
    context: Arc<Context<V>>,
}

impl<V: Vendor> Scratch<V> {
    /// `bytes` bytes that hold anything.
    pub(crate) fn new(context: &Arc<Context<V>>, bytes: usize) -> Result<Self> {
        let kept = context.scratch.lock().take(bytes);
        let address = match kept {
            Some(address) => address,
            None => Self::alloc(context, bytes)?,
        };
        Ok(Self { address, context: context.clone() })
    }

    #[cold]
    fn alloc(context: &Context<V>, bytes: usize) -> Result<u64> {
        let address = context.call().alloc(place(bytes))?;
        context.scratch.lock().add(address, bytes);
        Ok(address)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl<V: Vendor> Drop for Scratch<V> {
    fn drop(&mut self) {
        if !self.context.is_lost() {
            self.context.scratch.lock().give_back(self.address);
        }
    }
}
