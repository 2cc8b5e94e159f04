//! The daemon's side: a thread for each client, which is its lane.

use super::fd_passing::{LOOK, is_over, is_ready, receive, send};
use super::handshake::{HELLO, Hello, Welcome, code};
use super::segment::{FIRST, Layout, Room};
use crate::class::Class;
use crate::engine::api::Lane;
use crate::error::{Error, Result};
use crate::models::budget::{Reservation, within};
use crate::models::loaded_model::{Served, is_sound};
use crate::net::clients::{ClientId, Way};
use crate::net::listener::{admit, bind};
use crate::observe::tracer::LaneId;
use crate::requests::job::{Phases, chunks};
use crate::server::Server;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a client may take to say what it wants.
const GREETING: Duration = Duration::from_secs(1);

/// Listens for clients of the local path.
#[derive(Debug)]
pub(crate) struct Local {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Local {
    /// Listens on a Unix socket that only its owner can open.
    ///
    /// # Errors
    ///
    /// As [`bind`].
    pub(crate) fn start(server: &Arc<Server>, path: &Path) -> Result<Self> {
        let listener = bind(path)?;
        listener.set_nonblocking(true).map_err(|e| Error::system("O_NONBLOCK", e))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (server, stopped) = (server.clone(), stop.clone());
        let thread = thread::Builder::new().name("reef-local".into());
        let thread = thread.spawn(move || listen(&server, &listener, &stopped));
        let thread = thread.map_err(|e| Error::system("no thread for clients", e))?;
        Ok(Self { stop, thread })
    }

    /// Answers what is open and ends all clients. Blocks.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.join(); // a panic has already been printed
    }
}

fn listen(server: &Arc<Server>, listener: &UnixListener, stop: &Arc<AtomicBool>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        threads.retain(|thread| !thread.is_finished());
        if !is_ready(listener, LOOK) {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(LOOK / 10); // it went again, or there are no more files
            continue;
        };
        let (server, stop, id) = (server.clone(), stop.clone(), server.clients.number(Way::Local));
        let thread = thread::Builder::new().name(format!("reef-client-{}", id.number));
        threads.extend(thread.spawn(move || attend(&server, &stream, id, &stop)));
    }
    for thread in threads {
        let _ = thread.join(); // a panic has already been printed
    }
}

/// The thread of one client.
fn attend(server: &Server, stream: &UnixStream, id: ClientId, stop: &AtomicBool) {
    let met = server.clients.enter(Way::Local).and_then(|ticket| {
        let mut session = Session::greet(server, stream, id, stop)?;
        tracing::info!(%id, model = %session.model.title(), class = %session.class, "client");
        let how = session.serve();
        drop(session); // queue, memory and model, before the place is free again
        drop(ticket);
        how
    });
    match met {
        Ok(()) => tracing::info!(%id, "client ended"),
        Err(error) => {
            tracing::warn!(%id, %error, "client refused");
            let _ = send(stream, &Welcome::Refused(error).to_bytes(), None); // it may be gone
        }
    }
}

/// A client that has come in.
struct Session<'a> {
    stream: &'a UnixStream,
    stop: &'a AtomicBool,
    id: ClientId,
    lane_id: LaneId,
    class: Class,
    spin: Duration,
    most: Duration,
    /// Requests that were answered: the daemon's own cursor.
    answered: u32,
    lane: Option<Shared>,
    model: Arc<Served>,
    room: Room,
    _memory: Reservation,
}

/// A lane, and whether it takes tensors from the client's memory by itself.
struct Shared {
    lane: Box<dyn Lane>,
    direct: bool,
}

impl Shared {
    fn new(model: &Served, class: Class, room: &Room) -> Result<Self> {
        let mut lane = model.lane(class)?;
        let direct = lane.share(room.host_memory(), &room.places())?;
        Ok(Self { lane, direct })
    }
}

impl<'a> Session<'a> {
    /// Hears what the client wants and gives it its memory.
    fn greet(
        server: &Server,
        stream: &'a UnixStream,
        id: ClientId,
        stop: &'a AtomicBool,
    ) -> Result<Self> {
        let hello = hear(stream)?;
        let name = hello.model.as_str();
        let config = &server.config;
        let model = match config.models.on_demand {
            true => server.catalogue.get_or_load(name)?,
            false => server.catalogue.get(name, "")?,
        };
        let class = hello.class.unwrap_or(config.models.class);
        let layout = Layout {
            slots: config.limits.ring as u32,
            input: model.input.bytes(),
            output: model.output.bytes(),
        };
        let bytes = model.sizes.instance + layout.bytes() as u64;
        let what = format!("a client of {}", model.title());
        within(&what, bytes, config.memory.client_mib << 20)?;
        let memory = server.catalogue.budget().reserve(&what, bytes)?;
        let (room, fd) = Room::create(layout)?;
        let lane = Some(Shared::new(&model, class, &room)?);
        let come = Welcome::Come { id: id.number, class, layout };
        send(stream, &come.to_bytes(), Some(&fd))?;
        let lane_id = server.watch.tracer.lane(&format!("{} {class}, {id}", model.title()));
        let (spin, most) = (config.times.spin(), config.times.request());
        Ok(Self {
            stream,
            stop,
            id,
            lane_id,
            class,
            spin,
            most,
            answered: FIRST,
            lane,
            model,
            room,
            _memory: memory,
        })
    }

    /// Answers requests in their order until the client goes, or has to.
    fn serve(&mut self) -> Result<()> {
        loop {
            let last = self.has_to_go(); // before the look: what came before is answered
            let submitted = self.room.requests().look();
            let open = submitted.wrapping_sub(self.answered);
            if open > self.room.layout().slots {
                return Err(Error::Invalid(format!("{open} requests in a smaller ring")));
            }
            (0..open).for_each(|_| self.answer());
            if last || (open == 0 && self.rest(submitted)) {
                return Ok(());
            }
        }
    }

    /// Whether the daemon ends, or the model.
    fn has_to_go(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.model.is_retired()
    }

    /// Waits for a request, for a while. Returns whether the client is gone.
    fn rest(&self, seen: u32) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < self.spin {
            for _ in 0..64 {
                if self.room.requests().look() != seen {
                    return false;
                }
                std::hint::spin_loop();
            }
        }
        self.room.requests().sleep(seen, LOOK);
        self.room.requests().look() == seen && self.is_gone()
    }

    fn is_gone(&self) -> bool {
        is_over(self.stream)
    }

    fn answer(&mut self) {
        let n = self.answered;
        let (kind, timeout) = {
            let slot = self.room.slot(n);
            (slot.kind.load(Ordering::Relaxed), slot.timeout.load(Ordering::Relaxed))
        };
        let mut phases = Phases::default();
        let how = match kind {
            0 => Ok(()),
            1 => self.infer(n, timeout, &mut phases),
            _ => Err(Error::Invalid(format!("request of kind {kind} (have: 0, 1)"))),
        };
        let slot = self.room.slot(n);
        if let Err(error) = &how {
            slot.set_text(error.text());
        }
        slot.code.store(how.as_ref().map_or_else(code, |()| 0), Ordering::Relaxed);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        slot.infer.store(nanos(phases.infer), Ordering::Relaxed);
        slot.delay.store(nanos(phases.delay.unwrap_or_default()), Ordering::Relaxed);
        self.answered = n.wrapping_add(1);
        self.room.answers().publish(self.answered);
    }

    fn infer(&mut self, n: u32, timeout: u64, phases: &mut Phases) -> Result<()> {
        let asked = Duration::from_micros(if timeout == 0 { u64::MAX } else { timeout });
        let made = || Shared::new(&self.model, self.class, &self.room);
        let how = match self.lane.take().map_or_else(made, Ok) {
            Err(error) => Err(error),
            Ok(mut lane) => {
                let time = asked.min(self.most);
                let how = self.run(&mut lane, n, time, phases);
                // Before it is said that time was over: the device still has what was given up.
                self.lane = is_sound(&how).then_some(lane);
                match how {
                    Err(Error::Unavailable(_)) | Ok(()) if phases.total() > time => {
                        Err(Error::Deadline(format!("timed out after {time:?}")))
                    }
                    how => how,
                }
            }
        };
        self.model.note(&self.lane_id, self.class, self.id, phases, how.as_ref().map(drop));
        how
    }

    fn run(&self, shared: &mut Shared, n: u32, time: Duration, phases: &mut Phases) -> Result<()> {
        let Shared { lane, direct } = shared;
        let layout = self.room.layout();
        let (input, output) = (self.room.input(n), self.room.output(n));
        let began = Instant::now();
        if !*direct {
            chunks(layout.input, |at, chunk| {
                input.read(at, chunk);
                lane.write(at, chunk)
            })?;
            phases.input = began.elapsed();
        }
        let begin = Instant::now();
        let slot = direct.then_some((n % layout.slots) as usize);
        let ran = lane.run(slot, Some(time), &|| began.elapsed() > time || self.is_gone());
        phases.infer = begin.elapsed();
        phases.delay = ran?;
        if *direct || phases.total() > time {
            return Ok(());
        }
        let begin = Instant::now();
        chunks(layout.output, |at, chunk| {
            lane.read(at, chunk)?;
            output.write(at, chunk);
            Ok(())
        })?;
        phases.output = begin.elapsed();
        Ok(())
    }
}

/// What a client wants, once it is known to be one of ours.
fn hear(stream: &UnixStream) -> Result<Hello> {
    let wrong = |e: &dyn std::fmt::Display| Error::system("socket", e);
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(|e| wrong(&e))?;
    admit(peer.uid.as_raw())?;
    stream.set_nonblocking(false).map_err(|e| wrong(&e))?;
    stream.set_read_timeout(Some(GREETING)).map_err(|e| wrong(&e))?;
    stream.set_write_timeout(Some(GREETING)).map_err(|e| wrong(&e))?;
    let mut bytes = [0; HELLO];
    receive(stream, &mut bytes)?;
    Hello::from_bytes(&bytes)
}
