//! Queues that are preempted together, by one flag of the device.

use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::{Caps, Colocation, PreemptLevel};
use crate::backend::preemptor::Preemptor;
use crate::vqueue::shared::{Shared, Shutdown};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A preemptor and the queues opened with it. Preempting eight queues costs what preempting one
/// does.
///
/// The steps of a preemption, in this order:
///
/// 1. The queues are held: workers launch nothing more. One may be in the middle of a launch.
/// 2. Real-time work that is launched in a moment may go to the device: it waits for none of these
///    steps, and they call no driver.
/// 3. `evict`: the device's flag is raised; what was launched and has not started is a no-op, and
///    so is a launch that a worker was in the middle of.
/// 4. `reset`: running blocks stop at their next preemption point.
/// 5. What the device has stopped is taken back. When all of it is, the group is *quiesced*.
///
/// On a thread that has slept, raising the flag takes as long as launching a kernel. So real-time
/// work goes first, and if the device has nothing of any queue steps 3 and 4 are left out.
///
/// Restoring lowers the flag, which brings back nothing that was stopped, and releases all queues.
/// Each launches again from its own step 5 on. A queue whose step 5 is not over *lags*: it is held
/// alone, and may be while the group is preempted and restored again. After
/// [`Config::drain_timeout`](crate::Config::drain_timeout) it ends with an error.
///
/// A group may be restored *narrow*, to run next to real-time work, and is stopped again before it
/// runs as wide as it can.
///
/// A thread that calls the driver for a step has the lock of steps. Queues come, go and end with
/// the device by another lock, under which no driver is called: a call that hangs keeps none.
///
/// ```
/// use reef_core::{Config, Device, Group, PreemptLevel};
/// use reef_cpu::Cpu;
///
/// let group = Group::open(&Cpu::open(0, "units=1")?, PreemptLevel::All)?;
/// let first = group.enable(Config::default())?;
/// let second = group.enable(Config::default())?;
/// group.preempt(true)?;
/// assert!(group.is_quiesced(), "nothing of either queue runs");
/// group.restore()?;
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Group<D: Device> {
    device: D,
    preemptor: D::Preemptor,
    /// Held while the device is told, and while it is asked.
    steps: Mutex<Steps<D>>,
    /// Held for moments. Locked after `steps`.
    members: Mutex<Members<D>>,
    /// The group is preempted, or about to be. Written under the lock of steps, before the queues
    /// are told.
    held: AtomicBool,
}

#[derive(Debug)]
struct Steps<D: Device> {
    /// Next step that the device has to be told.
    due: Due,
    /// Queues that are asked one by one. Kept for its memory.
    asked: Vec<Arc<Shared<D>>>,
}

#[derive(Debug)]
struct Members<D: Device> {
    /// Upper bound of blocks that run at a time, next to real-time work.
    capped: Option<Caps>,
    queues: Vec<Arc<Shared<D>>>,
    /// Reason for which all queues have ended, and all that come do.
    lost: Option<Error>,
    /// Number of queues that left and were abandoned.
    abandoned: u64,
}

/// The next step that a device has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    Evict,
    Reset,
}

impl<D: Device> Group<D> {
    /// Opens an empty group whose queues are preempted as deep as `level`.
    ///
    /// # Errors
    ///
    /// `Level` if the device is not that deep; an error of the driver.
    pub fn open(device: &D, level: PreemptLevel) -> Result<Arc<Self>> {
        let preemptor = device.preemptor(level)?;
        let steps = Mutex::new(Steps { due: Due::Nothing, asked: Vec::new() });
        let members =
            Mutex::new(Members { capped: None, queues: Vec::new(), lost: None, abandoned: 0 });
        let held = AtomicBool::new(false);
        Ok(Arc::new(Self { device: device.clone(), preemptor, steps, members, held }))
    }

    /// Returns the depth of a preemption of this group.
    pub fn level(&self) -> PreemptLevel {
        self.preemptor.level()
    }

    /// Returns the number of queues in the group.
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

    /// # Errors
    ///
    /// The reason for which the group was abandoned.
    pub(crate) fn join(&self, queue: &Arc<Shared<D>>) -> Result<()> {
        let mut members = self.members.lock();
        if let Some(error) = &members.lost {
            return Err(error.clone());
        }
        if self.is_preempted() {
            queue.hold(); // else a thread that holds the group finds it
        }
        queue.set_caps(members.capped);
        members.queues.push(queue.clone());
        Ok(())
    }

    pub(crate) fn leave(&self, queue: &Arc<Shared<D>>) {
        let mut members = self.members.lock();
        members.queues.retain(|q| !Arc::ptr_eq(q, queue));
        members.abandoned += u64::from(queue.is_abandoned());
    }

    /// Returns the number of queues that were abandoned with what the device had of them.
    pub(crate) fn abandoned(&self) -> u64 {
        let members = self.members.lock();
        let present = members.queues.iter().filter(|queue| queue.is_abandoned()).count();
        members.abandoned + present as u64
    }

    /// Ends all queues with `error`, also those that come, are parked or are held. Calls no driver:
    /// each worker ends when the device has finished what it has of its queue, or fails.
    pub(crate) fn mark_lost(&self, error: &Error) {
        let mut members = self.members.lock();
        let error = members.lost.get_or_insert_with(|| error.clone()).clone();
        for queue in &members.queues {
            queue.end(error.clone());
            queue.shut_down(Shutdown::Cancel);
        }
    }

    /// Abandons the queues that are told to stop and whose workers have been in one call of the
    /// driver for [`Config::drain_timeout`](crate::Config::drain_timeout), by samples that are
    /// taken at this interval. Calls no driver.
    pub(crate) fn abandon_hung(&self, interval: Duration) {
        if self.level() < PreemptLevel::DeviceQueue {
            return; // what was launched runs to its end
        }
        let members = self.members.lock();
        let hung = members.queues.iter().filter(|queue| queue.worker_hangs(interval));
        hung.for_each(|queue| queue.leave_alone());
    }

    /// Returns whether its queues were abandoned.
    pub(crate) fn is_lost(&self) -> bool {
        self.members.lock().lost.is_some()
    }

    /// Step 1: nothing of the group is launched any more. Calls no driver and wakes no thread.
    ///
    /// Returns whether it was preempted already, which changes nothing.
    pub(crate) fn hold(&self) -> bool {
        let mut steps = self.steps.lock();
        if self.held.swap(true, Ordering::SeqCst) {
            return true;
        }
        let members = self.members.lock();
        let nothing_runs = members.queues.iter().all(|queue| queue.hold_if_empty());
        members.queues.iter().for_each(|queue| queue.hold());
        let is_told = !nothing_runs && self.level() >= PreemptLevel::DeviceQueue;
        steps.due = if is_told { Due::Evict } else { Due::Nothing };
        false
    }

    /// Steps 3 and 4, as far as they are due: afterwards nothing of a held group starts, and
    /// running blocks are told to stop. Doesn't block. Wakes workers that asked for their work
    /// before the device was told, and no others.
    ///
    /// # Errors
    ///
    /// An error of the device, and then call again.
    pub(crate) fn stop(&self) -> Result<()> {
        let mut steps = self.steps.lock();
        if steps.due == Due::Nothing {
            return Ok(());
        }
        if steps.due == Due::Evict {
            self.preemptor.evict()?;
            let resets = self.level() >= PreemptLevel::All;
            steps.due = if resets { Due::Reset } else { Due::Nothing };
        }
        if steps.due == Due::Reset {
            self.preemptor.reset()?;
            steps.due = Due::Nothing;
        }
        self.members.lock().queues.iter().for_each(|queue| queue.wake_asker());
        Ok(())
    }

    /// Returns whether steps 3 and 4 need a place on the device: see [`Preemptor::needs_room`].
    pub(crate) fn needs_room(&self) -> bool {
        self.preemptor.needs_room()
    }

    /// Returns whether steps 3 and 4 take calls of the driver: see [`Preemptor::calls_driver`].
    pub(crate) fn calls_driver(&self) -> bool {
        self.preemptor.calls_driver()
    }

    /// Returns whether the device has yet to be told: [`stop`](Self::stop) was not called since the
    /// group is held, or failed.
    pub(crate) fn is_half_stopped(&self) -> bool {
        self.steps.lock().due != Due::Nothing
    }

    /// Starts step 5: workers take back what the device has.
    fn collect(&self) {
        self.members.lock().queues.iter().for_each(|queue| queue.wake_worker());
    }

    /// Step 5 on this thread, without waking workers; they do the rest when the device has stopped.
    /// Returns whether the group is quiesced.
    pub(crate) fn try_quiesce(&self) -> bool {
        let mut steps = self.steps.lock();
        if !self.is_preempted() {
            return false;
        }
        steps.asked.clear(); // a panic of the device may have left some
        steps.asked.extend_from_slice(&self.members.lock().queues);
        steps.asked.iter().for_each(|queue| queue.try_quiesce());
        steps.asked.drain(..).all(|queue| queue.is_quiesced())
    }

    /// Returns whether the group is preempted, or about to be. Doesn't block.
    pub fn is_preempted(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    /// Returns the caps of the queues next to real-time work, if the group can be stopped while it
    /// runs there.
    pub(crate) fn caps(&self) -> Option<Caps> {
        match self.device.colocation() {
            Colocation::Capped(caps) if self.level() >= PreemptLevel::DeviceQueue => Some(caps),
            _ => None,
        }
    }

    /// Returns whether graphs of its queues can run on a part of the units.
    pub(crate) fn has_parts(&self) -> bool {
        self.device.has_parts()
    }

    /// Returns the caps with which the group runs next to real-time work, or did when it was
    /// stopped.
    pub(crate) fn current_caps(&self) -> Option<Caps> {
        self.members.lock().capped
    }

    /// Returns whether the group runs next to real-time work, or did when it was stopped.
    pub(crate) fn is_capped(&self) -> bool {
        self.current_caps().is_some()
    }

    /// Returns whether the device has confirmed that nothing of the group runs.
    pub fn is_quiesced(&self) -> bool {
        self.is_preempted() && self.members.lock().queues.iter().all(|queue| queue.is_quiesced())
    }

    /// Stops all queues; later commands wait until [`restore`](Self::restore).
    ///
    /// With `sync` it returns when the device confirms that nothing of them runs, without it at
    /// once.
    ///
    /// # Errors
    ///
    /// `State` if the group is preempted already; an error of the device, and then call again.
    pub fn preempt(&self, sync: bool) -> Result<()> {
        if self.hold() && !self.is_half_stopped() {
            return Err(Error::state("preempting a group", "it is preempted already"));
        }
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

    /// Lets all queues go on where they were stopped: each when its work on the device has been
    /// taken back. Doesn't block.
    ///
    /// # Errors
    ///
    /// `State` if the group is not preempted; an error of the device.
    pub fn restore(&self) -> Result<()> {
        self.restore_locked(&mut self.steps.lock(), None)
    }

    /// As [`restore`](Self::restore), with the caps of `width` for each queue. Returns `false` if
    /// no queue could go on yet: then the group stays preempted, and need not be stopped again for
    /// what comes meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`restore`](Self::restore).
    pub(crate) fn try_restore_as(&self, width: Option<Caps>) -> Result<bool> {
        let mut steps = self.steps.lock();
        if self.is_preempted() && !self.can_go_on() {
            return Ok(false);
        }
        self.restore_locked(&mut steps, width).map(|()| true)
    }

    /// Returns whether one of the queues can, or there is none.
    fn can_go_on(&self) -> bool {
        let queues = &self.members.lock().queues;
        queues.is_empty() || queues.iter().any(|queue| queue.is_quiesced())
    }

    fn restore_locked(&self, steps: &mut Steps<D>, width: Option<Caps>) -> Result<()> {
        if !self.is_preempted() {
            return Err(Error::state("restoring a group", "it is not preempted"));
        }
        let is_stopped = self.level() >= PreemptLevel::DeviceQueue;
        if is_stopped {
            self.preemptor.reactivate()?; // before queues are released, or launches would be no-ops
        }
        let mut members = self.members.lock();
        if members.capped != width {
            members.capped = width;
            members.queues.iter().for_each(|queue| queue.set_caps(width));
        }
        steps.due = Due::Nothing;
        self.held.store(false, Ordering::SeqCst);
        let release = if is_stopped { Shared::release_when_drained } else { Shared::release };
        members.queues.iter().for_each(|queue| release(queue));
        Ok(())
    }
}
