//! The `Preemptor` trait: evict, reset, reactivate.

use crate::backend::error::Result;
use crate::backend::info::PreemptLevel;
use std::fmt::Debug;

/// Stops work that the hardware already holds.
///
/// One preemptor covers all queues opened with it, so its cost doesn't grow with their number.
/// None of its calls waits for the device.
///
/// The caller's order, which `reef-core/loom` models:
///
/// 1. Queues are held: nothing is launched, but for a launch that a thread was in the middle of.
/// 2. Real-time work goes to the device. It does so after step 3 if that [needs
///    room](Self::needs_room), if launching it takes more than one call, or one that was not made
///    before. Where step 3 [calls no driver](Self::calls_driver), it does so after step 3 unless
///    its launch was not made before.
/// 3. [`evict`](Self::evict), then [`reset`](Self::reset), unless the device has nothing of any
///    queue. Either may be called again, and is after an error.
/// 4. [`Queue::try_drain`](crate::Queue::try_drain) of each queue, at any time and as often as it
///    takes; also before step 3, of which it may not have heard.
/// 5. [`reactivate`](Self::reactivate), whether or not every queue is drained. A queue that is not
///    *lags*: its step 4 goes on, and nothing is launched on it until that is over. Steps 1 to 5
///    may come again meanwhile, any number of times. A queue of which the device had nothing at
///    step 3 needs no drain: what it is given from here on runs.
///
/// ```
/// use reef_core::{Cells, Device, PreemptLevel, Preemptor, Priority, Queue, Seq};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let preemptor = device.preemptor(PreemptLevel::All)?;
/// let mut queue = device.queue(Priority::BestEffort, Some(&preemptor))?;
/// queue.launch(Seq(0), &Cells::new(&device, 64)?.launch(7, 1000), None)?;
/// preemptor.evict()?;
/// preemptor.reset()?;
/// let left = loop {
///     if let Some(left) = queue.try_drain()? {
///         break left;
///     }
/// };
/// println!("goes on at {:?}, with {:?}", left.resume_at, left.partial);
/// preemptor.reactivate()?;
/// # Ok::<(), reef_core::Error>(())
/// ```
pub trait Preemptor: Debug + Send + Sync + 'static {
    /// The deepest level it was created for.
    fn level(&self) -> PreemptLevel;

    /// Returns whether a stop needs a place on the device. It then has to go there before real-time
    /// work that may fill the device. The default is `true`.
    fn needs_room(&self) -> bool {
        true
    }

    /// Returns whether a stop takes calls of the driver, which are as long as a launch on a thread
    /// that has slept. A stop that takes none, as by words of the host that the device reads, comes
    /// first. Real-time work that runs for the first time still precedes it: launching that may
    /// wait for what is stopped.
    fn calls_driver(&self) -> bool {
        true
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

    /// Lets queues run again: what is launched from now on is not stopped. Does nothing if they
    /// already run.
    ///
    /// It brings nothing back of a queue that was evicted and not drained: that stays as
    /// [`try_drain`](crate::Queue::try_drain) finds it, stopped for good or, on a device that holds
    /// what it was given, gone on by itself.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    fn reactivate(&self) -> Result<()>;
}
