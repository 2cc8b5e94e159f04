//! The registry of guests, for as long as the daemon runs.

use super::collector::{Collector, Shown};
use super::containers::Containers;
use super::coordination::Shared;
use super::jobs::Jobs;
use super::limit_audit::{Books, Watch, nvml};
use super::mps;
use super::policy::grant;
use super::registrar::Registrar;
use super::violations::revoked::Revoked;
use super::violations::scan::Violations;
use crate::error::{Error, Result};
use crate::net::access::Access;
use crate::net::identity::auth::Tokens;
use crate::server::Server;
use reef_guest::join::Wish;
use reef_guest::registry::{Caller, Registry};
use std::path::Path;
use std::sync::Arc;

/// Guests register while it lives.
#[derive(Debug)]
pub(crate) struct Guests {
    // Before the registry, whose guest it is.
    _shared: Vec<Shared>,
    _registry: Arc<Registry>,
    _watch: Watch,
    _registrar: Option<Registrar>,
}

impl Guests {
    /// Listens at `guests.sock` in the folder, which no other daemon has, for those who may open
    /// the other sockets there. `None`: the configuration says no.
    ///
    /// # Errors
    ///
    /// `Failed`: the socket can't be made, or there is no thread.
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
        let _ = std::fs::remove_file(&path); // of a daemon that was killed
        let (of, tokens) = (server.clone(), tokens.clone());
        let own = rustix::process::getuid().as_raw();
        let revoked = Arc::<Revoked>::default();
        let taken = revoked.clone();
        let policy = Box::new(move |caller: &Caller, wish: &Wish| {
            access.admit(caller.uid).map_err(|error| error.text().to_owned())?;
            taken.check(caller.pid, wish.class)?;
            grant(&of.config.get(), &tokens, own, caller, wish)
        });
        let rules = server.config.get().guests.rules();
        let registry = Registry::open_with(&path, rules, policy)
            .map_err(|e| Error::system("guests.sock", e))?;
        access.open_socket(&path)?; // its mode was the umask's
        let registry = Arc::new(registry);
        let metrics = &server.observer.metrics;
        metrics.add(Box::new(Collector(Arc::downgrade(&registry))));
        let folder = reef_guest::limit::folder(|name| std::env::var(name).ok());
        let books = Arc::new(Books::new(folder, Box::new(nvml)));
        metrics.add(Box::new(Jobs(books.clone())));
        let violations = Arc::new(Violations::new(&registry, revoked));
        metrics.add(Box::new(Shown(violations.clone())));
        let watch = Watch::start(books, violations)
            .map_err(|e| Error::system("no thread for limits", e))?;
        let registrar = registrar(server, access)?;
        let shared = shared(server, &registry, &path)?;
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

/// The devices that have a name in other processes, each shared with its guests.
fn shared(server: &Server, registry: &Registry, socket: &Path) -> Result<Vec<Shared>> {
    let mut all = Vec::new();
    for node in &*server.nodes {
        match node.engine.uuid() {
            Some(uuid) => all.push(Shared::start(&node.engine, registry, socket, uuid)?),
            None => tracing::info!(
                device = %node.name,
                "the device has no UUID: its requests and guests' don't hold each other"
            ),
        }
    }
    Ok(all)
}

/// Where containers register, if the configuration says so.
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
