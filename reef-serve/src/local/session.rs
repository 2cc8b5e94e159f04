//! The daemon's side: a thread for each client, which is its instance.

use super::fd_passing::{POLL_INTERVAL, is_over, is_ready, receive, send};
use super::handshake::{CLIENT_HELLO_LEN, ClientHello, RELOADED, ServerHello, code};
use super::segment::{FIRST, Layout, Segment};
use crate::class::{Class, Priority};
use crate::config::rights::Over;
use crate::config::settings::Config;
use crate::engine::api::{Engine, Instance, Run};
use crate::error::{Error, Result};
use crate::models::budget::{Reservation, within};
use crate::models::loaded_model::{LoadedModel, is_sound};
use crate::net::access::Access;
use crate::net::admission::Permit;
use crate::net::clients::{ClientId, Permits, Protocol};
use crate::net::peer::Connected;
use crate::net::principal::Principal;
use crate::observe::tracer::InstanceId;
use crate::requests::job::{Phases, chunks};
use crate::server::Server;
use crate::tenants::tenant::{MemoryTaken, Tenant};
use reef::Account;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a client may take to say what it wants.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// Listens for clients of the local path.
#[derive(Debug)]
pub(crate) struct Local {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Local {
    /// Takes clients from a Unix socket.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub(crate) fn start(
        server: &Arc<Server>,
        listener: UnixListener,
        access: Access,
    ) -> Result<Self> {
        listener.set_nonblocking(true).map_err(|e| Error::system("O_NONBLOCK", e))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (server, stopped) = (server.clone(), stop.clone());
        let thread = thread::Builder::new().name("reef-local".into());
        let thread = thread.spawn(move || listen(&server, &listener, access, &stopped));
        let thread = thread.map_err(|e| Error::system("no thread for clients", e))?;
        Ok(Self { stop, thread })
    }

    /// Answers what is open and ends all clients. Blocks.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.join(); // a panic has already been printed
    }
}

fn listen(server: &Arc<Server>, listener: &UnixListener, access: Access, stop: &Arc<AtomicBool>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        threads.retain(|thread| !thread.is_finished());
        if !is_ready(listener, POLL_INTERVAL) {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(POLL_INTERVAL / 10); // it went again, or there are no more files
            continue;
        };
        let id = server.clients.number(Protocol::Local);
        match enter(server, &stream, access) {
            Ok(entered) => threads.extend(start_thread(server, stream, id, entered, stop)),
            Err(error) => refuse(&stream, id, error),
        }
    }
    for thread in threads {
        let _ = thread.join(); // a panic has already been printed
    }
}

/// Who has come, and its place: before there is a thread for it.
fn enter(server: &Server, stream: &UnixStream, access: Access) -> Result<(Principal, Permits)> {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    let uid = peer.map_err(|e| Error::system("SO_PEERCRED", e))?.uid.as_raw();
    access.admit(uid)?;
    let who = Principal::User(uid);
    let permits = server.clients.enter_local(&who)?;
    Ok((who, permits))
}

fn start_thread(
    server: &Arc<Server>,
    stream: UnixStream,
    id: ClientId,
    (who, permits): (Principal, Permits),
    stop: &Arc<AtomicBool>,
) -> std::io::Result<JoinHandle<()>> {
    let (server, stop) = (server.clone(), stop.clone());
    let thread = thread::Builder::new().name(format!("reef-client-{}", id.number));
    thread.spawn(move || {
        attend(&server, &stream, id, who, &stop);
        drop(permits); // after queue, memory and model
    })
}

/// The thread of one client.
fn attend(server: &Server, stream: &UnixStream, id: ClientId, who: Principal, stop: &AtomicBool) {
    let met = Session::handshake(server, stream, id, who, stop).and_then(|mut session| {
        tracing::info!(%id, model = %session.model.title(), class = %session.class, "client");
        session.serve().inspect(|()| session.say_why(server))
    });
    match met {
        Ok(()) => tracing::info!(%id, "client ended"),
        Err(error) => refuse(stream, id, error),
    }
}

fn refuse(stream: &UnixStream, id: ClientId, error: Error) {
    tracing::warn!(%id, %error, "client refused");
    let _ = send(stream, &ServerHello::Refused(error).to_bytes(), None); // it may be gone
}

/// A client that has come in.
struct Session<'a> {
    stream: &'a UnixStream,
    stop: &'a AtomicBool,
    id: ClientId,
    instance_id: InstanceId,
    class: Class,
    /// What its requests are charged to, if that is not its tenant's account.
    account: Option<Account>,
    tenant: Arc<Tenant>,
    engine: Arc<dyn Engine>,
    spin: Duration,
    max_time: Duration,
    /// Requests that were answered: the daemon's own cursor.
    answered: u32,
    /// As [`Class::EACH`]: that of its class, and if its requests can become best-effort, one for these.
    instances: [Option<Shared>; 2],
    model: Arc<LoadedModel>,
    segment: Segment,
    _memory: (Reservation, MemoryTaken),
    _stay: Option<Permit>,
    /// While this is there its claim holds.
    _connected: Connected,
}

/// Requests of a best-effort client before its memory is pinned for the device.
///
/// Pinning and unpinning hold locks of the driver that real-time work needs (docs/lab/nvidia.md): a client that
/// stays gains by it, one that comes for a few requests only delays others.
pub(crate) const PINNED_AFTER: u32 = 64;

/// An instance, and whether it takes tensors from the client's memory by itself.
struct Shared {
    instance: Box<dyn Instance>,
    direct: bool,
    requests: u32,
}

impl Shared {
    fn new(model: &LoadedModel, class: Class, tenant: &Tenant, segment: &Segment) -> Result<Self> {
        let instance = model.instance(class, tenant.grant().client())?;
        let mut shared = Self { instance, direct: false, requests: 0 };
        if class == Class::RealTime {
            shared.pin(segment)?;
        }
        Ok(shared)
    }

    fn pin(&mut self, segment: &Segment) -> Result<()> {
        self.direct = self.instance.share(segment.host_memory(), &segment.places())?;
        Ok(())
    }

    /// Counts a request. A best-effort client that has stayed for so many has its memory pinned.
    fn count(&mut self, class: Class, segment: &Segment) -> Result<()> {
        self.requests = self.requests.saturating_add(1);
        if class == Class::BestEffort && self.requests == PINNED_AFTER {
            self.pin(segment)?;
        }
        Ok(())
    }
}

impl<'a> Session<'a> {
    /// Hears what the client wants and gives it its memory.
    fn handshake(
        server: &Server,
        stream: &'a UnixStream,
        id: ClientId,
        who: Principal,
        stop: &'a AtomicBool,
    ) -> Result<Self> {
        let hello = receive_hello(stream)?;
        let tenant = server.tenants.of(&who);
        let name = hello.model.as_str();
        let config = server.config.get();
        let priority = tenant.priority(0, hello.class, config.models.class)?; // before a model is loaded for it
        let (life, connected) = Connected::new();
        let (priority, account) = match hello.rate {
            None => (priority, None),
            Some(rate) => {
                let now = server.engine.clock();
                server.tenants.claim(&tenant, &life, priority, rate, now)?
            }
        };
        let class = priority.class();
        // To load is a right of its own.
        let model = match config.models.on_demand && tenant.grant().control {
            true => server.registry.get_or_load(name)?,
            false => server.registry.get(name, "")?,
        };
        let stay = server.clients.stay_local(class)?;
        let layout = Layout {
            slots: config.limits.ring as u32,
            input: model.input.bytes(),
            output: model.output.bytes(),
        };
        let has_rate = hello.rate.is_some() || tenant.grant().rate.is_some();
        let demotes = has_rate && config.rt.over == Over::BestEffort;
        let has = |each| each == class || demotes;
        let count = Class::EACH.into_iter().filter(|&each| has(each)).count();
        let bytes = count as u64 * model.sizes.instance + layout.bytes() as u64;
        let what = format!("a client of {}", model.title());
        within(&what, bytes, config.memory.client_mib << 20)?;
        let taken = tenant.take_memory(bytes, most_memory(&config, &who))?;
        let memory = server.registry.budget().reserve(&what, bytes)?;
        let (segment, fd) = Segment::create(layout)?;
        let has_budget = hello.rate.is_some()
            && account.as_ref().map_or(class == Class::RealTime, |own| own.rate().is_some());
        let make =
            |each| has(each).then(|| Shared::new(&model, each, &tenant, &segment)).transpose();
        let instances = [make(Class::RealTime)?, make(Class::BestEffort)?];
        let accepted = ServerHello::Accepted { id: id.number, class, has_budget, layout };
        send(stream, &accepted.to_bytes(), Some(&fd))?;
        let instance_id =
            server.observer.tracer.instance(&format!("{} {class}, {id}", model.title()));
        let (spin, max_time) = (config.times.spin(), config.times.request());
        Ok(Self {
            stream,
            stop,
            id,
            instance_id,
            class,
            account,
            tenant,
            engine: server.engine.clone(),
            spin,
            max_time,
            answered: FIRST,
            instances,
            model,
            segment,
            _memory: (memory, taken),
            _stay: stay,
            _connected: connected,
        })
    }

    /// Answers requests in their order until the client goes, or has to.
    fn serve(&mut self) -> Result<()> {
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
    fn say_why(&self, server: &Server) {
        if !self.model.is_retired() {
            return;
        }
        let now = server.registry.get(self.model.spec.name.as_str(), "");
        let why = if now.is_ok() { RELOADED } else { "the model was unloaded" };
        let last = ServerHello::Refused(Error::Unavailable(why.into()));
        let _ = send(self.stream, &last.to_bytes(), None); // it may be gone
    }

    /// Whether the daemon ends, or the model.
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.model.is_retired()
    }

    /// Waits for a request, for a while. Returns whether the client is gone.
    fn rest(&self, seen: u32) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < self.spin {
            for _ in 0..64 {
                if self.segment.requests().cursor() != seen {
                    return false;
                }
                std::hint::spin_loop();
            }
        }
        self.segment.requests().sleep(seen, POLL_INTERVAL);
        self.segment.requests().cursor() == seen && self.is_gone()
    }

    fn account(&self) -> Account {
        self.account.clone().unwrap_or_else(|| self.tenant.account())
    }

    fn is_gone(&self) -> bool {
        is_over(self.stream)
    }

    fn answer(&mut self) {
        let n = self.answered;
        let (kind, timeout) = {
            let slot = self.segment.slot(n);
            (slot.kind.load(Ordering::Relaxed), slot.timeout.load(Ordering::Relaxed))
        };
        let mut phases = Phases::default();
        let how = match kind {
            0 => Ok(()),
            1 => self.infer(n, timeout, &mut phases),
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
        self.answered = n.wrapping_add(1);
        self.segment.answers().publish(self.answered);
    }

    fn infer(&mut self, n: u32, timeout: u64, phases: &mut Phases) -> Result<()> {
        let asked = Duration::from_micros(if timeout == 0 { u64::MAX } else { timeout });
        let asks = Priority::new(0, self.class);
        let admitted = self.tenant.admit(asks, &self.account(), self.engine.clock());
        let class = admitted
            .inspect_err(|error| self.model.note_answer(self.class, phases, Some(Err(error))))?
            .class();
        let made = || Shared::new(&self.model, class, &self.tenant, &self.segment);
        let how = match self.instances[class as usize].take().map_or_else(made, Ok) {
            Err(error) => Err(error),
            Ok(mut instance) => {
                let time = asked.min(self.max_time);
                let how = self.run(class, &mut instance, n, time, phases);
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
        let said = how.as_ref().map(drop);
        self.model.note_run(&self.instance_id, class, self.id, phases, said);
        self.model.note_answer(class, phases, Some(said));
        how
    }

    fn run(
        &self,
        class: Class,
        shared: &mut Shared,
        n: u32,
        time: Duration,
        phases: &mut Phases,
    ) -> Result<()> {
        shared.count(class, &self.segment)?;
        let Shared { instance, direct, .. } = shared;
        let layout = self.segment.layout();
        let (input, output) = (self.segment.input(n), self.segment.output(n));
        let began = Instant::now();
        if !*direct {
            chunks(layout.input, |at, chunk| {
                input.read(at, chunk);
                instance.write(at, chunk)
            })?;
            phases.input = began.elapsed();
        }
        let begin = Instant::now();
        let slot = direct.then_some((n % layout.slots) as usize);
        let gone = &|| began.elapsed() > time || self.is_gone();
        let account = &self.account();
        let ran = instance.run(Run { slot, time, gone, account });
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

/// What clients of `who` may take on the device: users who were let in leave room for others.
fn most_memory(config: &Config, who: &Principal) -> u64 {
    match (config.memory.total_mib << 20, who.is_owner()) {
        (0, _) | (_, true) => u64::MAX,
        (all, false) => config.limits.part(all),
    }
}

/// What a client wants.
fn receive_hello(stream: &UnixStream) -> Result<ClientHello> {
    let wrong = |e: &dyn std::fmt::Display| Error::system("socket", e);
    stream.set_nonblocking(false).map_err(|e| wrong(&e))?;
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(|e| wrong(&e))?;
    stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(|e| wrong(&e))?;
    let mut bytes = [0; CLIENT_HELLO_LEN];
    receive(stream, &mut bytes)?;
    ClientHello::from_bytes(&bytes)
}
