//! Session of an accepted client: its requests, one after the other.

use super::instance::ClientInstance;
use super::predict::EndPrediction;
use crate::class::{Class, Priority};
use crate::engine::api::{EarlyNotice, Run};
use crate::engine::node::LoadGuard;
use crate::engine::shared::SharedParts;
use crate::error::{Error, Result};
use crate::local::clock;
use crate::local::fd_passing::{POLL_INTERVAL, is_over, send};
use crate::local::handshake::{RELOADED, ServerHello, code};
use crate::local::segment::Segment;
use crate::local::slot::Slot;
use crate::models::budget::Reservation;
use crate::models::loaded_model::{LoadedModel, is_sound};
use crate::models::shaped::on_demand::Stay;
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::ConnectionGuard;
use crate::net::quota::admission::Permit;
use crate::observe::tracer::InstanceId;
use crate::requests::job::{Phases, chunks};
use crate::server::Server;
use crate::tenants::tenant::{MemoryReservation, Tenant};
use reef::Account;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Session of an accepted client.
pub(super) struct Session<'a> {
    pub(super) stream: &'a UnixStream,
    pub(super) stop: &'a AtomicBool,
    pub(super) id: ClientId,
    pub(super) instance_id: InstanceId,
    pub(super) class: Class,
    /// Account of its requests, if it is not its tenant's.
    pub(super) account: Option<Account>,
    pub(super) tenant: Arc<Tenant>,
    pub(super) spin: Duration,
    pub(super) max_time: Duration,
    /// Number of answered requests: the daemon's own cursor.
    pub(super) answered: u32,
    /// One for each of [`Class::ALL`]: that of its class and, if its requests can become
    /// best-effort, one for these.
    pub(super) instances: [Option<ClientInstance>; 2],
    /// Prediction for real-time inferences.
    pub(super) prediction: EndPrediction,
    pub(super) model: Arc<LoadedModel>,
    pub(super) segment: Segment,
    pub(super) _memory: ([Reservation; 2], MemoryReservation),
    pub(super) _stay: Option<Permit>,
    /// Keeps a model on its device that is there on demand.
    pub(super) _resident: Option<Stay>,
    /// Counts as load of its device.
    pub(super) _load: LoadGuard,
    /// Keeps its claim.
    pub(super) _connected: ConnectionGuard,
}

impl Session<'_> {
    /// Answers requests in their order until the client disconnects, or the session must end.
    pub(super) fn serve(&mut self) -> Result<()> {
        loop {
            let is_last = self.is_ending(); // read first: what was submitted before is answered
            let submitted = self.segment.requests().cursor();
            let open = submitted.wrapping_sub(self.answered);
            if open > self.segment.layout().slots {
                return Err(Error::Invalid(format!(
                    "open requests must be at most {}, got {open}",
                    self.segment.layout().slots
                )));
            }
            (0..open).for_each(|_| self.answer());
            if is_last || (open == 0 && self.wait(submitted)) {
                return Ok(());
            }
        }
    }

    /// Tells a client of a retired model the reason.
    pub(super) fn send_reason(&self, server: &Server) {
        if !self.model.is_retired() {
            return;
        }
        let why = match server.registry.get(self.model.spec.name.as_str(), "") {
            Ok(_) => Error::Unavailable(RELOADED.into()),
            Err(why @ Error::Unavailable(_)) => why, // its device is lost
            Err(_) => Error::Unavailable("the model was unloaded".into()),
        };
        let last = ServerHello::Refused(why);
        let _ = send(self.stream, &last.to_bytes(), None); // it may be gone
    }

    /// True if the daemon or the model ends.
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.model.is_retired()
    }

    /// Waits for a request for a bounded time. Returns whether the client is gone.
    fn wait(&self, seen: u32) -> bool {
        !self.segment.requests().wait(seen, self.spin, POLL_INTERVAL) && self.is_gone()
    }

    fn account(&self) -> Account {
        self.account.clone().unwrap_or_else(|| self.tenant.account(self.model.node().index))
    }

    fn is_gone(&self) -> bool {
        is_over(self.stream)
    }

    fn answer(&mut self) {
        let n = self.answered;
        let began = clock::now();
        let SlotRequest { kind, buffer, timeout } = SlotRequest::read(self.segment.slot(n));
        let slots = self.segment.layout().slots;
        let mut phases = Phases::default();
        let result = match kind {
            0 => Ok(()),
            1 if buffer < slots => self.infer(buffer, timeout, &mut phases),
            1 => Err(Error::Invalid(format!("tensor buffer must be below {slots}, got {buffer}"))),
            _ => Err(Error::Invalid(format!("request of kind {kind} (have: 0, 1)"))),
        };
        let slot = self.segment.slot(n);
        if let Err(error) = &result {
            slot.set_text(error.text());
        }
        slot.code.store(result.as_ref().map_or_else(code, |()| 0), Ordering::Relaxed);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        slot.infer.store(nanos(phases.infer), Ordering::Relaxed);
        slot.delay.store(nanos(phases.delay.unwrap_or_default()), Ordering::Relaxed);
        slot.began.store(began, Ordering::Relaxed);
        slot.answered.store(clock::now(), Ordering::Relaxed);
        self.answered = n.wrapping_add(1);
        self.segment.answers().publish(self.answered);
    }

    fn infer(&mut self, buffer: u32, timeout: u64, phases: &mut Phases) -> Result<()> {
        let requested = Duration::from_micros(if timeout == 0 { u64::MAX } else { timeout });
        let priority = Priority::new(0, self.class);
        let now = self.model.node().clock();
        let admitted = self.tenant.admit(priority, &self.account(), now, true);
        let class = admitted
            .inspect_err(|error| self.model.note_answer(self.class, phases, Some(Err(error))))?
            .class();
        let made = || ClientInstance::new(&self.model, class, &self.tenant, &self.segment);
        let result = match self.instances[class as usize].take().map_or_else(made, Ok) {
            Err(error) => Err(error),
            Ok(mut instance) => {
                let time = requested.min(self.max_time);
                let result = self.run(class, &mut instance, buffer, time, phases);
                if class == Class::RealTime && result.is_ok() {
                    self.prediction.note(phases.infer);
                }
                // Before a timeout is reported, because the device still has the abandoned work.
                self.instances[class as usize] = is_sound(&result).then_some(instance);
                match result {
                    Err(Error::Unavailable(_)) | Ok(()) if phases.total() > time => {
                        Err(Error::Deadline(format!("timed out after {time:?}")))
                    }
                    result => result,
                }
            }
        };
        let result = result.map_err(|error| self.model.node().diagnose(error));
        let outcome = result.as_ref().map(drop);
        self.model.note_run(&self.instance_id, class, self.id, phases, outcome);
        self.model.note_answer(class, phases, Some(outcome));
        result
    }

    fn run(
        &self,
        class: Class,
        shared: &mut ClientInstance,
        buffer: u32,
        time: Duration,
        phases: &mut Phases,
    ) -> Result<()> {
        shared.count(class, &self.segment)?;
        let ClientInstance { instance, is_direct, .. } = shared;
        let layout = self.segment.layout();
        let (input, output) = (self.segment.input(buffer), self.segment.output(buffer));
        let began = Instant::now();
        if !*is_direct {
            chunks(layout.input, |at, chunk| {
                input.read(at, chunk);
                instance.write(at, chunk)
            })?;
            phases.input = began.elapsed();
        }
        let begin = Instant::now();
        let slot = is_direct.then_some(buffer as usize);
        let gone = &|| began.elapsed() > time || self.is_gone();
        let account = &self.account();
        let tell = &|| self.segment.answers().wake_early();
        let notice = self.prediction.wake_after().map(|after| EarlyNotice { after, tell });
        let shared = SharedParts::default();
        let ran = instance.run(Run { slot, shared, time, gone, account, notice });
        phases.infer = begin.elapsed();
        let ran = ran?;
        phases.delay = ran.delay;
        self.tenant.charge(class, ran.device, phases.infer);
        if *is_direct || phases.total() > time {
            return Ok(());
        }
        let begin = Instant::now();
        chunks(layout.output, |at, chunk| {
            instance.read(at, chunk)?;
            output.write(at, chunk);
            Ok(())
        })?;
        phases.output = begin.elapsed();
        Ok(())
    }
}

/// Request of a client: read once, because it may change at any time.
struct SlotRequest {
    kind: u32,
    buffer: u32,
    /// Timeout in microseconds; 0 is none.
    timeout: u64,
}

impl SlotRequest {
    fn read(slot: &Slot) -> Self {
        let (kind, buffer) =
            (slot.kind.load(Ordering::Relaxed), slot.buffer.load(Ordering::Relaxed));
        Self { kind, buffer, timeout: slot.timeout.load(Ordering::Relaxed) }
    }
}
