//! Memory of the device, and of the host pinned for it.

use crate::context::Context;
use crate::driver::BACKEND;
use reef_core::{Error, Result};
use std::sync::Arc;

/// Zeroed memory, freed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Buffer(Arc<Allocation>);

#[derive(Debug)]
struct Allocation {
    /// As kernels see it.
    device: u64,
    /// As the host sees it, if it is the host's.
    host: Option<*mut u8>,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: access goes through the driver, or through raw pointers whose users answer for races.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        match self.host {
            Some(host) => self.context.free_host(host),
            None => self.context.free(self.device),
        }
    }
}

impl Buffer {
    pub(crate) fn device(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let device = context.alloc(bytes.max(1))?;
        Ok(Self(Arc::new(Allocation { device, host: None, bytes, context: context.clone() })))
    }

    pub(crate) fn host(context: &Arc<Context>, bytes: usize) -> Result<Self> {
        let (host, device) = context.alloc_host(bytes.max(1))?;
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
                "{BACKEND}: {bytes} bytes from {offset} on are not inside a buffer of {}",
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
            None => self.0.context.write(to, data)?,
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
            None => self.0.context.read(from, data)?,
        }
        Ok(())
    }
}
