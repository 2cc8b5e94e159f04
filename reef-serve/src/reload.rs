//! SIGHUP: configuration, certificates, tokens and models are read anew, and nothing ends.

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

/// Where the configuration comes from, and what was read there last.
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

    /// Reads it anew and takes over what may change. Rights change for who is connected as well.
    fn reload(&self, server: &Server) -> Result<()> {
        let fresh = (self.read)()?;
        fresh.check()?;
        let mut last = self.last.lock();
        let fixed = server.config.take_over(&last, &fresh);
        if !fixed.is_empty() {
            tracing::warn!(keys = fixed.join(", "), "changed, and take a restart");
        }
        server.tenants.regrant(&fresh);
        if fixed.is_empty() {
            *last = fresh; // or what takes a restart is named again next time
        }
        Ok(())
    }
}

/// What is read from files that may change.
pub(crate) struct Files {
    pub(crate) source: Source,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) tls: Vec<(Tls, Protocol)>,
}

impl Files {
    /// Reads all of them anew. What is wrong is said in the log, and stays as it was.
    fn reload(&self, server: &Server) {
        let first = self.source.reload(server);
        let config = server.config.get();
        let tls = self.tls.iter().map(|(tls, protocol)| tls.reload(&config.tls, *protocol));
        for how in [first].into_iter().chain(tls).chain([self.tokens.reload(&config)]) {
            if let Err(error) = how {
                tracing::error!(%error, "not reloaded");
            }
        }
    }
}

/// Keeps SIGHUP from ending the process, from now on and also without a runtime.
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

/// SIGHUPs to come.
///
/// # Errors
///
/// `Failed`.
pub(crate) fn hangups() -> Result<Signal> {
    signal(SignalKind::hangup()).map_err(|e| Error::system("signals", e))
}

/// Reloads at each SIGHUP, one after the other, until the runtime ends.
pub(crate) async fn reload_at(mut hangups: Signal, server: Arc<Server>, files: Arc<Files>) {
    while hangups.recv().await.is_some() {
        tracing::info!("SIGHUP: configuration, certificates, tokens and models are read anew");
        let (server, files) = (server.clone(), files.clone());
        let reload = move || {
            files.reload(&server);
            server.registry.reload();
        };
        notify::reloading();
        let _ = tokio::task::spawn_blocking(reload).await; // a panic has already been printed
        notify::ready();
    }
}
