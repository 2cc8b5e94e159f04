//! A device is opened and closed.

use crate::context::{Context, Primary};
use crate::driver::{BACKEND, Driver};
use crate::facts::{self, find};
use crate::order::Order;
use crate::parts::{Parts, Split};
use parking_lot::Mutex;
use reef_core::Result;
use reef_gpu::{Facts, Options, StreamKind, Streams, Vendor};

// SAFETY: facts come from the driver, and streams, functions and graphs are its own, which keep
// these rules.
unsafe impl Vendor for Context {
    const NAME: &'static str = BACKEND;

    fn count() -> Result<usize> {
        facts::count(Driver::get()?)
    }

    fn open(ordinal: usize, options: &Options) -> Result<Self> {
        Self::open_with(Driver::get()?, ordinal, options)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl Context {
    pub(crate) fn open_with(
        driver: &'static Driver,
        ordinal: usize,
        options: &Options,
    ) -> Result<Self> {
        let primary = Primary::retain(driver, find(driver, ordinal)?)?;
        primary.bind()?;
        let (facts, own) = facts::read(driver, primary.device)?;
        let split =
            options.split.map(|units| Split::new(driver, primary.device, units)).transpose()?;
        let housekeeping = std::ptr::null_mut();
        let pinned = Mutex::default();
        let parts = Parts::default();
        let order = Order::default();
        let mut context =
            Self { driver, facts, own, split, parts, order, housekeeping, pinned, primary };
        context.housekeeping = context.open_stream(StreamKind::RealTime)?.0;
        context.keep_freed_memory()?;
        Ok(context)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_ok() && !self.housekeeping.is_null() {
            self.order.close(self.driver);
            self.release_pinned();
            // SAFETY: the stream is not in use any more.
            let _ = unsafe { self.driver.cuStreamDestroy_v2(self.housekeeping) };
        }
    }
}
