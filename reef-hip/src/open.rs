//! A device is opened and closed.

use crate::context::Context;
use crate::driver::{BACKEND, Driver};
use crate::facts::{self, Device};
use crate::handles::Stream;
use crate::masks::Masks;
use crate::order::Order;
use crate::pools::MemoryPools;
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_gpu::{Facts, Options, Precision, Streams, Vendor};

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
        if options.precision == Some(Precision::Tf32) {
            let what = "precision=tf32, which needs tensor cores".into();
            return Err(Error::Unsupported { backend: BACKEND, what });
        }
        let device = Device::find(driver, ordinal)?;
        let facts = facts::read(driver, &device, false)?;
        let mut context = Self {
            masks: masks(driver, facts.units, options)?,
            driver,
            device,
            facts,
            housekeeping: Stream(std::ptr::null_mut()),
            streams: Mutex::default(),
            retired: Mutex::default(),
            memory: MemoryPools::default(),
            order: Order::default(),
            loaded: Mutex::default(),
        };
        let (lowest, highest) = context.device.priorities;
        context.housekeeping = context.create_stream((lowest + highest) / 2)?;
        let graphs = context.graphs_work()?;
        context.facts = facts::read(driver, &context.device, graphs)?;
        if let Some(masks) = &context.masks {
            context.facts.be_units = masks.be_units();
        }
        Ok(context)
    }
}

/// The device in two parts if that was asked for; else all of it, with a unit that best-effort work
/// leaves alone where the runtime can do that.
fn masks(driver: &Driver, units: u32, options: &Options) -> Result<Option<Masks>> {
    if let Some(part) = options.split {
        return Masks::split(units, part).map(Some);
    }
    let can = driver.hipExtStreamCreateWithCUMask.is_some();
    Ok(Masks::leave_one(units).filter(|_| can))
}

impl Drop for Context {
    /// Destroys streams and frees memory. If a kernel never ends, all is left to the end of the
    /// process: each of these calls would wait.
    fn drop(&mut self) {
        let streams = std::mem::take(&mut *self.streams.lock());
        let all = || streams.all().chain([self.housekeeping]).filter(|stream| !stream.0.is_null());
        // SAFETY: they are open until the end of this function.
        let is_idle = |stream| unsafe { self.is_idle(stream) }.is_ok_and(|idle| idle);
        if !all().all(is_idle) {
            return;
        }
        self.destroy_retired();
        self.order.close(self.driver);
        for stream in all() {
            // SAFETY: it is not in use any more.
            let _ = unsafe { self.driver.hipStreamDestroy(stream.0) };
        }
        self.memory.release(self.driver);
    }
}
