//! Suspension and return of a group of processes that belong together, as those of one job.
//!
//! | step | on failure |
//! |---|---|
//! | 1. each process is locked: its calls wait, its work ends | those locked are unlocked |
//! | 2. each is checkpointed: its memory goes to the host | those checkpointed are restored, all are unlocked |
//! | 3. (return) memory is looked at | nothing was done |
//! | 4. each is restored, then unlocked | the others are restored all the same |
//!
//! All are locked before the first is checkpointed, so that none waits for another in the middle of
//! a collective operation.

use crate::api::{Api, Pair, State, Uuid};
use crate::error::Error;
use crate::memory::Devices;
use crate::record::{Held, Process, Steps, Suspended};
use std::time::{Duration, Instant};

/// Memory that stays free on a GPU after a return. A restore that runs out of memory loses the
/// process, and the driver takes a little more than it gave back.
pub const MARGIN: u64 = reef_guest::swap::MARGIN;

/// Processes that are suspended and come back together.
#[derive(Debug)]
pub struct Group<'a, A> {
    api: &'a A,
    devices: &'a Devices<'a>,
}

impl<'a, A: Api> Group<'a, A> {
    /// Groups on these GPUs.
    pub fn new(api: &'a A, devices: &'a Devices<'a>) -> Self {
        Self { api, devices }
    }

    fn expect(&self, pid: u32, want: State) -> Result<(), Error> {
        match self.api.state(pid) {
            Ok(have) if have == want => Ok(()),
            Ok(have) => Err(Error::State { pid, want: want.name(), have }),
            Err(refusal) => Err(Error::NoProcess { pid, refusal }),
        }
    }

    /// Takes the processes off their GPUs. Blocks until it is done: at least as long as their work
    /// takes, which is bounded by `timeout`, and the copies, at about 2 GB/s (driver 580, H200).
    ///
    /// # Errors
    ///
    /// `NoProcess`, `State`, `Busy`, `Unsupported`: all run on. `Step`: the message says the state.
    pub fn suspend(&self, pids: &[u32], timeout: Duration) -> Result<Vec<Suspended>, Error> {
        for pid in pids {
            self.expect(*pid, State::Running)?;
        }
        let processes = pids.iter().map(|pid| {
            let gone = |error| Error::Record { what: format!("process {pid}"), error };
            Process::of(*pid).map_err(gone)
        });
        let processes: Vec<Process> = processes.collect::<Result<_, _>>()?;
        let counted: Vec<_> = pids.iter().map(|pid| self.devices.of(*pid)).collect();
        let begin = Instant::now();
        self.lock(pids, begin, timeout)?;
        let lock = begin.elapsed().as_secs_f64();
        let mut all = Vec::new();
        for (at, (process, counted)) in processes.iter().zip(&counted).enumerate() {
            let (begin, before) = (Instant::now(), self.devices.free());
            if let Err(refusal) = self.api.checkpoint(process.pid) {
                let left = self.undo(pids, at);
                let error = Error::of_suspension(process.pid, refusal, timeout);
                return Err(left.map_or(error, |left| Error::Step {
                    pid: process.pid,
                    refusal,
                    left,
                }));
            }
            let checkpoint = begin.elapsed().as_secs_f64();
            let held = self.devices.held(counted, &before, &self.devices.free());
            all.push(Suspended::now(
                *process,
                held,
                Steps { lock, checkpoint, ..Steps::default() },
            ));
        }
        Ok(all)
    }

    /// Unlocks a process that an interrupted suspension left locked.
    ///
    /// # Errors
    ///
    /// `State`: it is not locked.
    pub fn unlock(&self, pid: u32) -> Result<(), Error> {
        self.expect(pid, State::Locked)?;
        let unlocked = self.api.unlock(pid);
        unlocked.map_err(|refusal| Error::Step { pid, refusal, left: self.describe(pid) })
    }

    /// Step 1. The timeout is that of all together.
    fn lock(&self, pids: &[u32], begin: Instant, timeout: Duration) -> Result<(), Error> {
        for (at, pid) in pids.iter().enumerate() {
            let left = timeout.saturating_sub(begin.elapsed());
            if let Err(refusal) = self.api.lock(*pid, left) {
                for pid in &pids[..at] {
                    let _ = self.api.unlock(*pid); // it was locked a moment ago
                }
                return Err(Error::of_suspension(*pid, refusal, timeout));
            }
        }
        Ok(())
    }

    /// Brings back the first `done` of locked processes and unlocks all. `None`: all run on;
    /// otherwise what could not be undone.
    fn undo(&self, pids: &[u32], done: usize) -> Option<String> {
        let mut stuck = Vec::new();
        for (at, pid) in pids.iter().enumerate() {
            let restored = if at < done { self.api.restore(*pid, &[]) } else { Ok(()) };
            if let Err(refusal) = restored.and_then(|()| self.api.unlock(*pid)) {
                stuck.push(format!("process {pid} does not run: {refusal}"));
            }
        }
        (!stuck.is_empty()).then(|| stuck.join("; "))
    }

    /// Brings suspended processes back, on the GPU `to` if it is named: then every GPU they had is
    /// replaced by it, which must be of the same chip. Blocks for the copies, at about 7 GB/s.
    ///
    /// # Errors
    ///
    /// `State`; `NoRoom`: nothing was begun. `Step`: the driver refused a restore; the other
    /// processes were brought back all the same.
    pub fn resume(&self, records: &[Suspended], to: Option<Uuid>) -> Result<Steps, Error> {
        for record in records {
            self.expect(record.process.pid, State::Suspended)?;
        }
        self.check_room(records, to)?;
        let begin = Instant::now();
        let mut refused = None;
        let mut restored = Vec::new();
        for record in records {
            let pid = record.process.pid;
            match self.api.restore(pid, &self.pairs(record, to)) {
                Ok(()) => restored.push(pid),
                Err(refusal) => refused = refused.or(Some((pid, refusal))),
            }
        }
        let (restore, begin) = (begin.elapsed().as_secs_f64(), Instant::now());
        for pid in restored {
            let late = self.api.unlock(pid).err();
            refused = refused.or(late.map(|refusal| (pid, refusal)));
        }
        let unlock = begin.elapsed().as_secs_f64();
        match refused {
            Some((pid, refusal)) => Err(Error::Step { pid, refusal, left: self.describe(pid) }),
            None => Ok(Steps { restore, unlock, ..Steps::default() }),
        }
    }

    fn describe(&self, pid: u32) -> String {
        match self.api.state(pid) {
            Ok(state) => format!("it is {}", state.name()),
            Err(error) => format!("its state is not known: {error}"),
        }
    }

    /// Step 3.
    pub(crate) fn check_room(&self, records: &[Suspended], to: Option<Uuid>) -> Result<(), Error> {
        let Some(memory) = self.devices.memory else { return Ok(()) };
        let mut needs = vec![0_u64; self.devices.uuids.len()];
        for record in records {
            for held in &record.held {
                let on = to.or_else(|| held.uuid()).and_then(|uuid| self.devices.ordinal(&uuid));
                let Some(device) = on else { continue };
                needs[device] = needs[device].saturating_add(held.bytes);
                let free = memory.free(&self.devices.uuids[device]);
                let need = needs[device];
                if free.is_some_and(|free| free < need.saturating_add(MARGIN)) {
                    let mib = |bytes: u64| bytes >> 20;
                    let (pid, free) = (record.process.pid, mib(free.unwrap_or(0)));
                    return Err(Error::NoRoom {
                        pid,
                        device,
                        need: mib(need),
                        margin: mib(MARGIN),
                        free,
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns whether the GPUs are known to have room for a return: with figures of all of them,
    /// and of the memory of each process.
    pub(crate) fn has_room(&self, records: &[Suspended], to: Option<Uuid>) -> bool {
        let Some(memory) = self.devices.memory else { return false };
        let is_told = |held: &Held| held.uuid().and_then(|uuid| memory.free(&uuid)).is_some();
        let is_known =
            |record: &Suspended| !record.held.is_empty() && record.held.iter().all(is_told);
        records.iter().all(is_known) && self.check_room(records, to).is_ok()
    }

    /// Every GPU of this machine has to be named if one changes: the process had access to all.
    fn pairs(&self, record: &Suspended, to: Option<Uuid>) -> Vec<Pair> {
        let Some(to) = to else { return Vec::new() };
        let had: Vec<Uuid> = record.held.iter().filter_map(|held| held.uuid()).collect();
        let Some(from) = had.first().copied() else { return Vec::new() };
        // The two change places, so that no two GPUs become one.
        let place = |uuid: &Uuid| match *uuid {
            uuid if uuid == from => to,
            uuid if uuid == to => from,
            uuid => uuid,
        };
        self.devices.uuids.iter().map(|uuid| Pair { from: *uuid, to: place(uuid) }).collect()
    }
}

#[cfg(test)]
mod tests;
