//! Programs of a group that move their own memory, before the driver's steps and after them.

use crate::error::Error;
use crate::record::{Process, Steps, Suspended};
use reef_guest::swap::{Hidden, Moved, ON_DEVICE, Request, ask, ask_again, ask_with_room, hide};
use std::time::Duration;

/// True as long as another program may release memory.
pub(crate) type Waits<'a> = &'a (dyn Fn() -> bool + Sync);

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

    /// Returns whether no program has moved anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns records of programs of which the driver has suspended nothing: their own memory is
    /// on the host, and they wait.
    ///
    /// # Errors
    ///
    /// `Record`: one has ended.
    pub(crate) fn records(&self) -> Result<Vec<Suspended>, Error> {
        let record = |(pid, _): &(u32, Moved)| -> Result<Suspended, Error> {
            let gone = |error| Error::Record { what: format!("process {pid}"), error };
            Ok(Suspended::now(Process::of(*pid).map_err(gone)?, Vec::new(), Steps::default()))
        };
        let mut all: Vec<Suspended> = self.0.iter().map(record).collect::<Result<_, _>>()?;
        self.note(&mut all);
        Ok(all)
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

/// Has a process without a record move its memory back, if it has moved any: what suspended it may
/// have ended before it wrote the record. Returns whether it had.
///
/// # Errors
///
/// `NotSwapped`: it refuses, and waits.
pub(crate) fn come_back_without_record(pid: u32) -> Result<bool, Error> {
    match ask(pid, Request::In) {
        Some(Err(why)) if why != ON_DEVICE => Err(Error::NotSwapped { pid, why }),
        answer => Ok(matches!(answer, Some(Ok(_)))),
    }
}

/// Has programs move their memory back, once the driver has restored them. Returns the time that
/// it took, in seconds. Blocks. With `waits` they take memory that another program releases.
///
/// # Errors
///
/// `NotSwapped`: one refuses, and waits; the others go on all the same.
pub(crate) fn come_back(records: &[Suspended], waits: Option<Waits<'_>>) -> Result<f64, Error> {
    let (mut seconds, mut refused) = (0.0, None);
    for record in records.iter().filter(|record| record.is_swapped) {
        let pid = record.process.pid;
        let answer = match waits {
            None => ask_again(pid, Request::In),
            Some(waits) => ask_with_room(pid, waits),
        };
        match answer {
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
