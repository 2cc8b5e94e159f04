//! Memory of the device, and of the host pinned for it.

use crate::context::Context;
use crate::handles::cloned;
use crate::vendor::Vendor;
use reef_core::{Error, Result};
use std::sync::Arc;

/// Zeroed memory, freed when the last clone is dropped.
#[derive(Debug)]
pub struct Buffer<V: Vendor>(Arc<Allocation<V>>);

cloned!(Buffer);

#[derive(Debug)]
struct Allocation<V: Vendor> {
    /// As kernels see it.
    device: u64,
    /// As the host sees it, if it is the host's.
    host: Option<*mut u8>,
    bytes: usize,
    context: Arc<Context<V>>,
}

// SAFETY: access goes through the driver, or through raw pointers whose users answer for races.
unsafe impl<V: Vendor> Send for Allocation<V> {}
// SAFETY: as above.
unsafe impl<V: Vendor> Sync for Allocation<V> {}

impl<V: Vendor> Drop for Allocation<V> {
    fn drop(&mut self) {
        let Some(call) = self.context.call_to_free() else { return };
        match self.host {
            Some(host) => call.free_host(host),
            None => call.free(self.device),
        }
    }
}

impl<V: Vendor> Buffer<V> {
    pub(crate) fn device(context: &Arc<Context<V>>, bytes: usize) -> Result<Self> {
        let device = context.call().alloc(bytes.max(1))?;
        Ok(Self(Arc::new(Allocation { device, host: None, bytes, context: context.clone() })))
    }

    pub(crate) fn host(context: &Arc<Context<V>>, bytes: usize) -> Result<Self> {
        let (host, device) = context.call().alloc_host(bytes.max(1))?;
        let host = Some(host);
        Ok(Self(Arc::new(Allocation { device, host, bytes, context: context.clone() })))
    }

    /// Its first byte, as kernels see it.
    pub fn address(&self) -> u64 {
        self.0.device
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The address of `bytes` bytes from `offset` on, which must be inside.
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Result<u64> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.0.bytes) {
            return Err(Error::Invalid(format!(
                "{}: {bytes} bytes from {offset} on are not inside a buffer of {}",
                V::NAME,
                self.0.bytes
            )));
        }
        Ok(self.0.device + offset as u64)
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let to = self.range(offset, data.len())?;
        match self.0.host {
            // SAFETY: the range is inside, and `data` is not part of it.
            Some(host) => unsafe {
                std::ptr::copy_nonoverlapping(data.as_ptr(), host.add(offset), data.len());
            },
            None if data.is_empty() => {}
            None => self.0.context.call().write(to, data)?,
        }
        Ok(())
    }

    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        let from = self.range(offset, data.len())?;
        match self.0.host {
            // SAFETY: the range is inside, and `data` is not part of it.
            Some(host) => unsafe {
                std::ptr::copy_nonoverlapping(host.add(offset), data.as_mut_ptr(), data.len());
            },
            None if data.is_empty() => {}
            None => self.0.context.call().read(from, data)?,
        }
        Ok(())
    }
}
