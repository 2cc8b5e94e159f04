//! Devices of a server, and the clients that may use them.

use super::list_entry::ListEntry;
use super::migration::incoming::{Adoption, Incoming};
use super::migration::source::Migration;
use super::session::{Messages, Session};
use super::shared::Shared;
use super::tenants::accounts::{Account, Tenants};
use super::tenants::resource::Resource;
use crate::messages::{ColocationKind, Facts, Request};
use crate::migration::arrival::Arrival;
use crate::migration::session::Migrate;
use crate::observe::refusal::Refusal;
use crate::observe::sessions::{self, Kind, Sessions};
use crate::schema::schema;
use parking_lot::Mutex;
use reef_core::scheduler::{Reef, Scheduler};
use reef_core::{Dispatcher, PreemptLevel, Result, Stats};
use reef_op::Operators;
use reef_wire::{Authority, Error, Handler, Hello, Key, Server, ServerOptions, Token, codec};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// A session that may begin.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Admission {
    /// Server that has it.
    pub server: Server,
    /// Owner of its token.
    pub tenant: Option<String>,
    /// Program, as it names itself.
    pub program: String,
    /// Device, as the server names it.
    pub device: String,
    /// Account in which its memory is recorded.
    pub account: Arc<Account>,
}

/// A session that begins.
#[non_exhaustive]
pub struct Begun {
    /// Handler of its messages.
    pub handler: Box<dyn Handler>,
    /// Its way to other servers.
    pub migration: Arc<dyn Migrate>,
}

impl Debug for Begun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begun").field("migration", &self.migration).finish_non_exhaustive()
    }
}

/// Function that takes a session of another server, with the name of its program, into the list.
pub type Enlist = Box<dyn FnOnce(Begun, String) -> Box<dyn Handler> + Send>;

/// A device with its dispatcher, whatever its type is.
pub trait DeviceHost: Debug + Send + Sync {
    /// Returns facts about the device, as clients get them.
    fn facts(&self) -> Facts;

    /// Begins a session.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    fn session(&self, admission: &Admission) -> std::result::Result<Begun, String>;

    /// Returns what makes a session that another server brings.
    fn incoming(&self, admission: Admission, enlist: Enlist) -> Box<dyn Handler>;
}

/// A device, and the dispatcher that shares it among sessions.
#[derive(Debug)]
pub struct Host<D: Operators>(Arc<Shared<D>>);

impl<D: Operators> Host<D> {
    /// Starts a dispatcher on a device. Clients may run networks, copies and fills.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn start(device: &D) -> Result<Self> {
        Self::start_with(device, Box::new(Reef::default()))
    }

    /// As [`start`](Self::start), with another scheduler or at another level.
    ///
    /// # Errors
    ///
    /// An error of the device; `Level` for a level that it doesn't have.
    pub fn start_with(device: &D, scheduler: Box<dyn Scheduler>) -> Result<Self> {
        Self::with(device, scheduler, false)
    }

    /// As [`start`](Self::start), for clients that also launch kernels by name with arguments of
    /// their own, as the conformance suite does.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    ///
    /// # Safety
    ///
    /// Every client keeps to the obligations of [`Launch::new`](reef_core::Launch::new).
    #[allow(unsafe_code)]
    pub unsafe fn start_raw(device: &D) -> Result<Self> {
        Self::with(device, Box::new(Reef::default()), true)
    }

    /// A device that one session has for its own, for [`Devices::each`]. The client's dispatcher
    /// preempts, at each level that the device has. It may run networks, copies, fills, and the
    /// kernel `append` of the conformance suite.
    pub fn own(device: &D) -> Self {
        let shared = Shared { device: device.clone(), dispatcher: None, has_raw_launches: false };
        Self(Arc::new(shared))
    }

    /// Returns the counts of its dispatcher. Without one they are all 0.
    pub fn stats(&self) -> Stats {
        self.0.dispatcher.as_ref().map(Dispatcher::stats).unwrap_or_default()
    }

    fn with(device: &D, scheduler: Box<dyn Scheduler>, has_raw_launches: bool) -> Result<Self> {
        let dispatcher = Some(Dispatcher::start(device, scheduler)?);
        let device = device.clone();
        Ok(Self(Arc::new(Shared { device, dispatcher, has_raw_launches })))
    }
}

impl<D: Operators> DeviceHost for Host<D> {
    fn facts(&self) -> Facts {
        let (info, is_own) = (self.0.device.info(), self.0.dispatcher.is_none());
        let (level, colocation) = if is_own {
            (info.level, self.0.device.colocation().into())
        } else {
            (PreemptLevel::HostQueue, ColocationKind::Never)
        };
        Facts {
            name: info.name,
            units: info.units,
            blocks_per_unit: info.blocks_per_unit,
            threads_per_unit: info.threads_per_unit,
            registers_per_unit: info.registers_per_unit,
            shared_per_unit: info.shared_per_unit,
            padded_micros: info.padded_micros,
            memory: info.memory,
            uuid: info.uuid,
            features: info.features,
            level: level as u8,
            is_own,
            has_trace: is_own && self.0.device.set_trace(false),
            colocation,
        }
    }

    fn session(&self, admission: &Admission) -> std::result::Result<Begun, String> {
        let session = Session::new(self.0.clone(), admission.account.clone());
        let key = Key::make().ok_or("the system has no random numbers")?;
        Ok(begun(session, self.facts(), admission, key))
    }

    fn incoming(&self, admission: Admission, enlist: Enlist) -> Box<dyn Handler> {
        let session = Session::new(self.0.clone(), admission.account.clone());
        let state = admission.account.nothing(Resource::State);
        let facts = self.facts();
        let known = facts.clone();
        let begin = move |adoption: Adoption<D>| adopt(adoption, known, admission, enlist);
        Box::new(Arrival::new(Incoming::new(session, state, facts, begin)))
    }
}

fn begun<D: Operators>(
    session: Session<D>,
    facts: Facts,
    admission: &Admission,
    key: Key,
) -> Begun {
    let session = Arc::new(Mutex::new(session));
    let migration = Migration {
        session: Arc::downgrade(&session),
        server: admission.server.clone(),
        device: admission.device.clone(),
        facts,
        program: admission.program.clone(),
        key,
    };
    Begun { handler: Box::new(Messages(session)), migration: Arc::new(migration) }
}

/// Has a session run here that another server had.
fn adopt<D: Operators>(
    adoption: Adoption<D>,
    facts: Facts,
    admission: Admission,
    enlist: Enlist,
) -> std::result::Result<(), String> {
    let Adoption { session, name, end, key, program } = adoption;
    let admission = Admission { program: program.clone(), ..admission };
    let begun = begun(session, facts, &admission, key.clone());
    let (server, tenant) = (admission.server, admission.tenant);
    let handler = enlist(begun, program);
    let adopted = server.adopt(name, tenant.as_deref(), Some(key), &end, handler);
    let adopted = Arc::new(Mutex::new(Some(adopted.map_err(|e| e.to_string())?)));
    let body = {
        let adopted = adopted.clone();
        move || {
            let taken = adopted.lock().take();
            taken.map(reef_wire::Adopted::run).map(drop)
        }
    };
    let spawned = std::thread::Builder::new().name("reef-session".into()).spawn(body);
    if let Err(error) = spawned {
        let text = format!("no thread: {error}");
        adopted.lock().take().into_iter().for_each(|of| of.end(Error::Ended(text.clone())));
        return Err(text);
    }
    Ok(())
}

type Open = dyn Fn(&str) -> Result<Arc<dyn DeviceHost>> + Send + Sync;

/// Devices that are open, by their names.
type SharedDevices = Mutex<HashMap<String, Arc<dyn DeviceHost>>>;

/// Devices that sessions may ask for, opened when the first one does.
pub struct Devices {
    open: Box<Open>,
    /// Devices that sessions share; `None`: each session opens its own.
    shared: Option<SharedDevices>,
    tenants: Tenants,
    sessions: Sessions,
    closed_timeout: Option<Duration>,
}

impl Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devices").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Devices {
    /// Devices that `open` opens by name, each once: its sessions share it.
    pub fn shared(
        open: impl Fn(&str) -> Result<Arc<dyn DeviceHost>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Box::new(open), Some(Mutex::default()))
    }

    /// Devices that `open` opens by name, one for each session.
    pub fn each(
        open: impl Fn(&str) -> Result<Arc<dyn DeviceHost>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Box::new(open), None)
    }

    fn new(open: Box<Open>, shared: Option<SharedDevices>) -> Self {
        let (tenants, sessions) = (Tenants::default(), Sessions::default());
        Self { open, shared, tenants, sessions, closed_timeout: None }
    }

    /// Bounds what the sessions of these tenants have.
    #[must_use]
    pub fn for_tenants(self, tenants: &Tenants) -> Self {
        Self { tenants: tenants.clone(), ..self }
    }

    /// Puts sessions into this list.
    #[must_use]
    pub fn listed_in(self, sessions: &Sessions) -> Self {
        Self { sessions: sessions.clone(), ..self }
    }

    /// Keeps a session for this time, and not for 3 s, if its client's system closed the
    /// connection, as it does when the client's process has ended.
    #[must_use]
    pub fn kept_when_closed(self, timeout: Duration) -> Self {
        Self { closed_timeout: Some(timeout), ..self }
    }

    /// A server of these devices. With tokens a client must have one of them.
    #[must_use]
    pub fn serve(self, tokens: Vec<Token>) -> Server {
        let mut options = ServerOptions::new(schema());
        options.tokens = tokens;
        options.closed_timeout = self.closed_timeout.unwrap_or(options.closed_timeout);
        Server::new(options, self)
    }

    fn device(&self, name: &str) -> Result<Arc<dyn DeviceHost>> {
        let Some(shared) = &self.shared else { return (self.open)(name) };
        let mut shared = shared.lock();
        if let Some(host) = shared.get(name) {
            return Ok(host.clone());
        }
        let host = (self.open)(name)?;
        shared.insert(name.into(), host.clone());
        Ok(host)
    }
}

impl Authority for Devices {
    fn admit(&self, hello: &Hello, server: &Server) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
        let counted = |refusal: Refusal, text: String| {
            self.sessions.refuse(refusal);
            text
        };
        let request: Request =
            codec::read(&hello.request).map_err(|e| counted(Refusal::Protocol, e.to_string()))?;
        let account = self.tenants.open(hello.tenant());
        let account = Arc::new(account.map_err(|text| counted(Refusal::Tenant, text))?);
        let host = self.device(&request.device);
        let host = host.map_err(|e| counted(Refusal::Device, e.to_string()))?;
        let facts = codec::write(&host.facts()).map_err(|e| e.to_string())?;
        let admission = Admission {
            server: server.clone(),
            tenant: hello.tenant().map(Into::into),
            program: hello.program.clone(),
            device: request.device.clone(),
            account: account.clone(),
        };
        let kind = if self.shared.is_some() { Kind::Shared } else { Kind::Own };
        let (sessions, tenant) = (self.sessions.clone(), admission.tenant.clone());
        let enlist = move |begun: Begun, program: String| {
            let device = Some(request.device);
            let listed = sessions::Facts { kind, tenant, program, device, pid: None, class: None };
            let Begun { handler, migration } = begun;
            Box::new(ListEntry::new(handler, migration, &sessions, listed, &account))
                as Box<dyn Handler>
        };
        if request.is_migrated {
            return Ok((host.incoming(admission, Box::new(enlist)), facts));
        }
        let begun = host.session(&admission).map_err(|text| counted(Refusal::Device, text))?;
        Ok((enlist(begun, admission.program), facts))
    }
}
