//! Memory of the device that another process has allocated and shares by a handle.
//!
//! The driver counts how often a process has opened a handle, so each opening is closed once. The
//! memory is there until every process that opened it has closed it, also if the process that
//! allocated it is killed.

use crate::context::Context;
use crate::driver::BACKEND;
use cudarc::driver::sys::*;
use reef_core::{Error, Result};
use std::ffi::{c_int, c_uint};

impl Context {
    /// Maps all of the allocation: its first byte, and its size in bytes.
    pub(crate) fn open_ipc(&self, handle: &[u8; 64]) -> Result<(u64, usize)> {
        /// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag that there is; it has to be given.
        const LAZY_PEER_ACCESS: c_uint = 1;
        self.bind()?;
        let handle = CUipcMemHandle { reserved: handle.map(|byte| byte as _) };
        let mut memory = 0;
        // SAFETY: the pointer is valid for the call; the driver checks the handle.
        let done =
            unsafe { self.driver.cuIpcOpenMemHandle_v2(&mut memory, handle, LAZY_PEER_ACCESS) };
        done.map_err(refused)?;
        let checked = self.check_ipc(memory);
        // SAFETY: opened above, and used by nothing.
        checked.inspect_err(|_| unsafe { self.close_ipc(memory) })
    }

    /// # Safety
    ///
    /// As [`reef_gpu::Memory::close_shared`].
    pub(crate) unsafe fn close_ipc(&self, memory: u64) {
        if self.bind().is_ok() {
            // SAFETY: `memory` came from `open_ipc`, is closed once, and no work uses it:
            // `Memory::close_shared` demands it. Of a lost device there is nothing to close.
            let _ = unsafe { self.driver.cuIpcCloseMemHandle(memory) };
        }
    }

    /// Checks that it is memory of this device, and returns its first byte and its size.
    fn check_ipc(&self, memory: u64) -> Result<(u64, usize)> {
        /// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
        const DEVICE_ORDINAL: c_uint = 9;
        let (mut ordinal, mut begin, mut bytes): (c_int, _, _) = (0, 0, 0);
        // SAFETY: the pointers are valid for the calls, and this attribute is an `int`.
        unsafe {
            let ordinal = (&raw mut ordinal).cast();
            self.driver.cuPointerGetAttribute(ordinal, DEVICE_ORDINAL, memory)?;
            self.driver.cuMemGetAddressRange_v2(&mut begin, &mut bytes, memory)?;
        }
        let own = self.primary.device;
        if ordinal == own {
            Ok((memory, bytes.saturating_sub((memory - begin) as usize)))
        } else {
            Err(Error::invalid(
                "handle",
                format!("must be of memory on {BACKEND}:{own}, got {BACKEND}:{ordinal}"),
            ))
        }
    }
}

/// The driver has one answer for a handle that is none, one of this process, and one whose memory
/// is gone.
fn refused(error: Error) -> Error {
    match error {
        Error::Driver { .. } => {
            Error::invalid("handle", format!("no memory of another process: {error}"))
        }
        other => other,
    }
}
