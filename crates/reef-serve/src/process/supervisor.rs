//! Supervisor of a process: one instance of a model, whose process is started again when it ends.
//!
//! ```text
//! Loading ──► Idle ◄──► Busy      a thread starts the process and waits for its end
//!    ▲          │         │
//!    └── Down ◄─┴─────────┘       Down ──► Ended once no process shall follow
//! ```

use super::batch::BatchEnd;
use super::connection::{Bounds, Broken, Connection, Identity, Tensors, process_ended, to_json};
use super::frame::Frame;
use super::message::{PROTOCOL, ToProcess, hex};
use super::patience::LoadTime;
use super::settings::{Demand, Program};
use super::start::output;
use super::start::spawn::{Ends, Started, spawn};
use super::start::warm::{Found, Note, WarmFolder, WarmStart};
use crate::engine::call::{Call, CallOutput};
use crate::error::{Error, Result};
use crate::residency::facts::{Facts, ProcessName, StartKind};
use crate::residency::residents::{Refusal, Resident, ResidentUse, Residents, no_room};
use crate::suspend::suspensions::Suspensions;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use reef_suspend::store::Store;
use reef_suspend::{Streams, Uuid};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pauses before a start: after the first failure, and at most. Each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Number of processes that the daemon has started so far.
static PROCESSES: AtomicU64 = AtomicU64::new(0);

/// Number of failures in a row after which requests are refused instead of waiting for a start.
const MAX_FAILURES: u32 = 3;

/// Time that a process has after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which a waiting request looks at its client.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Purpose of a process: its program, and the facts that it is told.
#[derive(Debug, Clone)]
pub(super) struct Role {
    pub(super) program: Program,
    pub(super) model: String,
    pub(super) version: u32,
    pub(super) class: &'static str,
    pub(super) instance: usize,
    pub(super) device: String,
    /// Maximum bytes of an answer.
    pub(super) max_bytes: u64,
    /// Maximum size of a batch; 1: requests come alone.
    pub(super) max_batch: usize,
    /// Set if its process is on the GPU on demand.
    pub(super) residents: Option<Arc<Residents>>,
    /// Set if its process may be a guest, which operators suspend.
    pub(super) suspensions: Option<Arc<Suspensions>>,
    /// Identity of its device, if that is a GPU.
    pub(super) gpu: Option<Uuid>,
    /// Folders from which processes on demand start.
    pub(super) checkpoints: Option<Arc<Store>>,
}

/// One instance of a model.
#[derive(Debug)]
pub(super) struct Supervisor {
    role: Role,
    title: Arc<str>,
    resident: Option<Resident>,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug)]
enum Phase {
    Loading,
    Idle(Connection),
    Busy,
    /// Without a process.
    Down,
    /// Finally without one.
    Ended,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    pid: Option<Pid>,
    /// The daemon's end of the conversation once more.
    socket: Option<UnixStream>,
    /// Number of the last process among those of the daemon.
    generation: u64,
    /// Failures in a row.
    failures: u32,
    /// The last failure.
    why: Option<Error>,
    /// Reason for which the process was killed, until its end is noted.
    killed: Option<Error>,
    tensors: Option<Arc<Tensors>>,
    /// First message of the process, if it was started from its program.
    ready: Option<String>,
    /// True if the process has answered a request.
    has_answered: bool,
    /// True if no other process is started.
    is_closed: bool,
    /// Set if the process shall end.
    ending: Option<Instant>,
}

impl Role {
    /// True if its program may open clients' device memory. The driver suspends no process with
    /// memory of another one, so a program on demand may not.
    pub(super) fn has_device_memory(&self) -> bool {
        self.device.starts_with("cuda:") && self.residents.is_none()
    }

    /// Adds its process to those that are on the GPU on demand, if it is one of them.
    fn resident(&self, title: &Arc<str>) -> Result<Option<Resident>> {
        let wishes = self.program.demand().zip(self.residents.as_ref());
        let Some((demand, residents)) = wishes else { return Ok(None) };
        let class = crate::class::parse(self.class)?;
        let (version, instance) = (self.version, self.instance);
        let (model, device) = (self.model.clone(), self.device.clone());
        let name = ProcessName { model, version, class, instance, device };
        let (title, Demand { idle, limit }, device) = (title.clone(), demand, self.gpu);
        residents.add(Facts { name, title, idle, limit, device }).map(Some)
    }
}

impl Supervisor {
    /// Starts the first process, without waiting until it is ready.
    ///
    /// # Errors
    ///
    /// `Failed` if there is no thread for it.
    pub(super) fn start(role: Role) -> Result<Arc<Self>> {
        let title: Arc<str> =
            format!("{}/{} {} {}", role.model, role.version, role.class, role.instance).into();
        let resident = role.resident(&title)?;
        let state = State {
            phase: Phase::Down,
            pid: None,
            socket: None,
            generation: 0,
            failures: 0,
            why: None,
            killed: None,
            tensors: None,
            ready: None,
            has_answered: false,
            is_closed: false,
            ending: None,
        };
        let (state, change) = (Mutex::new(state), Condvar::new());
        let supervisor = Arc::new(Self { role, title, resident, state, change });
        let own = supervisor.clone();
        let thread =
            thread::Builder::new().name("reef-process".into()).spawn(move || own.supervise());
        thread.map_err(|e| Error::system("cannot start a thread for a process", e))?;
        Ok(supervisor)
    }

    /// Waits until the first process is ready, or has failed. Returns its tensors.
    ///
    /// # Errors
    ///
    /// The failure; `Unavailable` if `is_closing`.
    pub(super) fn ready(&self, is_closing: &dyn Fn() -> bool) -> Result<Arc<Tensors>> {
        let mut state = self.state.lock();
        loop {
            match (&state.tensors, &state.why) {
                (Some(tensors), _) => return Ok(tensors.clone()),
                (None, Some(why)) => return Err(why.clone()),
                (None, None) if is_closing() => return Err(unloading()),
                (None, None) => {
                    self.change.wait_for(&mut state, POLL_INTERVAL);
                }
            }
        }
    }

    /// True if its program reads inputs in clients' shared memory by itself.
    pub(super) fn reads_files(&self) -> bool {
        self.state.lock().tensors.as_ref().is_some_and(|tensors| tensors.files)
    }

    /// Runs a request once the process is ready.
    ///
    /// # Errors
    ///
    /// Errors of the program; `Deadline`; `Unavailable` if the process ends, or cannot be started.
    pub(super) fn call(&self, call: Call<'_>) -> Result<Vec<CallOutput>> {
        let deadline = Instant::now() + call.time;
        let _resident = self.enter(call.time, call.gone)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (mut connection, tensors) = self.take(&[call], left, call.gone)?;
            let time = deadline.saturating_duration_since(Instant::now());
            let is_held = &|| self.is_held();
            match connection.exchange(&Call { time, is_held, ..call }, &tensors) {
                Ok(answer) => {
                    self.give(connection);
                    return answer;
                }
                Err(Broken::Before) => self.discard(connection, &unasked()),
                Err(Broken::During(error)) => {
                    self.discard(connection, &error);
                    return Err(error);
                }
            }
        }
    }

    /// Runs requests together once the process is ready. Returns the result of each: errors are
    /// those of [`call`](Self::call).
    pub(super) fn call_all(&self, calls: &[Call<'_>]) -> Vec<Result<Vec<CallOutput>>> {
        let begun = Instant::now();
        let gone = || calls.iter().all(|call| (call.gone)());
        let longest = calls.iter().map(|call| call.time).max().unwrap_or_default();
        let entered = self.enter(longest, &gone);
        if let Err(error) = &entered {
            return calls.iter().map(|_| Err(error.clone())).collect();
        }
        loop {
            let taken = self.take(calls, longest.saturating_sub(begun.elapsed()), &gone);
            let (mut connection, tensors) = match taken {
                Ok(taken) => taken,
                Err(error) => return calls.iter().map(|_| Err(error.clone())).collect(),
            };
            let waited = begun.elapsed();
            let (is_held, left) =
                (&|| self.is_held(), |call: &Call<'_>| call.time.saturating_sub(waited));
            let now = calls.iter().map(|call| Call { time: left(call), is_held, ..*call });
            let now: Vec<Call<'_>> = now.collect();
            match connection.exchange_all(&now, &tensors) {
                None => self.discard(connection, &unasked()),
                Some(BatchEnd { results, broken }) => {
                    match broken {
                        None => self.give(connection),
                        Some(error) => self.discard(connection, &error),
                    }
                    return results;
                }
            }
        }
    }

    /// Has the process on the GPU until the result is dropped, if it is there on demand.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it does not return within `time`, or is kept away.
    fn enter(&self, time: Duration, gone: &dyn Fn() -> bool) -> Result<Option<ResidentUse<'_>>> {
        let Some(resident) = &self.resident else { return Ok(None) };
        match resident.enter(time, gone) {
            Ok(entered) => Ok(Some(entered)),
            Err(Refusal::Away(error)) => Err(error),
            Err(Refusal::Lost(error)) => {
                let mut state = self.state.lock();
                tracing::warn!(model = %self.title, why = %error, "the process is killed");
                state.killed = Some(error.clone());
                state.signal(Signal::KILL);
                Err(error)
            }
        }
    }

    /// True if its process has left the GPU, moves, or waits for room there to start.
    pub(super) fn is_off(&self) -> bool {
        let is_off = |resident: &Resident| resident.is_off() || resident.waits_for_start();
        self.resident.as_ref().is_some_and(is_off)
    }

    /// True while its process is suspended by another's will, and cannot react. A model that ends
    /// does not wait for it.
    fn is_held(&self) -> bool {
        let state = self.state.lock();
        let of = self.role.suspensions.as_ref().zip(state.pid);
        !state.is_closed && of.is_some_and(|(all, pid)| all.is_held(number(Some(pid))))
    }

    fn forget_suspension(&self, pid: Option<Pid>) {
        self.role.suspensions.iter().for_each(|all| all.forget(number(pid)));
    }

    /// True if another process waits for the room that its one has on the GPU.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.resident.as_ref().is_some_and(Resident::must_leave)
    }

    /// Takes the connection of a ready process, unless all `calls` need the state of a process that
    /// has ended.
    fn take(
        &self,
        calls: &[Call<'_>],
        time: Duration,
        gone: &dyn Fn() -> bool,
    ) -> Result<(Connection, Arc<Tensors>)> {
        let begun = Instant::now();
        let mut state = self.state.lock();
        loop {
            if !calls.is_empty() && calls.iter().all(|call| state.has_lost(call)) {
                return Err(process_ended());
            }
            let tensors = state.tensors.clone();
            match (std::mem::replace(&mut state.phase, Phase::Busy), tensors) {
                (Phase::Idle(connection), Some(tensors)) => return Ok((connection, tensors)),
                (other, _) => state.phase = other,
            }
            if state.is_closed {
                return Err(unloading());
            }
            if let Some(why) = state.why.as_ref().filter(|_| state.failures >= MAX_FAILURES) {
                return Err(Error::Unavailable(format!(
                    "the model's process does not start: {why}"
                )));
            }
            if begun.elapsed() >= time || gone() {
                let text = format!("timed out after {time:?} while the model's process starts");
                return Err(if self.is_off() { no_room() } else { Error::Deadline(text) });
            }
            self.change.wait_for(&mut state, POLL_INTERVAL);
        }
    }

    /// Takes back the connection after an answer.
    fn give(&self, connection: Connection) {
        let mut state = self.state.lock();
        if state.generation != connection.generation || !matches!(state.phase, Phase::Busy) {
            return; // it has ended meanwhile
        }
        (state.failures, state.has_answered) = (0, true);
        state.phase = Phase::Idle(connection);
        if state.ending.is_some() {
            state.hang_up();
        }
    }

    /// Kills the process of a broken connection.
    fn discard(&self, connection: Connection, why: &Error) {
        let mut state = self.state.lock();
        // Else its end has been noted, and the supervisor may have ended.
        if state.generation == connection.generation && matches!(state.phase, Phase::Busy) {
            tracing::warn!(model = %self.title, %why, "the process is killed");
            state.killed = Some(why.clone());
            state.signal(Signal::KILL);
            state.phase = Phase::Down;
        }
    }

    /// Starts no process any more. One that is ready goes on.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        if matches!(state.phase, Phase::Loading) {
            state.signal(Signal::KILL);
        }
        self.change.notify_all();
    }

    /// Has the process end, without waiting for it.
    pub(super) fn begin_end(&self) {
        self.close();
        let is_away = self.resident.as_ref().is_some_and(Resident::is_away);
        let mut state = self.state.lock();
        state.ending.get_or_insert_with(Instant::now);
        state.hang_up();
        if is_away {
            state.signal(Signal::KILL); // its calls of the driver would wait for ever
        }
        self.change.notify_all();
    }

    /// Waits for the end of the process: it is killed if it does not end by itself.
    pub(super) fn end(&self) {
        self.begin_end();
        let stop = self.role.program.stop_timeout();
        for (after, signal) in [(stop, Signal::TERM), (stop + TERM_TIMEOUT, Signal::KILL)] {
            let mut state = self.state.lock();
            let since = state.ending.unwrap_or_else(Instant::now);
            while !matches!(state.phase, Phase::Ended) {
                if self.change.wait_until(&mut state, since + after).timed_out() {
                    state.signal(signal);
                    break;
                }
            }
        }
        let mut state = self.state.lock();
        while !matches!(state.phase, Phase::Ended) {
            self.change.wait(&mut state);
        }
    }

    /// Loop of the thread that has the processes.
    fn supervise(&self) {
        while self.may_start() {
            let why = match self.run() {
                Ok(why) => why,
                Err(error) => error,
            };
            self.resident.iter().for_each(Resident::note_end);
            let mut state = self.state.lock();
            let why = state.with_reason(why);
            state.phase = Phase::Down;
            state.failures += 1;
            state.why = Some(why.clone());
            if !state.is_closed {
                let pause = pause(state.failures);
                tracing::warn!(model = %self.title, %why, ?pause, "the process is started again");
            }
            self.change.notify_all();
        }
        self.state.lock().phase = Phase::Ended;
        self.change.notify_all();
    }

    /// Waits for the pause after failures. Returns `false` if no process shall follow.
    fn may_start(&self) -> bool {
        let mut state = self.state.lock();
        let until = Instant::now() + pause(state.failures);
        while !state.is_closed && Instant::now() < until {
            self.change.wait_until(&mut state, until);
        }
        if state.is_closed {
            return false;
        }
        state.phase = Phase::Loading;
        state.generation = 1 + PROCESSES.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Runs one process until its end. Returns the reason for the end.
    fn run(&self) -> Result<Error> {
        let begun = Instant::now();
        let checkpoint = self.checkpoint();
        let is_over = || self.state.lock().is_closed;
        let find = |checkpoint: &WarmFolder| checkpoint.find(&self.title, &is_over);
        let found = checkpoint.as_ref().and_then(find);
        let reading = begun.elapsed();
        if is_over() {
            return Err(unloading());
        }
        if let Some(resident) = &self.resident {
            let timeout = self.role.program.load_timeout();
            match found.as_ref().map(Found::held).filter(|held| !held.is_empty()) {
                Some(held) => resident.wait_for(held, timeout, &is_over)?,
                None => resident.wait_for_room(timeout, &is_over)?,
            }
        }
        self.role.program.check_folder()?;
        if let Some((checkpoint, found)) = checkpoint.as_ref().zip(found) {
            match self.run_warm(checkpoint, found, reading) {
                Ok(why) => return Ok(why),
                Err(why) => {
                    tracing::warn!(model = %self.title, %why, "the program starts anew");
                }
            }
        }
        self.run_cold(checkpoint.as_ref())
    }

    /// Runs a process from its program, and writes it to the folder of `checkpoint`.
    fn run_cold(&self, checkpoint: Option<&WarmFolder>) -> Result<Error> {
        let begun = Instant::now();
        let ends = Ends::new()?;
        let streams = ends.streams()?;
        let Ends { ours, output, theirs } = ends;
        let (end, ended) = io::pipe().map_err(|e| Error::system("a pipe", e))?;
        let command = self.command();
        let name = command.get_program().to_string_lossy().into_owned();
        let started = spawn(command, theirs);
        let started =
            started.map_err(|e| Error::Invalid(format!("process.command: {name}: {e}")))?;
        let generation = self.note_process(started.pid());
        output::log(self.title.clone(), number(started.pid()), output, end);
        let failed = self.open(ours, generation, begun).err();
        if failed.is_some() {
            self.state.lock().signal(Signal::KILL);
        }
        let status = match checkpoint.filter(|one| failed.is_none() && !one.is_taken()) {
            None => self.wait(started),
            Some(checkpoint) => thread::scope(|scope| {
                let write = move || self.write(checkpoint, streams, generation);
                let writer = thread::Builder::new().name("reef-checkpoint".into());
                if let Err(why) = writer.spawn_scoped(scope, write) {
                    tracing::warn!(model = %self.title, %why, "the process is not written");
                }
                let status = self.wait(started);
                self.resident.iter().for_each(Resident::wake); // the writer ends
                status
            }),
        };
        drop(ended);
        Ok(failed.unwrap_or_else(|| Error::Unavailable(format!("the process ended: {status}"))))
    }

    /// Runs a process from its folder, whose reading has taken this time. That is a part of the
    /// start, and the wait for room after it is not.
    ///
    /// # Errors
    ///
    /// The reason for which it was not started, or did not become ready: it has ended.
    fn run_warm(&self, checkpoint: &WarmFolder, found: Found, reading: Duration) -> Result<Error> {
        let now = Instant::now();
        let begun = now.checked_sub(reading).unwrap_or(now);
        let Note { request, ready } = found.note.clone();
        let tensors = Tensors::read(&Frame { header: ready.into(), tensors: Bytes::new() })?;
        let Ends { ours, output, theirs } = Ends::new()?;
        let (end, ended) = io::pipe().map_err(|e| Error::system("a pipe", e))?;
        let timeout = self.role.program.load_timeout();
        let warm = checkpoint.start(&self.title, found, theirs, timeout)?;
        let WarmStart { started, number, suspended } = warm;
        let generation = self.note_process(started.pid());
        output::log(self.title.clone(), number, output, end);
        let back = match &self.resident {
            Some(resident) if !suspended.is_empty() => resident.adopt(number, &suspended),
            _ => Ok(()),
        };
        let connection = Connection::go_on(ours, self.identity(generation), request);
        let made = back.and_then(|()| self.publish(connection, tensors, StartKind::Warm, begun));
        if let Err(why) = made {
            self.reap(started);
            if !self.state.lock().is_closed {
                checkpoint.remove(&self.title); // else it was killed, and is right
            }
            return Err(why);
        }
        let status = self.wait(started);
        drop(ended);
        if self.state.lock().is_useless() {
            tracing::warn!(model = %self.title, number, "its folder is removed: no request was answered before the process ended");
            checkpoint.remove(&self.title); // else the next one would end as well
        }
        Ok(Error::Unavailable(format!("the process ended: {status}")))
    }

    /// Returns the place of the folder of its process. `None`: it has none, or the log says why.
    fn checkpoint(&self) -> Option<WarmFolder> {
        let store = self.role.checkpoints.as_ref().filter(|_| self.resident.is_some())?;
        let folder = self.role.program.place();
        let facts = self.start_message().map(|start| self.role.program.facts(start));
        let place = facts.and_then(|facts| WarmFolder::of(store, &self.command(), folder, &facts));
        match place {
            Ok(place) => Some(place),
            Err(why) => {
                tracing::warn!(model = %self.title, %why, "the process has no folder");
                None
            }
        }
    }

    /// Returns the command that starts its program.
    fn command(&self) -> Command {
        let sockets = self.resident.as_ref().map(Resident::sockets);
        let is_written = self.resident.is_some() && self.role.checkpoints.is_some();
        self.role.program.command(self.role.class, sockets.as_deref(), is_written)
    }

    /// Notes a process that has been started. Returns its number among those of the daemon.
    fn note_process(&self, pid: Option<Pid>) -> u64 {
        let mut state = self.state.lock();
        (state.pid, state.ready, state.has_answered) = (pid, None, false);
        self.forget_suspension(pid); // of another program that had its number
        if state.is_closed {
            state.signal(Signal::KILL); // closed while it was started
        }
        state.generation
    }

    /// Writes its process to a folder, once no request needs it and it is off its device. Blocks
    /// until then, or until the process ends.
    fn write(&self, checkpoint: &WarmFolder, streams: Streams, generation: u64) {
        let Some(resident) = &self.resident else { return };
        let is_over = || {
            let state = self.state.lock();
            state.is_closed || state.pid.is_none() || state.generation != generation
        };
        let Some(frozen) = resident.freeze(&is_over) else { return };
        let begun = Instant::now();
        let Some((pid, note)) = self.state.lock().note(generation) else { return };
        let is_same = self.checkpoint().is_some_and(|now| now.is_same(checkpoint));
        let changed =
            || Error::Failed("files of its version or of its command have changed since".into());
        let into = if is_same { checkpoint.writing(pid, streams, &note) } else { Err(changed()) };
        let written = into.and_then(|into| frozen.write(pid, into));
        self.go_on(generation);
        drop(frozen);
        let model = &self.title;
        match written {
            Ok(()) if self.state.lock().ending.is_some() => {
                checkpoint.remove(model); // it was about to end when it was written
            }
            Ok(()) => {
                tracing::info!(%model, pid, time = ?begun.elapsed(), "the process is written: later ones start from its folder");
                checkpoint.trim(model);
            }
            Err(why) => tracing::warn!(%model, pid, %why, "the process is not written"),
        }
    }

    /// Has its process go on: a writer that was killed may have left it stopped.
    fn go_on(&self, generation: u64) {
        let state = self.state.lock();
        if state.generation == generation {
            state.signal(Signal::CONT);
        }
    }

    /// Returns the first message to its program.
    fn start_message(&self) -> Result<Vec<u8>> {
        let Role { program, model, version, class, instance, device, max_bytes, max_batch, .. } =
            &self.role;
        to_json(&ToProcess::Start {
            protocol: PROTOCOL,
            model,
            version: *version,
            class,
            instance: *instance,
            device,
            folder: &program.place().to_string_lossy(),
            max_bytes: *max_bytes,
            max_batch: *max_batch,
            files: true,
            device_memory: self.role.has_device_memory(),
            gpu: self.role.gpu.map(|gpu| hex(&gpu)),
            config: program.config().and_then(|config| serde_json::from_str(config).ok()),
        })
    }

    fn identity(&self, generation: u64) -> Identity {
        let cancel = self.role.program.cancel_timeout();
        Identity { bounds: Bounds { bytes: self.role.max_bytes, cancel }, generation }
    }

    /// Starts the conversation, and publishes the connection.
    fn open(&self, stream: UnixStream, generation: u64, started: Instant) -> Result<()> {
        let mut time = LoadTime::new(self.role.program.load_timeout());
        let (pid, mut has_ended) = (self.state.lock().pid, false);
        let ask = &mut |_: &UnixStream| {
            // Its last words have been read since it was seen to have ended.
            if std::mem::replace(&mut has_ended, pid.is_some_and(has_exited)) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            time.check(self.is_held())
        };
        let (start, identity) = (self.start_message()?, self.identity(generation));
        let (connection, frame) = Connection::open(stream, &start, identity, ask)?;
        let tensors = Tensors::read(&frame)?;
        let ready = String::from_utf8_lossy(&frame.header).into_owned();
        self.state.lock().ready = Some(ready);
        self.publish(connection, tensors, StartKind::Cold, started)
    }

    /// Publishes the connection to a process that is ready, and was started at this time.
    fn publish(
        &self,
        connection: Connection,
        tensors: Tensors,
        kind: StartKind,
        started: Instant,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if state.tensors.as_deref().is_some_and(|before| *before != tensors) {
            return Err(Error::Failed("the process declares other tensors than before".into()));
        }
        state.tensors.get_or_insert_with(|| Arc::new(tensors));
        if let Some(resident) = self.resident.as_ref().filter(|_| state.pid.is_some()) {
            resident.note_start(number(state.pid));
            resident.count_start(kind, started.elapsed());
        }
        state.socket = connection.stream.try_clone().ok(); // else its end may be noticed later
        state.phase = Phase::Idle(connection);
        if state.ending.is_some() {
            state.hang_up();
        }
        let (pid, time) = (state.pid.map(Pid::as_raw_nonzero), started.elapsed());
        tracing::info!(model = %self.title, pid, start = kind.name(), ?time, "ready");
        self.change.notify_all();
        Ok(())
    }

    /// Waits for the end of a process, and kills what is left of its group.
    fn wait(&self, started: Started) -> String {
        if let Some(pid) = started.pid() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).err() == Some(rustix::io::Errno::INTR) {}
        }
        let mut state = self.state.lock();
        state.phase = Phase::Down;
        // A program that it has left behind, out of its group, may have the other end.
        if let Some(socket) = state.socket.take() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        self.reap(started)
    }

    /// Kills what is left of the group of a process, and waits for its end.
    fn reap(&self, started: Started) -> String {
        let mut state = self.state.lock();
        state.signal(Signal::KILL); // its number is free only once it is waited for
        self.forget_suspension(state.pid.take());
        drop(state);
        started.wait()
    }
}

impl State {
    /// Sends a signal to the processes of the group, if there are any.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            let _ = kill_process_group(pid, signal); // it may have ended
        }
    }

    /// Returns the number of an idle process, and the facts of its conversation. `None`: it is
    /// another one, or not idle.
    fn note(&self, generation: u64) -> Option<(u32, Note)> {
        let Phase::Idle(connection) = &self.phase else { return None };
        let is_meant = self.generation == generation && self.pid.is_some();
        let ready = self.ready.clone().filter(|_| is_meant && connection.is_quiet())?;
        Some((number(self.pid), Note { request: connection.request, ready }))
    }

    /// True if the process has answered no request, as the one before it, and its model stays.
    fn is_useless(&self) -> bool {
        !self.has_answered && self.failures > 0 && !self.is_closed
    }

    /// True if the process with the state of the request's sequence has ended.
    fn has_lost(&self, call: &Call<'_>) -> bool {
        let is_down = matches!(self.phase, Phase::Down | Phase::Ended);
        let process = call.sequence.and_then(|sequence| sequence.process);
        process.is_some_and(|process| is_down || process.number != self.generation)
    }

    /// Adds the reason for which the process was killed, if it was, to that of its end.
    fn with_reason(&mut self, end: Error) -> Error {
        match self.killed.take() {
            Some(killed) => killed.map_text(|why| format!("{why}; {}", end.text())),
            None => end,
        }
    }

    /// Ends the conversation of an idle process.
    fn hang_up(&mut self) {
        if let Phase::Idle(connection) = &self.phase {
            connection.end();
            self.phase = Phase::Busy;
        }
    }
}

/// Returns whether a child has ended, and has not been waited for.
fn has_exited(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
}

/// Returns the number of a process; 0 if there is none.
fn number(pid: Option<Pid>) -> u32 {
    pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Returns the reason to kill a process before its request is sent.
fn unasked() -> Error {
    Error::Unavailable("it ended, or sent something unasked".into())
}

fn unloading() -> Error {
    Error::Unavailable("the model is being unloaded".into())
}

fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(MAX_PAUSE),
    }
}

#[cfg(test)]
mod tests;
