//! Preemption of a remote lane: commands that were not sent stay at the client. What was sent is
//! preempted by the server's dispatcher, for the sake of any session's real-time work.

use crate::error::NAME;
use reef_core::{Error, PreemptLevel, Result};

/// Stops nothing that the server has: its level is
/// [`HostQueue`](reef_core::PreemptLevel::HostQueue).
#[derive(Debug)]
pub struct Preemptor(pub(super) ());

impl Preemptor {
    fn too_deep(asked: PreemptLevel) -> Error {
        Error::Level { backend: NAME, what: "preemptor", asked, have: PreemptLevel::HostQueue }
    }
}

impl reef_core::Preemptor for Preemptor {
    fn level(&self) -> PreemptLevel {
        PreemptLevel::HostQueue
    }

    fn needs_room(&self) -> bool {
        false
    }

    fn calls_driver(&self) -> bool {
        false
    }

    fn evict(&self) -> Result<()> {
        Err(Self::too_deep(PreemptLevel::DeviceQueue))
    }

    fn reset(&self) -> Result<()> {
        Err(Self::too_deep(PreemptLevel::All))
    }

    fn reactivate(&self) -> Result<()> {
        Ok(())
    }
}

/// Record of a launch that the client never resumes: all of its blocks remain, or the server runs
/// them all.
#[derive(Debug, Clone)]
pub struct Complete(pub(super) u32);

impl reef_core::Checkpoint for Complete {
    fn remaining(&self) -> u32 {
        self.0
    }
}
