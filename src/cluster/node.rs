//! A device of a cluster with its dispatcher.

use super::health::{Prober, SILENCE_TIMEOUT, may_mean_loss, probe};
use super::ledger::{Ledger, LedgerEntry};
use reef_core::{ClientConfig, Device, Dispatcher, Error, Result};
use std::sync::{Arc, OnceLock};

/// A device of a cluster, with a dispatcher of its own.
#[derive(Debug)]
pub struct Node<D: Device> {
    at: usize,
    name: String,
    device: D,
    dispatcher: Dispatcher<D>,
    ledger: Ledger,
    /// Reason for which it is lost. Written once, by the first thread that finds out.
    lost: OnceLock<Error>,
    prober: Arc<Prober>,
}

impl<D: Device> Node<D> {
    pub(super) fn new(at: usize, device: D, dispatcher: Dispatcher<D>, ledger: Ledger) -> Self {
        let name = format!("device {at} ({})", device.info().name);
        let (lost, prober) = Default::default();
        Self { at, name, device, dispatcher, ledger, lost, prober }
    }

    /// Its place in [`Cluster::nodes`](super::Cluster::nodes).
    pub fn index(&self) -> usize {
        self.at
    }

    /// Returns its name for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Returns the dispatcher of all clients there. Clients that it is asked for directly are not
    /// counted when others are placed, and don't move.
    pub fn dispatcher(&self) -> &Dispatcher<D> {
        &self.dispatcher
    }

    /// Clients that are placed there.
    pub fn clients(&self) -> u32 {
        self.ledger.entry(self.at).clients
    }

    /// Bytes of its memory that clients and replicas have been promised.
    pub fn promised_bytes(&self) -> u64 {
        self.ledger.entry(self.at).bytes
    }

    /// Promises at most `bytes` of its memory from now on, whatever the device says that it has.
    pub fn limit_memory(&self, bytes: u64) {
        self.ledger.limit(self.at, bytes);
    }

    /// Returns the reason for which it is lost; `None` while it isn't, as far as is known.
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// Gives the device up: work that waits there ends with `why`, its clients move at their next
    /// request, and no other comes.
    pub fn mark_lost(&self, why: Error) {
        self.ledger.note_lost(self.at);
        let why = self.lost.get_or_init(|| why); // the first reason stays
        self.dispatcher.mark_lost(why);
    }

    /// Asks as [`ask`](Self::ask) does, on a thread of its own, and waits for the answer for a
    /// second at most. A device that gives none within ten seconds is lost, as by
    /// [`mark_lost`](Self::mark_lost); until then nothing more is asked.
    ///
    /// # Errors
    ///
    /// The reason for which it is lost.
    pub fn check(self: &Arc<Self>) -> Result<()> {
        if self.lost.get().is_none() {
            let (asked, judged) = (self.clone(), self.clone());
            self.prober.ask(move || asked.ask(), move |answer| judged.judge(answer));
        }
        self.lost.get().cloned().map_or(Ok(()), Err)
    }

    /// Asks the device for an empty round on a queue of its own, and the dispatcher whether it has
    /// given the device up and whether it has a place for one more client. If either fails, and not
    /// for want of memory, the device is lost, as by [`mark_lost`](Self::mark_lost). Of a device
    /// that hangs the answer never comes.
    ///
    /// # Errors
    ///
    /// The reason for which it is lost.
    pub fn ask(&self) -> Result<()> {
        if self.lost.get().is_none()
            && let Err(why) = self.probe()
        {
            self.mark_lost(why);
        }
        self.lost.get().cloned().map_or(Ok(()), Err)
    }

    /// Returns whether it is lost, judged by an answer.
    fn judge(&self, answer: Option<Result<()>>) -> bool {
        if answer.is_none() {
            let why = format!("no answer for {SILENCE_TIMEOUT:?}");
            self.mark_lost(Error::DeviceLost { backend: D::NAME, why });
        }
        self.lost.get().is_some()
    }

    /// Returns an error if it is lost. Any reason for which the dispatcher has given it up counts,
    /// of the device's own errors those that can mean a loss.
    fn probe(&self) -> Result<()> {
        self.dispatcher.lost().map_or(Ok(()), Err)?;
        let queue = || self.dispatcher.best_effort(ClientConfig::default()).map(drop);
        match probe(&self.device).and_then(|()| queue()) {
            Err(error) if may_mean_loss(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns whether the device is lost, after something on it has ended with `error`. May take a
    /// second.
    pub(super) fn is_lost_after(self: &Arc<Self>, error: &Error) -> bool {
        if may_mean_loss(error) || self.dispatcher.lost().is_some() {
            let _ = self.check();
        }
        self.lost.get().is_some()
    }

    /// Memory of the device for something that clients there share.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if it has not as much left.
    pub(super) fn take(&self, bytes: u64) -> Result<LedgerEntry> {
        let asked = bytes.try_into().unwrap_or(usize::MAX);
        self.ledger.take(self.at, bytes).ok_or(Error::OutOfMemory { backend: D::NAME, asked })
    }
}
