//! State of a guest's phases on one device.

use super::member::{PhaseMember, Refusal};
use reef_guest::join::Uuid;
use reef_guest::page::Page;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

/// True while a phase of this process lasts, on any device. Written with the lock of their count.
static IN_PHASE: AtomicBool = AtomicBool::new(false);

/// Returns whether a phase of this process lasts, on any device.
pub(crate) fn is_in_phase() -> bool {
    IN_PHASE.load(SeqCst)
}

/// Notes whether a phase of this process lasts. The caller has the lock of their count.
pub(crate) fn set_in_phase(is_in_phase: bool) {
    IN_PHASE.store(is_in_phase, SeqCst);
}

/// Phases of a best-effort guest on one device.
///
/// The member's page becomes busy under the lock alone, and only while `active` is set. So it is
/// idle after a phase has ended, whatever launches are in progress.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    /// Member of the phase that lasts, or null. Written with the lock.
    active: AtomicPtr<PhaseMember>,
    /// Member that the daemon knows.
    known: Mutex<Option<&'static PhaseMember>>,
}

impl Phase {
    fn lock(&self) -> MutexGuard<'_, Option<&'static PhaseMember>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn active(&self) -> Option<&'static PhaseMember> {
        let active = self.active.load(SeqCst);
        // SAFETY: null, or a member, which stays for the life of the process.
        unsafe { active.cast_const().as_ref() }
    }

    /// Returns whether a phase lasts.
    pub(crate) fn is_active(&self) -> bool {
        !self.active.load(SeqCst).is_null()
    }

    /// Asks the daemon for the right to a phase, unless it has granted it shortly before.
    pub(crate) fn ask(&self, device: Uuid) -> Result<(), Refusal> {
        let mut known = self.lock();
        if !known.is_some_and(PhaseMember::use_again) {
            *known = Some(PhaseMember::ask(device)?);
        }
        Ok(())
    }

    /// Has no phase, for which it was asked.
    pub(crate) fn take_back(&self) {
        self.lock().iter().for_each(|member| member.end_use());
    }

    /// Begins a phase, if the right is granted: opens the guest's own gates, and has others held.
    pub(crate) fn begin(&self, own: &Page) {
        let known = self.lock();
        let Some(member) = *known else { return };
        own.holders.override_all();
        self.active.store(ptr::from_ref(member).cast_mut(), SeqCst);
        member.hold();
    }

    /// Ends the phase. Others are released when this returns or, at most, when the daemon's thread
    /// has woken up.
    pub(crate) fn end(&self, own: &Page) {
        let _known = self.lock();
        let Some(member) = self.active() else { return };
        self.active.store(ptr::null_mut(), SeqCst);
        member.release();
        member.end_use();
        own.holders.end_override();
    }

    /// Counts a launch, before it is made, if a phase lasts.
    #[inline]
    pub(crate) fn launch(&self) {
        if let Some(member) = self.active()
            && member.launch()
        {
            self.hold_again();
        }
    }

    /// Has others held again, after a pause or a release that didn't know of a launch.
    #[cold]
    fn hold_again(&self) {
        let _known = self.lock();
        self.active().inspect(|member| member.hold());
    }

    /// Has others released until the next launch of the phase.
    pub(crate) fn pause(&self) {
        let _known = self.lock();
        self.active().inspect(|member| member.release());
    }

    /// Runs `end` unless a phase lasts, in which the override is the phase's.
    pub(crate) fn unless_active(&self, end: impl FnOnce()) {
        let _known = self.lock();
        if !self.is_active() {
            end();
        }
    }

    /// Publishes the progress of the guest's work, if a phase lasts.
    pub(crate) fn show_progress(&self, progress: u64) {
        self.active().inspect(|member| member.show_progress(progress));
    }
}
