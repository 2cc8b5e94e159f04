//! Frame of benches that measure on one device.

use crate::report::results::Common;
use anyhow::Result;
use reef::op::Operators;

/// Bench that measures on one device.
pub(crate) trait DeviceBench {
    /// Options that all benches have.
    fn common(&self) -> &Common;

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

/// Checks a bench, opens its device, makes the folder for results and measures.
///
/// # Errors
///
/// Errors of the bench; the device cannot be opened, or the folder cannot be made.
pub(crate) fn run(bench: &impl DeviceBench) -> Result<()> {
    bench.check()?;
    reef::with_device(&bench.common().device, OnDevice(bench))?
}

struct OnDevice<'a, B>(&'a B);

impl<B: DeviceBench> reef::Visit for OnDevice<'_, B> {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        self.0.common().make_folder()?;
        self.0.measure(&device)
    }
}
