//! File descriptors: a daemon that has none left can neither take a client nor serve those that it
//! has.
//!
//! ```text
//! places over TCP + by Unix sockets + of the local path + own files ≤ limit
//! ```

use crate::error::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Kept for files that are no connections: of devices, models, logs and shared memory.
const OWN: usize = 64;

/// Descriptors of a client of the local path: its socket, and for a moment its memory.
const OF_LOCAL: usize = 2;

/// Raises the number of descriptors that this process may have to what it may have at most.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of descriptors stays as it is");
    }
}

/// Descriptors that this process may have.
fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Places by each way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) local: usize,
    pub(crate) unix: usize,
    pub(crate) tcp: usize,
    /// First number of a descriptor that no connection over TCP may have. The system gives the
    /// lowest that is free.
    kept_from: usize,
}

impl Room {
    /// `max` places by each way in, or as many as this process has descriptors for.
    pub(crate) fn new(max: usize) -> Self {
        let room = Self::within(limit(), max);
        if room.tcp < max || room.unix < max || room.local < max {
            let Self { local, unix, tcp, .. } = room;
            let text =
                "fewer places than limits.clients: raise the limit of descriptors (ulimit -n)";
            tracing::warn!(limit = limit(), max, local, unix, tcp, "{text}");
        }
        room
    }

    fn within(limit: usize, max: usize) -> Self {
        let free = limit.saturating_sub(OWN).max(limit / 2);
        let part = |all: usize| max.min(all.max(1));
        let (tcp, unix, local) = (part(free / 2), part(free / 4), part(free / 4 / OF_LOCAL));
        Self { local, unix, tcp, kept_from: limit - OWN.min(limit / 2) / 2 }
    }

    /// Refuses a connection over TCP that has one of the last descriptors, whatever has the others.
    ///
    /// # Errors
    ///
    /// `Exhausted`.
    pub(crate) fn check(&self, connection: BorrowedFd<'_>) -> Result<()> {
        match usize::try_from(connection.as_raw_fd()).is_ok_and(|number| number < self.kept_from) {
            true => Ok(()),
            false => {
                Err(Error::Exhausted("descriptors are left for those who are in alone".into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_never_take_the_last_descriptors(limit in 16_usize..5000, max in 1_usize..2000) {
            let Room { local, unix, tcp, kept_from } = Room::within(limit, max);
            let own = OWN.min(limit / 2);
            prop_assert!(tcp + unix + OF_LOCAL * local + own <= limit);
            prop_assert!(local > 0 && unix > 0 && tcp > 0 && tcp <= max);
            prop_assert!(kept_from < limit && kept_from >= limit / 2);
        }
    }

    #[test]
    fn room_is_all_that_is_asked_for_where_descriptors_are_many() {
        let Room { local, unix, tcp, .. } = Room::within(1 << 20, 256);
        assert_eq!([local, unix, tcp], [256; 3]);
        let Room { local, unix, tcp, .. } = Room::within(256, 256);
        assert_eq!([local, unix, tcp], [24, 48, 96]);
    }
}
