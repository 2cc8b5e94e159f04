//! SIGHUP: reads configuration, certificates, tokens and models again, without a restart.

use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::auth::Tokens;
use crate::net::identity::client_id::Protocol;
use crate::net::tls::Tls;
use crate::server::Server;
use crate::systemd::notify;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// Source of the configuration, and the last version read from it.
pub(crate) struct Source {
    read: Box<dyn Fn() -> Result<Config> + Send + Sync>,
    last: Mutex<Config>,
}

impl Source {
    pub(crate) fn new(
        read: impl Fn() -> Result<Config> + Send + Sync + 'static,
        last: Config,
    ) -> Self {
        Self { read: Box::new(read), last: Mutex::new(last) }
    }

    /// Reads the configuration and takes over every setting that may change. Rights also change for
    /// clients that are connected.
    fn reload(&self, server: &Server) -> Result<()> {
        let fresh = (self.read)()?;
        fresh.check()?;
        let mut last = self.last.lock();
        let fixed = server.config.take_over(&last, &fresh)?;
        if !fixed.is_empty() {
            tracing::warn!(keys = fixed.join(", "), "changed keys take effect at a restart");
        }
        server.tenants.regrant(&fresh);
        if fixed.is_empty() {
            *last = fresh; // else the next reload names those keys again
        }
        Ok(())
    }
}

/// Files that a reload reads.
pub(crate) struct Files {
    pub(crate) source: Source,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) tls: Vec<(Tls, Protocol)>,
}

impl Files {
    /// Reads all of them again. An invalid one is logged, and its last version stays in use.
    fn reload(&self, server: &Server) {
        let first = self.source.reload(server);
        let config = server.config.get();
        let tls = self.tls.iter().map(|(tls, protocol)| tls.reload(&config.tls, *protocol));
        for result in [first].into_iter().chain(tls).chain([self.tokens.reload(&config)]) {
            if let Err(error) = result {
                tracing::error!(%error, "not reloaded");
            }
        }
    }
}

/// Keeps SIGHUP from ending the process from now on, also without a runtime.
///
/// # Errors
///
/// `Failed`.
pub(crate) fn outlive_hangup() -> Result<()> {
    let wrong = |e| Error::system("signals", e);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(wrong)?;
    let _inside = runtime.enter();
    hangups().map(drop) // the handler stays
}

/// Returns the stream of future SIGHUPs.
///
/// # Errors
///
/// `Failed`.
pub(crate) fn hangups() -> Result<Signal> {
    signal(SignalKind::hangup()).map_err(|e| Error::system("signals", e))
}

/// Reloads at each SIGHUP until the runtime ends. Configuration, certificates and tokens do not
/// wait for models that are loaded: a token may have been withdrawn.
pub(crate) async fn reload_at(mut hangups: Signal, server: Arc<Server>, files: Arc<Files>) {
    let wanted = Arc::new(Notify::new());
    tokio::spawn(reload_models(server.clone(), wanted.clone()));
    while hangups.recv().await.is_some() {
        tracing::info!("SIGHUP: configuration, certificates, tokens and models are read anew");
        let (server, files) = (server.clone(), files.clone());
        notify::reloading();
        let read = move || files.reload(&server);
        let _ = tokio::task::spawn_blocking(read).await; // a panic has already been printed
        wanted.notify_one();
    }
}

/// Reloads all models at each notification; those that come meanwhile count as one.
async fn reload_models(server: Arc<Server>, wanted: Arc<Notify>) {
    loop {
        wanted.notified().await;
        let server = server.clone();
        let reload = move || server.registry.reload();
        let _ = tokio::task::spawn_blocking(reload).await; // a panic has already been printed
        notify::ready();
    }
}
