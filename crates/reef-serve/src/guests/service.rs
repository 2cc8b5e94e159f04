//! Registry of guests, for as long as the daemon runs.

use super::collector::{Collector, SuspensionCollector, ViolationCollector};
use super::containers::Containers;
use super::coordination::SharedDevice;
use super::jobs::Jobs;
use super::limit_audit::{Accounts, AuditThread};
use super::mps;
use super::policy::{self, grant};
use super::registrar::Registrar;
use super::violations::revoked::RevokedProcesses;
use super::violations::scan::Violations;
use crate::error::{Error, Result};
use crate::net::access::Access;
use crate::net::identity::auth::Tokens;
use crate::server::Server;
use crate::suspend::gpu_memory::GpuMemory;
use crate::suspend::memory_policy::MemoryPolicy;
use crate::suspend::suspensions::{OWN_PROGRAM, Suspensions};
use reef_guest::join::JoinRequest;
use reef_guest::registry::{Caller, MemoryReply, Registry};
use reef_nvml::Nvml;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Guests register until it is dropped.
#[derive(Debug)]
pub(crate) struct Guests {
    // Before the registry, because these are its guests.
    _shared: Vec<SharedDevice>,
    _registry: Arc<Registry>,
    _watch: AuditThread,
    _registrar: Option<Registrar>,
}

impl Guests {
    /// Listens at `guests.sock` in the folder, for the users that may open the other sockets there.
    /// Returns `None` if the configuration disables it.
    ///
    /// # Errors
    ///
    /// `Failed` if another process listens there, the socket cannot be created, or a thread cannot
    /// be started.
    pub(crate) fn start(
        server: &Arc<Server>,
        tokens: &Arc<Tokens>,
        folder: &Path,
        access: Access,
    ) -> Result<Option<Self>> {
        if !server.config.get().guests.listen {
            return Ok(None);
        }
        tracing::info!("{}", mps::line(std::env::var_os(mps::FOLDER)));
        let path = folder.join("guests.sock");
        reef_files::clear(&path).map_err(|e| Error::system(&path.display().to_string(), e))?;
        let own = rustix::process::getuid().as_raw();
        let (of, its_tokens) = (server.clone(), tokens.clone());
        let daemon = std::process::id();
        let caps = Box::new(move |caller: &Caller| {
            policy::caps(&of.config.get(), &its_tokens, own, daemon, caller)
        });
        let (of, tokens) = (server.clone(), tokens.clone());
        let revoked = Arc::<RevokedProcesses>::default();
        let checked = revoked.clone();
        let policy = Box::new(move |caller: &Caller, wish: &JoinRequest| {
            access.admit(caller.uid).map_err(|error| error.text().to_owned())?;
            checked.check(caller.pid, wish.class)?;
            grant(&of.config.get(), &tokens, own, caller, wish)
        });
        let rules = server.config.get().guests.rules();
        let asked = server.observer.clone();
        let memory = Box::new(move |caller: &Caller, request, reply: MemoryReply| {
            match asked.memory_policy.get() {
                Some(policy) => policy.ask(caller, request, reply),
                None => reply.refuse("it is starting".into()),
            }
        });
        let registry = Registry::open_with_caps(&path, rules, policy, caps, memory)
            .map_err(|e| Error::system("guests.sock", e))?;
        access.open_socket(&path)?; // its mode was the umask's
        let registry = Arc::new(registry);
        let metrics = &server.observer.metrics;
        metrics.add(Box::new(Collector(Arc::downgrade(&registry))));
        let folder = reef_guest::limit::folder(|name| std::env::var(name).ok());
        let accounts =
            Arc::new(Accounts::new(folder, Box::new(|| Ok(Box::new(Nvml::from_environment()?)))));
        server.observer.limits.get_or_init(|| accounts.shared());
        metrics.add(Box::new(Jobs(accounts.clone())));
        let violations = Arc::new(Violations::new(&registry, revoked));
        metrics.add(Box::new(ViolationCollector(violations.clone())));
        let watch = AuditThread::start(accounts, violations)
            .map_err(|e| Error::system("cannot start the thread for limits", e))?;
        let records = path.with_file_name("suspended");
        let new = || Arc::new(Suspensions::new(Weak::new(), records, OWN_PROGRAM.into()));
        let suspensions = server.observer.suspensions.get_or_init(new); // there are no models
        suspensions.attach(Arc::downgrade(&registry));
        let of = Arc::downgrade(server);
        let settings = move || {
            of.upgrade()
                .map(|server| server.config.get().guests.memory_settings())
                .unwrap_or_default()
        };
        let open = || match Nvml::from_environment() {
            Ok(nvml) => Ok(Box::new(nvml) as Box<dyn GpuMemory>),
            Err(error) => Err(error.to_string()),
        };
        let policy = MemoryPolicy::start(suspensions.clone(), settings, Box::new(open))
            .map_err(|e| Error::system("cannot start the thread for memory", e))?;
        let policy = server.observer.memory_policy.get_or_init(|| policy).clone();
        metrics.add(Box::new(SuspensionCollector(suspensions.clone(), policy)));
        let registrar = registrar(server, access)?;
        let shared = share_devices(server, &registry, &path)?;
        let own = shared.iter().map(|shared| shared.guest).collect();
        *server.observer.guests.lock() = (Arc::downgrade(&registry), own);
        Ok(Some(Self {
            _shared: shared,
            _registry: registry,
            _watch: watch,
            _registrar: registrar,
        }))
    }
}

/// Shares each device that has a UUID with its guests.
fn share_devices(server: &Server, registry: &Registry, socket: &Path) -> Result<Vec<SharedDevice>> {
    let mut all = Vec::new();
    for node in &*server.nodes {
        match node.engine.uuid() {
            Some(uuid) => all.push(SharedDevice::start(&node.engine, registry, socket, uuid)?),
            None => tracing::info!(
                device = %node.name,
                "the device has no UUID: its requests and guests do not pause each other"
            ),
        }
    }
    Ok(all)
}

/// Opens the socket for containers, if it is configured.
fn registrar(server: &Server, access: Access) -> Result<Option<Registrar>> {
    let config = server.config.get();
    let Some(alnair) = &config.guests.alnair else { return Ok(None) };
    let (proc, cgroup) = ("/proc".into(), "/sys/fs/cgroup".into());
    let containers =
        Containers { root: alnair.root.clone(), proc, cgroup, taking: Default::default() };
    let opened = Registrar::open(&alnair.socket, containers);
    let opened = opened.map_err(|e| Error::system(&alnair.socket.display().to_string(), e))?;
    access.open_socket(&alnair.socket)?; // its mode was the umask's
    Ok(Some(opened))
}
