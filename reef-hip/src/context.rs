//! What everything of one open device shares: facts, a stream for housekeeping, and what is kept to be used
//! again.

use crate::driver::{BACKEND, Driver};
use crate::elf::Kernels;
use crate::facts::{self, Device};
use crate::graph::Retired;
use crate::memory::Places;
use crate::module::Code;
use crate::split::Split;
use crate::stream::{Stream, StreamPool};
use parking_lot::Mutex;
use reef_core::{Error, Result};
use reef_gpu::{Facts, Options, Precision, Streams, Vendor};
use std::collections::HashMap;
use std::fmt;

/// An open device.
///
/// Nothing here waits while work is pending, except for what it is asked to wait for: memory and streams
/// that are given back are kept for the next who asks, and go back to the runtime when this is dropped.
pub struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) device: Device,
    facts: Facts,
    /// Where streams are opened, if the device is in two parts.
    pub(crate) split: Option<Split>,
    /// For zeroing, and for reads and writes that block: of a priority that nobody else has.
    pub(crate) housekeeping: Stream,
    pub(crate) streams: Mutex<StreamPool>,
    /// Locked after `streams`, if both are.
    pub(crate) retired: Mutex<Retired>,
    pub(crate) memory: Places,
    /// What is loaded, and what it says of itself.
    pub(crate) loaded: Mutex<HashMap<Code, Kernels>>,
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
            split: options.split.map(|part| Split::new(facts.units, part)).transpose()?,
            driver,
            device,
            facts,
            housekeeping: Stream(std::ptr::null_mut()),
            streams: Mutex::default(),
            retired: Mutex::default(),
            memory: Places::default(),
            loaded: Mutex::default(),
        };
        let (lowest, highest) = context.device.priorities;
        context.housekeeping = context.create_stream((lowest + highest) / 2)?;
        let graphs = context.graphs_work()?;
        context.facts = facts::read(driver, &context.device, graphs)?;
        Ok(context)
    }

    /// Makes the device this thread's current one, as every call of the runtime wants.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the device is there.
        unsafe { self.driver.hipSetDevice(self.device.ordinal) }
    }
}

impl Drop for Context {
    /// If a kernel never ends, all is left to the end of the process: each of these calls would wait.
    fn drop(&mut self) {
        let streams = std::mem::take(&mut *self.streams.lock());
        let all = || streams.all().chain([self.housekeeping]).filter(|stream| !stream.0.is_null());
        if !all().all(|stream| self.is_idle(stream).is_ok_and(|idle| idle)) {
            return;
        }
        self.destroy_retired();
        for stream in all() {
            // SAFETY: nobody uses it any more.
            let _ = unsafe { self.driver.hipStreamDestroy(stream.0) };
        }
        self.memory.release(self.driver);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Vendor for Context {
    const NAME: &'static str = BACKEND;

    fn open(ordinal: usize, options: &Options) -> Result<Self> {
        Self::open_with(Driver::get()?, ordinal, options)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }
}
