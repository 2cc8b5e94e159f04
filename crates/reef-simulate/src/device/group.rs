//! State of a device's best-effort queues: running, stopped, or running capped.

/// Width at which the best-effort queues run. Changes as the dispatcher's group does: what runs is
/// stopped before it runs in another width, and nothing is restored before the stop is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Full,
    Capped,
    Stopped,
}

/// The best-effort queues of a device as one. Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) width: Width,
    /// Time at which the last stop is confirmed.
    pub(super) quiesced: u64,
    /// Time at which queues make progress again after the last restore.
    pub(super) resumed: u64,
}

impl Group {
    pub(super) fn new() -> Self {
        Self { width: Width::Full, quiesced: 0, resumed: 0 }
    }

    /// Takes one step towards `want`, which it doesn't do yet; returns whether it was a stop. Call
    /// again at [`Self::quiesced`] if it isn't reached.
    pub(super) fn step(&mut self, want: Width, now: u64, quiesce: u64, resume: u64) -> bool {
        if self.width != Width::Stopped {
            self.width = Width::Stopped;
            self.quiesced = now + quiesce.max(1); // not yet, as far as a scheduler can see
            return true;
        }
        if now >= self.quiesced {
            self.width = want;
            self.resumed = now + resume;
        }
        false
    }
}
