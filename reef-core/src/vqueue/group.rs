//! Queues that are preempted together, by one flag of the device.

use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::{Colocation, PreemptLevel};
use crate::backend::preemptor::Preemptor;
use crate::vqueue::shared::Shared;
use parking_lot::Mutex;
use std::sync::Arc;

/// A preemptor and the queues opened with it. Preempting eight queues costs what preempting one does.
///
/// The steps of a preemption, in this order:
///
/// 1. `evict`: the device's flag is raised; what is launched from now on is a no-op.
/// 2. The queues are held. A worker may be in the middle of one launch, which step 1 has made harmless.
/// 3. `reset`: running blocks stop at their next look.
/// 4. Real-time work may go to the device: nothing above waits for it.
/// 5. What the device has stopped is taken back. When all of it is, the group is *quiesced*.
///
/// If the device has nothing of any queue, holding them is all. To raise the flag is a call of the driver, which takes
/// a thread that has slept as long as launching a kernel.
///
/// Restoring waits for step 5, then lowers the flag, then lets workers launch. A group may be restored
/// *narrow*, to run beside real-time work, and is stopped again before it runs as wide as it can.
#[derive(Debug)]
pub struct Group<D: Device> {
    device: D,
    preemptor: D::Preemptor,
    members: Mutex<Members<D>>,
}

#[derive(Debug)]
struct Members<D: Device> {
    held: bool,
    /// Step 3 has not been done, because the device refused it.
    reset_due: bool,
    /// Blocks that run at a time, beside real-time work.
    capped: Option<u32>,
    queues: Vec<Arc<Shared<D>>>,
}

impl<D: Device> Group<D> {
    /// Opens an empty group whose queues are preempted as deep as `level`.
    ///
    /// # Errors
    ///
    /// `Level` if the device is not that deep; the driver's.
    pub fn open(device: &D, level: PreemptLevel) -> Result<Arc<Self>> {
        let preemptor = device.preemptor(level)?;
        let members =
            Mutex::new(Members { held: false, reset_due: false, capped: None, queues: Vec::new() });
        Ok(Arc::new(Self { device: device.clone(), preemptor, members }))
    }

    /// How deep a preemption of this group reaches.
    pub fn level(&self) -> PreemptLevel {
        self.preemptor.level()
    }

    /// Queues in the group.
    #[allow(clippy::len_without_is_empty)] // it has no other
    pub fn len(&self) -> usize {
        self.members.lock().queues.len()
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    pub(crate) fn preemptor(&self) -> &D::Preemptor {
        &self.preemptor
    }

    pub(crate) fn join(&self, queue: &Arc<Shared<D>>) {
        let mut members = self.members.lock();
        if members.held {
            queue.hold();
        }
        queue.set_cap(members.capped);
        members.queues.push(queue.clone());
    }

    pub(crate) fn leave(&self, queue: &Arc<Shared<D>>) {
        self.members.lock().queues.retain(|q| !Arc::ptr_eq(q, queue));
    }

    /// Steps 1 to 3: afterwards nothing of the group starts, and running blocks are told to stop.
    ///
    /// Doesn't wait for anything and wakes no thread, so real-time work can go first.
    ///
    /// # Errors
    ///
    /// `State` if the group is preempted already; the device's, and then call again.
    pub(crate) fn stop(&self) -> Result<()> {
        let mut members = self.members.lock();
        if members.held && !members.reset_due {
            return Err(Error::State("preempting what is preempted already"));
        }
        if !members.held {
            let nothing_runs = members.queues.iter().all(|queue| queue.hold_if_empty());
            if !nothing_runs && self.level() >= PreemptLevel::DeviceQueue {
                let release = |_: &Error| members.queues.iter().for_each(|queue| queue.release());
                self.preemptor.evict().inspect_err(release)?;
            }
            members.held = true;
            members.queues.iter().for_each(|queue| queue.hold());
            members.reset_due = !nothing_runs && self.level() >= PreemptLevel::All;
        }
        if members.reset_due {
            self.preemptor.reset()?;
            members.reset_due = false;
        }
        Ok(())
    }

    /// Whether a [`stop`](Self::stop) failed in its last step, and is to be called again.
    pub(crate) fn is_half_stopped(&self) -> bool {
        self.members.lock().reset_due
    }

    /// Starts step 5: workers take back what the device has.
    fn collect(&self) {
        self.members.lock().queues.iter().for_each(|queue| queue.wake_worker());
    }

    /// Step 5 on this thread, without waking workers; they do the rest when the device lets go.
    /// Returns whether the group is quiesced.
    pub(crate) fn try_quiesce(&self) -> bool {
        let members = self.members.lock();
        if members.held {
            members.queues.iter().for_each(|queue| queue.try_quiesce());
        }
        members.held && members.queues.iter().all(|queue| queue.is_quiesced())
    }

    /// Whether the group is preempted, or on the way to be.
    pub fn is_preempted(&self) -> bool {
        self.members.lock().held
    }

    /// How many blocks of each queue may run at a time beside real-time work, if the group can be stopped
    /// while it does.
    pub(crate) fn capped_blocks(&self) -> Option<u32> {
        match self.device.colocation() {
            Colocation::Capped(blocks) if self.level() >= PreemptLevel::DeviceQueue => Some(blocks),
            _ => None,
        }
    }

    /// Whether the group runs beside real-time work, or did when it was stopped.
    pub(crate) fn is_capped(&self) -> bool {
        self.members.lock().capped.is_some()
    }

    /// Whether the device has confirmed that nothing of the group runs.
    pub fn is_quiesced(&self) -> bool {
        let members = self.members.lock();
        members.held && members.queues.iter().all(|queue| queue.is_quiesced())
    }

    /// Stops all queues; later commands wait until [`restore`](Self::restore).
    ///
    /// With `sync` it returns when the device confirms that nothing of them runs, without at once.
    ///
    /// # Errors
    ///
    /// `State` if the group is preempted already; the device's, and then call again.
    pub fn preempt(&self, sync: bool) -> Result<()> {
        self.stop()?;
        self.collect();
        if sync {
            self.wait_quiesced();
        }
        Ok(())
    }

    fn wait_quiesced(&self) {
        let queues = self.members.lock().queues.clone();
        queues.iter().for_each(|queue| queue.wait_quiesced());
    }

    /// Lets all queues go on where they were stopped. Blocks until they have stopped.
    ///
    /// # Errors
    ///
    /// `State` if the group is not preempted; the device's.
    pub fn restore(&self) -> Result<()> {
        while !self.try_restore()? {
            self.collect(); // a preemption that failed has not
            self.wait_quiesced();
        }
        Ok(())
    }

    /// As [`restore`](Self::restore), or `false` if some queue has not stopped yet.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub(crate) fn try_restore(&self) -> Result<bool> {
        self.try_restore_as(None)
    }

    /// As [`try_restore`](Self::try_restore), with at most `width` blocks of each queue at a time.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub(crate) fn try_restore_as(&self, width: Option<u32>) -> Result<bool> {
        let mut members = self.members.lock();
        if !members.held {
            return Err(Error::State("restoring what is not preempted"));
        }
        if self.level() >= PreemptLevel::DeviceQueue {
            if !members.queues.iter().all(|queue| queue.is_quiesced()) {
                return Ok(false);
            }
            self.preemptor.reactivate()?; // before queues are released, or launches would be no-ops
        }
        if members.capped != width {
            members.capped = width;
            members.queues.iter().for_each(|queue| queue.set_cap(width));
        }
        (members.held, members.reset_due) = (false, false);
        members.queues.iter().for_each(|queue| queue.release());
        Ok(true)
    }
}
