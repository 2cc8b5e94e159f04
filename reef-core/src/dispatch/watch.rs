//! Watch over calls of the driver that never return.
//!
//! The thread that makes such a call keeps the state of passes. A thread of its own detects this,
//! because no other thread has to check a clock:
//!
//! | what | when a call hangs |
//! |---|---|
//! | tickets | end with the reason after ten seconds; timed waits end in their time |
//! | best-effort queues | end with the reason, by a lock under which no driver is called |
//! | new requests and clients | get the reason |
//! | counts | are read as they are |
//! | clients and dispatchers that are dropped | leave what the thread has to it |
//! | worker of a best-effort queue that is told to stop | its queue alone is abandoned, after its `Config::drain_timeout` |
//!
//! If the call returns after all, the pass goes on, finds the loss, and ends what is left.

use crate::backend::device::Device;
use crate::backend::error::Error;
use crate::dispatch::pass::Dispatch;
use crate::sync::turns::Watch;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Time for which a call of the driver in a pass may last before the device is lost. Long kernels
/// of others don't keep a call from returning for as long.
pub(super) const HANG_TIMEOUT: Duration = Duration::from_secs(10);

/// Marks the device lost if a call of the driver in a pass lasts for `timeout`, and abandons queues
/// whose workers hang. Returns when it is lost, or the other end of `ended` is gone.
pub(super) fn watch<D: Device>(
    dispatch: &Arc<Dispatch<D>>,
    timeout: Duration,
    ended: &Receiver<()>,
) {
    let (mut watch, interval) = (Watch::default(), timeout / Watch::SAMPLES);
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        dispatch.group.abandon_hung(interval);
        if watch.sample(dispatch.turns()) {
            let why = format!("a call of the driver has not returned for {timeout:?}");
            return dispatch.end_waits(&Error::DeviceLost { backend: D::NAME, why });
        }
    }
}
