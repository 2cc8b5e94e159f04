//! Devices of a server, and the clients that may use them.

use super::list_entry::ListEntry;
use super::session::Session;
use super::shared::Shared;
use super::tenants::{Account, Tenants};
use crate::messages::{ColocationKind, Facts, Request};
use crate::observe::refusal::Refusal;
use crate::observe::sessions::{self, Kind, Sessions};
use crate::schema::schema;
use parking_lot::Mutex;
use reef_core::op::Operators;
use reef_core::scheduler::{Reef, Scheduler};
use reef_core::{Dispatcher, PreemptLevel, Result, Stats};
use reef_wire::{Authority, Handler, Hello, Server, ServerOptions, Token, codec};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

/// A device with its dispatcher, whatever its type is.
pub trait DeviceHost: Debug + Send + Sync {
    /// Returns what handles a new session's messages, and facts about the device. The session's
    /// memory is recorded in its account.
    fn session(&self, account: Arc<Account>) -> (Box<dyn Handler>, Facts);
}

/// A device, and the dispatcher that shares it among sessions.
#[derive(Debug)]
pub struct Host<D: Operators>(Arc<Shared<D>>);

impl<D: Operators> Host<D> {
    /// Starts a dispatcher on a device. Clients may run networks, copies and fills.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn start(device: &D) -> Result<Self> {
        Self::start_with(device, Box::new(Reef::default()))
    }

    /// As [`start`](Self::start), with another scheduler or at another level.
    ///
    /// # Errors
    ///
    /// The device's; `Level` for a level that it doesn't have.
    pub fn start_with(device: &D, scheduler: Box<dyn Scheduler>) -> Result<Self> {
        Self::with(device, scheduler, false)
    }

    /// As [`start`](Self::start), for clients that also launch kernels by name with arguments of
    /// their own, as the conformance suite does.
    ///
    /// # Errors
    ///
    /// The device's.
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
    fn session(&self, account: Arc<Account>) -> (Box<dyn Handler>, Facts) {
        let (info, is_own) = (self.0.device.info(), self.0.dispatcher.is_none());
        let (level, colocation) = if is_own {
            (info.level, self.0.device.colocation().into())
        } else {
            (PreemptLevel::HostQueue, ColocationKind::Never)
        };
        let facts = Facts {
            name: info.name,
            units: info.units,
            blocks_per_unit: info.blocks_per_unit,
            threads_per_unit: info.threads_per_unit,
            registers_per_unit: info.registers_per_unit,
            shared_per_unit: info.shared_per_unit,
            memory: info.memory,
            uuid: info.uuid,
            features: info.features,
            level: level as u8,
            is_own,
            has_trace: is_own && self.0.device.set_trace(false),
            colocation,
        };
        (Box::new(Session::new(self.0.clone(), account)), facts)
    }
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
        Self { open, shared, tenants: Tenants::default(), sessions: Sessions::default() }
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

    /// A server of these devices. With tokens a client must have one of them.
    #[must_use]
    pub fn serve(self, tokens: Vec<Token>) -> Server {
        let mut options = ServerOptions::new(schema());
        options.tokens = tokens;
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
    fn admit(&self, hello: &Hello, _: &Server) -> Result<(Box<dyn Handler>, Vec<u8>), String> {
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
        let (handler, facts) = host.session(account.clone());
        let listed = sessions::Facts {
            kind: if self.shared.is_some() { Kind::Shared } else { Kind::Own },
            tenant: hello.tenant().map(Into::into),
            program: hello.program.clone(),
            device: Some(request.device),
            pid: None,
            class: None,
        };
        let handler = ListEntry::new(handler, &self.sessions, listed, &account);
        Ok((Box::new(handler), codec::write(&facts).map_err(|e| e.to_string())?))
    }
}
