//! One stream behind another, by an event.

use crate::driver::Driver;
use cudarc::driver::sys::{CUevent, CUstream};
use parking_lot::Mutex;
use reef_core::Result;
use std::ffi::c_uint;

/// `CU_EVENT_DISABLE_TIMING`
const WITHOUT_TIME: c_uint = 2;

/// Event by which one stream waits for another. One serves all: a stream waits for the record that
/// was the newest when the wait was put into it.
#[derive(Default)]
pub(crate) struct Order(Mutex<Option<CUevent>>);

impl Order {
    /// Lets what follows in `stream` wait for what is in `ahead` now. The context
    /// must be current.
    ///
    /// # Safety
    ///
    /// Both streams are open.
    pub(crate) unsafe fn put(
        &self,
        driver: &Driver,
        ahead: CUstream,
        stream: CUstream,
    ) -> Result<()> {
        let mut event = self.0.lock();
        let event = match *event {
            Some(made) => made,
            None => *event.insert(make(driver)?),
        };
        // SAFETY: the event is there until the device is closed; the streams are open.
        unsafe {
            driver.cuEventRecord(event, ahead)?;
            driver.cuStreamWaitEvent(stream, event, 0)
        }
    }

    /// Gives the event back. The context must be current.
    pub(crate) fn close(&self, driver: &Driver) {
        if let Some(event) = self.0.lock().take() {
            // SAFETY: made once; what waits for it keeps what it needs.
            let _ = unsafe { driver.cuEventDestroy_v2(event) };
        }
    }
}

fn make(driver: &Driver) -> Result<CUevent> {
    let mut event = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.cuEventCreate(&mut event, WITHOUT_TIME) }?;
    Ok(event)
}
