//! Programs of a group that move their own memory, before the driver's steps and after them.

use crate::error::Error;
use crate::record::Suspended;
use reef_guest::swap::{Hidden, Moved, Request, ask, ask_again, hide};
use std::time::Duration;

/// Programs whose memory is on the host.
#[derive(Debug, Default)]
pub(crate) struct Swaps(Vec<(u32, Moved)>);

impl Swaps {
    /// Has those of the processes that are swappable move their memory to the host. Blocks.
    ///
    /// # Errors
    ///
    /// `NotSwapped`: one refuses. All run on.
    pub(crate) fn leave(pids: &[u32], timeout: Duration) -> Result<Self, Error> {
        let mut swaps = Self::default();
        for pid in pids {
            match ask(*pid, Request::Out(timeout)) {
                None => {}
                Some(Ok(moved)) => swaps.0.push((*pid, moved)),
                Some(Err(why)) => {
                    swaps.undo();
                    return Err(Error::NotSwapped { pid: *pid, why });
                }
            }
        }
        Ok(swaps)
    }

    /// Brings all back, and lets them go on. A program that can't waits for the next return.
    pub(crate) fn undo(self) {
        for (pid, _) in self.0 {
            let _ = ask(pid, Request::In); // refused: its room was taken in this moment
        }
    }

    /// Notes them in the records.
    pub(crate) fn note(&self, records: &mut [Suspended]) {
        for (pid, moved) in &self.0 {
            let record = records.iter_mut().find(|record| record.process.pid == *pid);
            record.into_iter().for_each(|record| record.add(moved));
        }
    }
}

/// Has those of the processes that are swappable close their sockets, as long as the values live.
///
/// # Errors
///
/// `NotSwapped`: one does not answer.
pub(crate) fn hide_all(pids: &[u32]) -> Result<Vec<Hidden>, Error> {
    let hidden = |pid: &u32| {
        let hidden = hide(*pid)?;
        Some(hidden.map_err(|why| Error::NotSwapped { pid: *pid, why }))
    };
    pids.iter().filter_map(hidden).collect()
}

/// Has programs move their memory back, once the driver has restored them. Returns the time that
/// it took, in seconds. Blocks.
///
/// # Errors
///
/// `NotSwapped`: one refuses, and waits; the others go on all the same.
pub(crate) fn come_back(records: &[Suspended]) -> Result<f64, Error> {
    let (mut seconds, mut refused) = (0.0, None);
    for record in records.iter().filter(|record| record.is_swapped) {
        let pid = record.process.pid;
        match ask_again(pid, Request::In) {
            Some(Ok(moved)) => seconds += moved.seconds,
            Some(Err(why)) => refused = refused.or(Some(Error::NotSwapped { pid, why })),
            None => {
                let why = "it does not answer, and waits for its memory".to_owned();
                refused = refused.or(Some(Error::NotSwapped { pid, why }));
            }
        }
    }
    refused.map_or(Ok(seconds), Err)
}
