//! Frame of benches that measure on one device.

use crate::report::results::Common;
use anyhow::Result;
use reef::op::Operators;

/// Bench that measures on one device.
pub(crate) trait DeviceBench {
    /// Refuses options that cannot be measured, before a device is opened.
    ///
    /// # Errors
    ///
    /// The first wrong option.
    fn check(&self) -> Result<()>;

    /// Measures all rows on `device` and prints them.
    ///
    /// # Errors
    ///
    /// The device's, those of files, or a measurement that lost work.
    fn measure<D: Operators>(&self, device: &D) -> Result<()>;
}

/// Checks a bench, opens the device of its options, makes the folder for results and measures.
///
/// # Errors
///
/// Errors of the bench; the device cannot be opened, or the folder cannot be made.
pub(crate) fn run(bench: &impl DeviceBench, common: &Common) -> Result<()> {
    bench.check()?;
    reef::with_device(&common.device, OnDevice(bench, common))?
}

struct OnDevice<'a, B>(&'a B, &'a Common);

impl<B: DeviceBench> reef::Visit for OnDevice<'_, B> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        self.1.make_folder()?;
        self.0.measure(&device)
    }
}
