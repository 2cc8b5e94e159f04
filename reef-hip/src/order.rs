//! One stream behind another, by an event.

use crate::driver::{Driver, Handle};
use parking_lot::Mutex;
use reef_core::Result;
use std::ffi::c_uint;

/// `hipEventDisableTiming`
pub(crate) const WITHOUT_TIME: c_uint = 2;

/// Event by which one stream waits for another. One serves all: a stream waits for the record that
/// was the newest when the wait was put into it.
#[derive(Default)]
pub(crate) struct Order(Mutex<Option<Event>>);

struct Event(Handle);

// SAFETY: a handle that the runtime lets any thread use.
unsafe impl Send for Event {}

impl Order {
    /// Lets what follows in `stream` wait for what is in `ahead` now. The device
    /// must be current.
    ///
    /// # Safety
    ///
    /// Both streams are open.
    pub(crate) unsafe fn put(&self, driver: &Driver, ahead: Handle, stream: Handle) -> Result<()> {
        let mut event = self.0.lock();
        let event = match &*event {
            Some(made) => made.0,
            None => event.insert(Event(make(driver)?)).0,
        };
        // SAFETY: the event is there until the device is closed; the streams are open.
        unsafe {
            driver.hipEventRecord(event, ahead)?;
            driver.hipStreamWaitEvent(stream, event, 0)
        }
    }

    /// Gives the event back. The device must be current.
    pub(crate) fn close(&self, driver: &Driver) {
        if let Some(Event(event)) = self.0.lock().take() {
            // SAFETY: made once, and nothing waits for it any more.
            let _ = unsafe { driver.hipEventDestroy(event) };
        }
    }
}

fn make(driver: &Driver) -> Result<Handle> {
    let mut event = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    unsafe { driver.hipEventCreateWithFlags(&mut event, WITHOUT_TIME) }?;
    Ok(event)
}
