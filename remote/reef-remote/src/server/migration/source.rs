//! Sends a session to another server, or to a file, while it runs and then while it stands still.

use super::copy::Copy;
use super::state::{CommandState, Identity, Progress, RecordState, State, calendar};
use crate::messages::{BlocksLeft, Change, Event, Facts, MigrateCommit};
use crate::migration::outgoing::Outgoing;
use crate::migration::session::{Each, Frozen, Migrate, PIECE_LEN, Region, Report, Write};
use crate::migration::steps::{self, MigrationSource, NotBegun, POLL_INTERVAL, Prepared};
use crate::migration::target::Target;
use crate::server::origin::{Object, Origin, Record, Source};
use crate::server::session::{Lane, Session};
use parking_lot::{Mutex, MutexGuard};
use reef_core::Error;
use reef_op::Operators;
use reef_wire::{Held, Key, Server, codec};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

type Shared<D> = Arc<Mutex<Session<D>>>;
type Living<D> = BTreeMap<u64, Arc<Origin<D>>>;

/// The way of a session to other servers and files.
#[derive(Debug)]
pub(in crate::server) struct Migration<D: Operators> {
    pub(in crate::server) session: Weak<Mutex<Session<D>>>,
    pub(in crate::server) server: Server,
    /// Device, as servers name it, and what its client knows of it.
    pub(in crate::server) device: String,
    pub(in crate::server) facts: Facts,
    /// Program, as it names itself.
    pub(in crate::server) program: String,
    /// Secret by which the session's client is known to the next server.
    pub(in crate::server) key: Key,
}

/// Events that were sent.
#[derive(Debug, Default)]
struct Sent {
    last: u64,
    ids: HashSet<u64>,
}

/// A session whose releases are noted until this is dropped.
struct Watched<'a, D: Operators>(&'a Shared<D>);

impl<D: Operators> Drop for Watched<'_, D> {
    fn drop(&mut self) {
        self.0.lock().objects.watch_releases(false);
    }
}

/// A session that stands still until this is dropped.
struct Pause<'a, D: Operators> {
    session: MutexGuard<'a, Session<D>>,
    living: Living<D>,
    /// Taken out when all of the session was sent or written.
    held: Option<Held>,
}

impl<D: Operators> Pause<'_, D> {
    fn take_held(&mut self) -> Result<Held, String> {
        self.held.take().ok_or_else(ended)
    }
}

/// A session of which releases are noted, while it migrates or is written.
struct Running<'a, D: Operators> {
    migration: &'a Migration<D>,
    session: &'a Shared<D>,
    _watched: Watched<'a, D>,
}

/// Session at another server, and what was sent.
struct Way {
    copy: Copy,
    sent: Sent,
    /// Memory as it was sent that no command writes: versions by places in the order.
    clean: HashMap<u64, u64>,
}

fn text(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

fn ended() -> String {
    "it has ended".into()
}

impl<D: Operators> Migrate for Migration<D> {
    fn migrate(&self, to: &Target) -> Result<Report, String> {
        let session = self.session.upgrade().ok_or_else(ended)?;
        let running = self.watch(&session)?;
        steps::migrate(&running, to, |_| ())
    }

    fn snapshot(&self, write: &mut Write<'_>, ends: bool) -> Result<Report, String> {
        let session = self.session.upgrade().ok_or_else(ended)?;
        let running = self.watch(&session)?;
        steps::snapshot(&running, ends, |pause| running.write(pause, write), |_| ())
    }
}

impl<'a, D: Operators> MigrationSource for Running<'a, D> {
    type Copy = Way;
    type Pause = Pause<'a, D>;

    fn key(&self) -> &Key {
        &self.migration.key
    }

    fn begin(&self, to: &Target) -> Result<Way, String> {
        let Migration { device, program, facts, .. } = self.migration;
        let copy = Copy::begin(to, device, program, facts)?;
        Ok(Way { copy, sent: Sent::default(), clean: HashMap::new() })
    }

    fn outgoing(way: &mut Way) -> &mut Outgoing {
        &mut way.copy.outgoing
    }

    fn send_early(&self, way: &mut Way) -> Result<(), String> {
        let Way { copy, sent, clean } = way;
        let (device, living, events) = {
            let mut session = self.session.lock();
            let living = living(&session);
            let events = events(&mut session, &living, sent);
            (session.host.device.clone(), living, events)
        };
        copy.events(&events)?;
        for (order, origin) in living {
            let Some(memory) = origin.memory() else { continue };
            let Some(version) = memory.version() else { continue };
            send_memory(&device, &origin, copy)?;
            clean.insert(order, version);
        }
        copy.check()
    }

    fn pause(&self, timeout: Duration) -> Result<Pause<'a, D>, String> {
        let (session, end) = (self.session, Instant::now() + timeout);
        let endpoint = session.lock().outlet.endpoint().cloned().ok_or("it has not begun")?;
        let held = self.migration.server.hold_end(&endpoint).ok_or_else(ended)?;
        loop {
            if endpoint.ended().is_some() {
                return Err(ended());
            }
            let locked = session.lock();
            if is_quiet(&locked).map_err(|e| text(&e))? {
                let living = living(&locked);
                return Ok(Pause { session: locked, living, held: Some(held) });
            }
            drop(locked);
            if Instant::now() > end {
                return Err(format!("its work has not ended within {timeout:?}"));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn prepare(&self, pause: &mut Pause<'a, D>, way: &mut Way) -> Result<Prepared, String> {
        let Way { copy, sent, clean } = way;
        let events = events(&mut pause.session, &pause.living, sent);
        copy.events(&events)?;
        let mut read = 0;
        for (order, origin) in &pause.living {
            let Some(memory) = origin.memory() else { continue };
            if memory.version().is_some() && memory.version() == clean.get(order).copied() {
                continue;
            }
            read += memory.len;
            send_memory(&pause.session.host.device, origin, copy)?;
        }
        let state = self.migration.state(pause)?;
        let memory = state.memory.iter().map(|(_, bytes)| bytes).sum();
        copy.prepare(&codec::write(&state).map_err(|e| text(&e))?)?;
        Ok(Prepared { held: pause.take_held()?, memory, read })
    }

    fn commit(&self, pause: &Pause<'a, D>, way: &Way) -> Result<(), NotBegun> {
        let asked = Instant::now();
        way.copy.check().map_err(NotBegun::Refused)?;
        let within = asked.elapsed().as_nanos() as u64;
        let clock = pause.session.outlet.time(pause.session.host.device.clock());
        let (clock, calendar) = (clock.as_nanos() as u64, calendar());
        way.copy.commit(&MigrateCommit { clock, calendar, within })
    }

    fn leave(pause: Pause<'a, D>) {
        drop(pause);
    }
}

impl<D: Operators> Running<'_, D> {
    /// Writes a session that stands still. Returns the bytes of what was written, too.
    fn write(
        &self,
        pause: &mut Pause<'_, D>,
        write: &mut Write<'_>,
    ) -> Result<(Prepared, u64), String> {
        let events = events(&mut pause.session, &pause.living, &mut Sent::default());
        let mut state = self.migration.state(pause)?;
        state.events = events;
        let region = |&(number, bytes): &(u64, u64)| Region { number, bytes };
        let regions: Vec<Region> = state.memory.iter().map(region).collect();
        let memory = regions.iter().map(|region| region.bytes).sum();
        let read = |at: usize, each: &mut Each<'_>| {
            let region: &Region = regions.get(at).ok_or("there is no such region")?;
            let origin = pause.living.get(&region.number).ok_or("there is no such memory")?;
            read_memory(&pause.session.host.device, origin, each)
        };
        let state = codec::write(&state).map_err(|e| text(&e))?;
        let written = write(&Frozen { state: &state, regions: &regions, read: &read })?;
        Ok((Prepared { held: pause.take_held()?, memory, read: memory }, written))
    }
}

/// Sends the bytes of a buffer.
fn send_memory<D: Operators>(
    device: &D,
    origin: &Origin<D>,
    copy: &mut Copy,
) -> Result<(), String> {
    let mut offset = 0;
    read_memory(device, origin, &mut |piece| {
        copy.piece(origin.order, offset, piece)?;
        offset += piece.len() as u64;
        Ok(())
    })
}

/// Gives the bytes of a buffer to `each`, in pieces.
fn read_memory<D: Operators>(
    device: &D,
    origin: &Origin<D>,
    each: &mut Each<'_>,
) -> Result<(), String> {
    let Some(memory) = origin.memory() else { return Ok(()) };
    let len = memory.len as usize;
    let mut bytes = vec![0; PIECE_LEN.min(len)];
    for offset in (0..len).step_by(PIECE_LEN) {
        let piece = &mut bytes[..PIECE_LEN.min(len - offset)];
        device.read(&memory.buffer, offset, piece).map_err(|e| text(&e))?;
        each(piece)?;
    }
    Ok(())
}

/// Objects that have names, and those that they need.
fn living<D: Operators>(session: &Session<D>) -> Living<D> {
    let mut open = session.objects.named();
    for opened in session.lanes.values() {
        open.push(opened.origin.clone());
        if let Lane::Own(lane) = &opened.lane {
            open.extend(lane.needed());
        }
    }
    let records = session.objects.checkpoints.lock();
    open.extend(records.values().flat_map(|record| record.source.origins.iter().cloned()));
    drop(records);
    let mut living = Living::new();
    while let Some(origin) = open.pop() {
        if let Entry::Vacant(place) = living.entry(origin.order) {
            open.extend(origin.uses.iter().cloned());
            place.insert(origin);
        }
    }
    living
}

/// Events that were not sent, in their order.
fn events<D: Operators>(
    session: &mut Session<D>,
    living: &Living<D>,
    sent: &mut Sent,
) -> Vec<Event> {
    let mut all = BTreeMap::new();
    let released = |order, id| (order, Event { order, id, what: Change::Released });
    for (&order, origin) in living.range(sent.last + 1..) {
        all.insert(order, Event { order, id: origin.id, what: change_of(&origin.object) });
        all.extend(origin.freed().map(|order| released(order, origin.id)));
        sent.ids.insert(origin.id);
    }
    for (order, id) in session.objects.take_releases() {
        if sent.ids.contains(&id) {
            all.extend([released(order, id)]);
        }
    }
    sent.last = session.objects.last_order();
    all.into_values().collect()
}

fn change_of<D: Operators>(object: &Object<D>) -> Change {
    match object {
        Object::Buffer(memory) => Change::Buffer {
            address: memory.address,
            bytes: memory.bytes,
            len: memory.len,
            is_host: memory.is_host,
        },
        Object::Launches { operation, shapes, .. } => {
            Change::Launches { operation: operation.clone(), shapes: shapes.clone() }
        }
        Object::Kernel { name, .. } => Change::Kernel { name: name.clone() },
        Object::Graph { commands, .. } => Change::Graph { commands: commands.clone() },
        Object::Preemptor { level, facts, .. } => {
            Change::Preemptor { level: *level, facts: *facts }
        }
        Object::Lane { is_real_time, preemptor } => {
            Change::Lane { is_real_time: *is_real_time, preemptor: *preemptor }
        }
    }
}

fn command<D: Operators>(source: &Source<D>) -> CommandState {
    let origins = source.origins.iter().map(|origin| origin.order).collect();
    CommandState { command: source.command.clone(), origins }
}

fn record<D: Operators>(device: &D, record: &Record<D>) -> Result<RecordState, String> {
    let blocks = device.blocks(&record.checkpoint).map_err(|e| text(&e))?;
    Ok(RecordState { command: command(&record.source), blocks: BlocksLeft::from(&blocks) })
}

impl<D: Operators> Migration<D> {
    /// Notes releases of the session from now on.
    fn watch<'a>(&'a self, session: &'a Shared<D>) -> Result<Running<'a, D>, String> {
        let mut locked = session.lock();
        if locked.objects.has_watch() {
            return Err("it is being moved or written already".into());
        }
        locked.objects.watch_releases(true);
        drop(locked);
        Ok(Running { migration: self, session, _watched: Watched(session) })
    }

    /// Returns all but the events and the bytes of memory.
    ///
    /// # Errors
    ///
    /// Contents that cannot be read.
    fn state(&self, pause: &Pause<'_, D>) -> Result<State, String> {
        let Pause { session, living, held } = pause;
        let held = held.as_ref().ok_or_else(ended)?;
        if session.answers.is_full {
            return Err("its client has asked about too many operations".into());
        }
        let device = &session.host.device;
        let identity = Identity {
            name: held.name(),
            end: held.state().map_err(|e| text(&e))?,
            key: self.key.clone(),
            program: self.program.clone(),
            device: self.device.clone(),
        };
        let mut state = State::new(self.facts.clone(), identity);
        let answers = session.answers.all.iter();
        state.answers =
            answers.map(|(question, answer)| (question.clone(), answer.clone())).collect();
        for (order, origin) in living {
            match &origin.object {
                Object::Buffer(memory) => state.memory.push((*order, memory.len)),
                Object::Preemptor { step, .. } => {
                    state.preemptors.push((*order, step.load(Ordering::Relaxed)));
                }
                _ => {}
            }
        }
        for (id, of) in session.objects.checkpoints.lock().iter() {
            state.records.push((id.bits(), record(device, of)?));
        }
        for (number, opened) in &session.lanes {
            state.lanes.push((*number, progress(device, &opened.lane)?));
        }
        state.staged = session.staged.iter().map(|value| value.to_bits()).collect();
        state.has_trace = session.has_trace;
        state.clock = session.outlet.time(device.clock()).as_nanos() as u64;
        Ok(state)
    }
}

fn progress<D: Operators>(device: &D, lane: &Lane<D>) -> Result<Progress, String> {
    match lane {
        Lane::Shared(lane) => {
            let (ended, has_failed) = lane.progress();
            Ok(Progress::Shared { ended: ended.as_nanos() as u64, has_failed })
        }
        Lane::Own(lane) => {
            let quiet = lane.quiet();
            let taken = quiet.taken.map(|taken| {
                let partial = taken.partial.as_ref().map(|of| record(device, of)).transpose()?;
                Ok::<_, String>((taken.resume_at, partial))
            });
            Ok(Progress::Own {
                told: quiet.told,
                wanted: quiet.wanted,
                blocks: quiet.blocks,
                has_failed: quiet.has_failed,
                taken: taken.transpose()?,
            })
        }
    }
}

/// Returns whether the device has nothing of the session.
fn is_quiet<D: Operators>(session: &Session<D>) -> Result<bool, Error> {
    let mut is_quiet = session.outlet.threads() <= session.lanes.len();
    for opened in session.lanes.values() {
        is_quiet &= match &opened.lane {
            Lane::Shared(lane) => lane.is_quiet(),
            Lane::Own(lane) => lane.try_quiesce()?,
        };
    }
    Ok(is_quiet)
}
