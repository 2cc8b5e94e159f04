//! File descriptors: a daemon without free descriptors can neither accept a client nor serve the
//! connected ones.
//!
//! ```text
//! slots over TCP + Unix sockets + local path + guests + regions + own files ≤ limit
//! ```

use crate::error::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reserved for other files: devices, models, logs and, with at most half, shared memory.
const OWN: usize = 64;

/// Descriptors of a client of the local path: its socket, and for a moment its memory.
const PER_LOCAL_CLIENT: usize = 2;

/// Raises the limit of descriptors of this process to its maximum.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of descriptors was not raised");
    }
}

/// Number of descriptors that this process may have.
fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Number of slots for each kind of endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    pub(crate) local: usize,
    pub(crate) unix: usize,
    pub(crate) tcp: usize,
    /// Regions of shared memory, each with a file.
    pub(crate) regions: usize,
    /// First descriptor number that no TCP connection may have. The system assigns the lowest free
    /// number.
    reserved_from: usize,
}

impl SlotCounts {
    /// Returns `max` slots for each kind of endpoint and `max_regions` regions, or fewer if the
    /// process lacks descriptors.
    pub(crate) fn new(max: usize, max_regions: usize) -> Self {
        let counts = Self::within(limit(), max, max_regions);
        let Self { local, unix, tcp, regions, .. } = counts;
        if local.min(unix).min(tcp) < max {
            let text =
                "fewer slots than limits.clients: raise the limit of descriptors (ulimit -n)";
            tracing::warn!(limit = limit(), max, local, unix, tcp, "{text}");
        }
        if regions < max_regions {
            let text =
                "fewer regions than limits.regions: raise the limit of descriptors (ulimit -n)";
            tracing::warn!(limit = limit(), max_regions, regions, "{text}");
        }
        counts
    }

    fn within(limit: usize, max: usize, max_regions: usize) -> Self {
        let slots = limit - limit / 4; // the registry's guests may have a quarter
        let free = slots.saturating_sub(OWN).max(slots / 2);
        let part = |all: usize| max.min(all.max(1));
        let (tcp, unix, local) =
            (part(free / 2), part(free / 4), part(free / 4 / PER_LOCAL_CLIENT));
        let left = free.saturating_sub(tcp + unix + PER_LOCAL_CLIENT * local);
        let regions = max_regions.min(left + (slots - free) / 2);
        Self { local, unix, tcp, regions, reserved_from: limit - OWN.min(limit / 2) / 2 }
    }

    /// Refuses a TCP connection that has one of the reserved descriptors.
    ///
    /// # Errors
    ///
    /// `Exhausted`.
    pub(crate) fn check(&self, connection: BorrowedFd<'_>) -> Result<()> {
        if usize::try_from(connection.as_raw_fd()).is_ok_and(|number| number < self.reserved_from) {
            return Ok(());
        }
        Err(Error::Exhausted("the last descriptors are reserved for connected clients".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slots_leave_descriptors_for_the_daemon(
            limit in 16_usize..5000,
            max in 1_usize..2000,
            max_regions in 0_usize..2000,
        ) {
            let counts = SlotCounts::within(limit, max, max_regions);
            let SlotCounts { local, unix, tcp, regions, reserved_from } = counts;
            let (own, guests) = (OWN.min((limit - limit / 4) / 2), limit / 4);
            let slots = tcp + unix + PER_LOCAL_CLIENT * local;
            prop_assert!(slots + guests + own <= limit);
            prop_assert!(slots + guests + regions + own / 2 <= limit);
            prop_assert!(local > 0 && unix > 0 && tcp > 0 && tcp <= max);
            prop_assert!(regions > 0 || max_regions == 0);
            prop_assert!(reserved_from < limit && reserved_from >= limit / 2);
        }
    }

    #[test]
    fn room_is_as_configured_with_many_descriptors() {
        let counts = |limit| {
            let SlotCounts { local, unix, tcp, regions, .. } = SlotCounts::within(limit, 256, 256);
            [local, unix, tcp, regions]
        };
        assert_eq!(counts(1 << 20), [256; 4]);
        assert_eq!(counts(256), [16, 32, 64, 32]);
        assert_eq!(counts(1024), [88, 176, 256, 128]);
    }
}
