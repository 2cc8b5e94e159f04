//! Takes the state of a session: its calls have ended, its work has, and no message is made.

use super::globals::{self, Global};
use super::memory::Copier;
use super::state::{Model, Pending, Primary, Range, State};
use crate::driver::Driver;
use crate::state::lock::lock;
use crate::state::queue::{Queue, Threads};
use crate::state::shared::Shared;
use crate::state::uses::made_kind;
use reef_remote::migration::POLL_INTERVAL;
use reef_remote_calls::{Call, Kind};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A session that stands still until this is dropped.
#[derive(Debug)]
pub(crate) struct Pause {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    lanes: Vec<(u32, u64)>,
    templates: Vec<Vec<u8>>,
    _resume: Sender<()>,
}

impl Pause {
    /// Stops the session between two messages, and waits until all of its work has ended.
    ///
    /// # Errors
    ///
    /// Work that does not end, or state that cannot be migrated. The session runs on.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        queue: &Arc<Queue>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let (tell, told) = channel();
        let (resume, resumed) = channel::<()>();
        let end = Instant::now() + timeout;
        queue.interrupt(Box::new(move |threads| {
            let _ = tell.send(threads); // it is too late: the session runs on
            let _ = resumed.recv(); // the other end is dropped
        }));
        let busy = |_| format!("a call has not ended within {timeout:?}");
        let Threads { lanes, templates } = told.recv_timeout(timeout).map_err(busy)?;
        let pause = Self {
            shared: shared.clone(),
            queue: queue.clone(),
            lanes,
            templates,
            _resume: resume,
        };
        while shared.waiting.load(Ordering::SeqCst) > 0 {
            if Instant::now() > end {
                return Err(format!("a call that waits has not ended within {timeout:?}"));
            }
            thread::sleep(POLL_INTERVAL);
        }
        for (_, context) in shared.contexts() {
            pause.wait_for(context, end)?;
        }
        pause.check()?;
        Ok(pause)
    }

    /// Waits for the work of a context.
    fn wait_for(&self, context: usize, end: Instant) -> Result<(), String> {
        let (tell, told) = channel();
        self.shared.wait_for(context, move |shared| {
            // SAFETY: no arguments.
            let code = unsafe { shared.driver.of(Call::cuCtxSynchronize).call([]) };
            let _ = tell.send(code); // too late
        });
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(0) => Ok(()),
            Ok(code) => Err(format!("the device's work has failed with code {code}")),
            Err(_) => Err("the device's work has not ended in time".into()),
        }
    }

    /// Names what cannot be migrated.
    fn check(&self) -> Result<(), String> {
        let log = lock(&self.shared.log);
        let mut all = Vec::new();
        if log.is_capturing() {
            all.push("a capture that is open".to_owned());
        }
        if log.is_full {
            all.push("objects that took too many messages".to_owned());
        }
        if !log.outside.is_empty() {
            let count = log.outside.len();
            all.push(format!("{count} allocations of pools or graphs (cuMemAllocAsync)"));
        }
        if lock(&self.shared.window).is_none() {
            all.push("memory without an address window".to_owned());
        }
        if all.is_empty() { Ok(()) } else { Err(format!("it has {}", all.join(", and "))) }
    }

    /// Returns the state, but for the transport's end and the bytes of the window.
    ///
    /// # Errors
    ///
    /// Variables that are not known.
    pub(crate) fn state(&self) -> Result<State, String> {
        let shared = &self.shared;
        let (version, devices) = models(&shared.driver)?;
        let window = lock(&shared.window).as_ref().map_or(0, |window| window.base());
        let mut state = State::new(version, devices, window);
        let (entries, ended) = {
            let log = lock(&shared.log);
            let handles = lock(&shared.handles);
            log.needed(|id| handles.is_live(id))
        };
        let mut kinds = HashMap::new();
        for entry in &entries {
            let last = entry.messages.last().and_then(|last| made_kind(last.op, &last.body));
            if let (Some(kind), Some(id)) = (last, entry.made.first()) {
                kinds.insert(*id, kind);
            }
        }
        let ended = ended.into_iter().filter_map(|id| Some((*kinds.get(&id)?, id)));
        state.ended = ended.collect();
        state.memory = self.memory();
        state.globals = self.globals(&entries)?;
        state.entries = entries;
        let primaries = lock(&shared.primaries);
        let primary = |(device, (id, retains)): (&usize, &(u64, u64))| Primary {
            device: *device as u64,
            id: *id,
            retains: *retains,
        };
        state.primaries = primaries.iter().map(primary).collect();
        state.primaries.sort_by_key(|primary| primary.device);
        state.next = lock(&shared.handles).next();
        (state.lanes, state.templates) = (self.lanes.clone(), self.templates.clone());
        Ok(state)
    }

    /// Messages that have come since the session stands still.
    pub(crate) fn pending(&self) -> Vec<Pending> {
        let all = self.queue.pending().into_iter();
        all.map(|(head, body)| Pending {
            op: head.op,
            lane: head.lane,
            number: head.number,
            wants_reply: head.wants_reply,
            body,
        })
        .collect()
    }

    /// The window's memory.
    pub(crate) fn memory(&self) -> Vec<Range> {
        ranges(&self.shared)
    }

    fn globals(&self, entries: &[crate::state::log::Entry]) -> Result<Vec<Global>, String> {
        let driver = &self.shared.driver;
        let known = lock(&self.shared.log).globals.clone();
        let mut all = Vec::new();
        for image in globals::images(entries)? {
            let Ok(of) = lock(&self.shared.handles).get(image.kind, image.id) else { continue };
            let contexts = self.shared.contexts().into_iter();
            let is_its =
                |context: &(u64, usize)| image.kind == Kind::Library || context.0 == image.context;
            for (context, handle) in contexts.filter(is_its) {
                if image.names.is_empty() {
                    continue;
                }
                let failed = |code: u32| format!("variables: code {code}");
                let mut copier = Copier::new(&self.shared, handle).map_err(failed)?;
                for name in &image.names {
                    let Some((at, bytes)) = globals::find(driver, image.kind, of, name) else {
                        return Err(format!("variable {name} that only its module can name"));
                    };
                    let mut value = Vec::new();
                    while (value.len() as u64) < bytes {
                        let rest = bytes as usize - value.len();
                        let read = copier.read(at + value.len() as u64, rest).map_err(failed)?;
                        value.extend_from_slice(read);
                    }
                    let (of, kind, name) = (image.id, image.kind, name.clone());
                    let is_known = known.contains(&at);
                    all.push(Global { of, kind, context, name, at, bytes, is_known, value });
                }
            }
        }
        Ok(all)
    }
}

/// Memory that is mapped in a session's window.
pub(crate) fn ranges(shared: &Shared) -> Vec<Range> {
    let window = lock(&shared.window);
    let slabs = window.iter().flat_map(|window| window.slabs());
    let range = |(at, slab): (&u64, &crate::state::window::Slab)| Range {
        at: *at,
        bytes: slab.bytes,
        context: slab.context,
        device: slab.device,
    };
    slabs.map(range).collect()
}

/// Version of the driver, and its devices.
///
/// # Errors
///
/// An error of the driver, as a text.
pub(crate) fn models(driver: &Driver) -> Result<(i32, Vec<Model>), String> {
    let facts = driver.facts()?;
    let devices = facts.devices.into_iter().map(|device| {
        let of = |wanted| {
            let found = device.attributes.iter().find(|(attribute, _)| *attribute == wanted);
            found.map_or(0, |(_, value)| *value)
        };
        let capability = [of(75), of(76)];
        Model { name: device.name, memory: device.memory, capability }
    });
    Ok((facts.version, devices.collect()))
}
