//! Whether a device's best-effort queues run, are stopped, or run capped.

/// What the best-effort queues do. Changes as the dispatcher's group does: what runs is stopped before it runs in
/// another width, and nothing is restored before the stop is confirmed.
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
    /// When the last stop is confirmed.
    pub(super) quiesced: u64,
    /// When queues make progress again after the last restore.
    pub(super) resumed: u64,
}

impl Group {
    pub(super) fn new() -> Self {
        Self { width: Width::Full, quiesced: 0, resumed: 0 }
    }

    /// Takes one step towards `want`; whether it was a stop. Look again at [`Self::quiesced`] if it isn't reached.
    pub(super) fn step(&mut self, want: Width, now: u64, quiesce: u64, resume: u64) -> bool {
        if self.width == want {
            return false;
        }
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

/// How long real-time work lasts before best-effort work runs capped beside it, as in the dispatcher.
const LONG: u64 = 10_000_000;

/// Pauses that don't interrupt it, as in the dispatcher.
const PAUSE: u64 = 300_000;

/// How long real-time work has been there, short pauses counted in.
#[derive(Debug, Default)]
pub(super) struct Steady {
    since: Option<u64>,
    last: u64,
    has_work: bool,
}

impl Steady {
    pub(super) fn note(&mut self, has_work: bool, now: u64) {
        if self.has_work {
            self.last = now;
        } else if now >= self.ends() {
            self.since = None;
        }
        if has_work {
            self.since.get_or_insert(now);
            self.last = now;
        }
        self.has_work = has_work;
    }

    pub(super) fn is_long(&self, now: u64) -> bool {
        self.since.is_some_and(|since| now - since >= LONG)
    }

    /// When a pause will have been one.
    pub(super) fn ends(&self) -> u64 {
        self.last + PAUSE
    }
}
