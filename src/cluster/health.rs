//! Whether a device still works.

use reef_core::{Device, Error, Priority, Queue, Result, Seq};
use std::time::{Duration, Instant};

/// How long a device that is asked may be busy. One that neither answers nor fails is not given up: its queues
/// may be full, and where work can hang there is the option `timeout`.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether `error` can come of a device that is lost. Others are about what was asked.
pub(super) fn may_mean_loss(error: &Error) -> bool {
    matches!(
        error,
        Error::DeviceLost { .. } | Error::Driver { .. } | Error::Cancelled | Error::State(_)
    )
}

/// Asks the device for an empty round on a queue of its own.
///
/// A kernel that fails ends its queue, and on some devices all of them; only this tells which.
///
/// # Errors
///
/// The device's: it is lost.
pub(super) fn probe<D: Device>(device: &D) -> Result<()> {
    let mut queue = device.queue(Priority::RealTime, None)?;
    queue.record(Seq(0), &device.event()?)?;
    let begin = Instant::now();
    while queue.completed()? < Seq(1) && begin.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    Ok(())
}
