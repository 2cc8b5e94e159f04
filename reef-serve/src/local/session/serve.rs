//! A client that has come in: its requests, one after the other.

use super::instance::Shared;
use super::predict::Expected;
use crate::class::{Class, Priority};
use crate::engine::api::{Run, Soon};
use crate::engine::node::Entered;
use crate::engine::shared::SharedParts;
use crate::error::{Error, Result};
use crate::local::clock;
use crate::local::fd_passing::{POLL_INTERVAL, is_over, send};
use crate::local::handshake::{RELOADED, ServerHello, code};
use crate::local::segment::Segment;
use crate::local::slot::Slot;
use crate::models::budget::Reservation;
use crate::models::loaded_model::{LoadedModel, is_sound};
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::Connected;
use crate::net::quota::admission::Permit;
use crate::observe::tracer::InstanceId;
use crate::requests::job::{Phases, chunks};
use crate::server::Server;
use crate::tenants::tenant::{MemoryTaken, Tenant};
use reef::Account;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A client that has come in.
pub(super) struct Session<'a> {
    pub(super) stream: &'a UnixStream,
    pub(super) stop: &'a AtomicBool,
    pub(super) id: ClientId,
    pub(super) instance_id: InstanceId,
    pub(super) class: Class,
    /// What its requests are charged to, if that is not its tenant's account.
    pub(super) account: Option<Account>,
    pub(super) tenant: Arc<Tenant>,
    pub(super) spin: Duration,
    pub(super) max_time: Duration,
    /// Requests that were answered: the daemon's own cursor.
    pub(super) answered: u32,
    /// As [`Class::EACH`]: that of its class, and if its requests can become best-effort, one for
    /// these.
    pub(super) instances: [Option<Shared>; 2],
    /// Of real-time inferences.
    pub(super) expected: Expected,
    pub(super) model: Arc<LoadedModel>,
    pub(super) segment: Segment,
    pub(super) _memory: ([Reservation; 2], MemoryTaken),
    pub(super) _stay: Option<Permit>,
    /// It is load of its device.
    pub(super) _entered: Entered,
    /// While this is there its claim holds.
    pub(super) _connected: Connected,
}

impl Session<'_> {
    /// Answers requests in their order until the client goes, or has to.
    pub(super) fn serve(&mut self) -> Result<()> {
        loop {
            let last = self.is_ending(); // read first: what was submitted before is answered
            let submitted = self.segment.requests().cursor();
            let open = submitted.wrapping_sub(self.answered);
            if open > self.segment.layout().slots {
                return Err(Error::Invalid(format!("{open} requests in a smaller ring")));
            }
            (0..open).for_each(|_| self.answer());
            if last || (open == 0 && self.rest(submitted)) {
                return Ok(());
            }
        }
    }

    /// Tells a client whose model went what became of it.
    pub(super) fn say_why(&self, server: &Server) {
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

    /// Whether the daemon ends, or the model.
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.model.is_retired()
    }

    /// Waits for a request, for a while. Returns whether the client is gone.
    fn rest(&self, seen: u32) -> bool {
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
        let Asked { kind, place, timeout } = Asked::read(self.segment.slot(n));
        let slots = self.segment.layout().slots;
        let mut phases = Phases::default();
        let how = match kind {
            0 => Ok(()),
            1 if place < slots => self.infer(place, timeout, &mut phases),
            1 => Err(Error::Invalid(format!("tensors at place {place} of {slots}"))),
            _ => Err(Error::Invalid(format!("request of kind {kind} (have: 0, 1)"))),
        };
        let slot = self.segment.slot(n);
        if let Err(error) = &how {
            slot.set_text(error.text());
        }
        slot.code.store(how.as_ref().map_or_else(code, |()| 0), Ordering::Relaxed);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        slot.infer.store(nanos(phases.infer), Ordering::Relaxed);
        slot.delay.store(nanos(phases.delay.unwrap_or_default()), Ordering::Relaxed);
        slot.began.store(began, Ordering::Relaxed);
        slot.answered.store(clock::now(), Ordering::Relaxed);
        self.answered = n.wrapping_add(1);
        self.segment.answers().publish(self.answered);
    }

    fn infer(&mut self, place: u32, timeout: u64, phases: &mut Phases) -> Result<()> {
        let asked = Duration::from_micros(if timeout == 0 { u64::MAX } else { timeout });
        let asks = Priority::new(0, self.class);
        let admitted = self.tenant.admit(asks, &self.account(), self.model.node().clock());
        let class = admitted
            .inspect_err(|error| self.model.note_answer(self.class, phases, Some(Err(error))))?
            .class();
        let made = || Shared::new(&self.model, class, &self.tenant, &self.segment);
        let how = match self.instances[class as usize].take().map_or_else(made, Ok) {
            Err(error) => Err(error),
            Ok(mut instance) => {
                let time = asked.min(self.max_time);
                let how = self.run(class, &mut instance, place, time, phases);
                if class == Class::RealTime && how.is_ok() {
                    self.expected.note(phases.infer);
                }
                // Before it is said that time was over: the device still has what was given up.
                self.instances[class as usize] = is_sound(&how).then_some(instance);
                match how {
                    Err(Error::Unavailable(_)) | Ok(()) if phases.total() > time => {
                        Err(Error::Deadline(format!("timed out after {time:?}")))
                    }
                    how => how,
                }
            }
        };
        let how = how.map_err(|error| self.model.node().told(error));
        let said = how.as_ref().map(drop);
        self.model.note_run(&self.instance_id, class, self.id, phases, said);
        self.model.note_answer(class, phases, Some(said));
        how
    }

    fn run(
        &self,
        class: Class,
        shared: &mut Shared,
        place: u32,
        time: Duration,
        phases: &mut Phases,
    ) -> Result<()> {
        shared.count(class, &self.segment)?;
        let Shared { instance, direct, .. } = shared;
        let layout = self.segment.layout();
        let (input, output) = (self.segment.input(place), self.segment.output(place));
        let began = Instant::now();
        if !*direct {
            chunks(layout.input, |at, chunk| {
                input.read(at, chunk);
                instance.write(at, chunk)
            })?;
            phases.input = began.elapsed();
        }
        let begin = Instant::now();
        let slot = direct.then_some(place as usize);
        let gone = &|| began.elapsed() > time || self.is_gone();
        let account = &self.account();
        let rouse = &|| self.segment.answers().rouse();
        let soon = self.expected.rouse_after().map(|after| Soon { after, tell: rouse });
        let shared = SharedParts::default();
        let ran = instance.run(Run { slot, shared, time, gone, account, soon });
        phases.infer = begin.elapsed();
        let ran = ran?;
        phases.delay = ran.delay;
        self.tenant.charge(class, ran.device, phases.infer);
        if *direct || phases.total() > time {
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

/// What a client asks for: read once, as it may change at any time.
struct Asked {
    kind: u32,
    place: u32,
    /// Microseconds; 0 is none.
    timeout: u64,
}

impl Asked {
    fn read(slot: &Slot) -> Self {
        let (kind, place) = (slot.kind.load(Ordering::Relaxed), slot.place.load(Ordering::Relaxed));
        Self { kind, place, timeout: slot.timeout.load(Ordering::Relaxed) }
    }
}
