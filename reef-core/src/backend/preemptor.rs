//! What stops queues.

use crate::backend::error::Result;
use crate::backend::info::PreemptLevel;
use std::fmt::Debug;

/// Stops work that the hardware already holds.
///
/// One preemptor covers all queues opened with it, so its cost doesn't grow with their number.
/// None of its calls waits for the device.
pub trait Preemptor: Debug + Send + Sync + 'static {
    /// The deepest level it was created for.
    fn level(&self) -> PreemptLevel;

    /// Whether a stop needs a place on the device, so that it has to go there before real-time work that may fill it.
    fn needs_room(&self) -> bool {
        false
    }

    /// [`PreemptLevel::DeviceQueue`]: turns launched, unstarted work into no-ops.
    ///
    /// # Errors
    ///
    /// `Level` below that level.
    fn evict(&self) -> Result<()>;

    /// [`PreemptLevel::All`]: stops running blocks.
    ///
    /// # Errors
    ///
    /// `Level` below that level.
    fn reset(&self) -> Result<()>;

    /// Lets queues run again. Every queue must have been drained since [`evict`](Self::evict).
    /// Does nothing if they already run.
    ///
    /// # Errors
    ///
    /// The driver's.
    fn reactivate(&self) -> Result<()>;
}
