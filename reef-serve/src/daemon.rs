//! The daemon as a whole: opens its devices, listens, and ends in order.
//!
//! On SIGTERM or SIGINT it takes no more connections and requests, answers those that it has for as
//! long as [`Times::drain_ms`](crate::config::Times) says, unloads everything and returns. A
//! service manager is told of each step.

use crate::config::settings::Config;
use crate::endpoints::{WaysIn, configured};
use crate::error::{Error, Result};
use crate::guests::service::Guests;
use crate::kserve::grpc::serve as grpc;
use crate::kserve::http::serve as http;
use crate::malloc::give_back_in_pieces;
use crate::models::config::upload::remove_abandoned;
use crate::net::identity::auth::Tokens;
use crate::net::listener::Listener;
use crate::net::quota::admission::Admission;
use crate::net::quota::descriptors::raise_limit;
use crate::reload::{Files, Source, hangups, outlive_hangup, reload_at};
use crate::server::Server;
use crate::systemd::activation::Passed;
use crate::systemd::notify;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How long connections may take to close when no request is open any more.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the daemon until a signal ends it. `ready` is told where it listens, once it does.
///
/// # Errors
///
/// What keeps it from starting; a listener that fails.
pub fn run(config: Config, ready: impl FnOnce(&Places)) -> Result<()> {
    run_reloading(move || Ok(config.clone()), ready)
}

/// The same with a configuration that is read again at each SIGHUP. Rights and what else may change
/// do then; what takes a restart is named in the log.
///
/// # Errors
///
/// As [`run`], and what `read` says at the start; later that is logged.
pub fn run_reloading(
    read: impl Fn() -> Result<Config> + Send + Sync + 'static,
    ready: impl FnOnce(&Places),
) -> Result<()> {
    give_back_in_pieces();
    raise_limit();
    outlive_hangup()?; // from the first model on
    let passed = Passed::take()?;
    let config = read()?;
    remove_abandoned();
    let server = Server::open(configured(config.clone(), &passed))?; // before there are threads for anything else
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("reef-io")
        .enable_all()
        .build()
        .map_err(|e| Error::system("no threads for connections", e))?;
    let done = runtime.block_on(serve(&server, passed, Source::new(read, config), ready));
    runtime.shutdown_timeout(CLOSE_TIMEOUT);
    server.registry.clear();
    done
}

/// Where the daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The device, or the devices, for people.
    pub device: String,
    /// Folder of `grpc.sock`, `http.sock`, `local.sock` and, if guests may register, `guests.sock`.
    pub folder: PathBuf,
    /// TCP address of gRPC.
    pub grpc: Option<std::net::SocketAddr>,
    /// TCP address of HTTP.
    pub http: Option<std::net::SocketAddr>,
}

async fn serve(
    server: &Arc<Server>,
    passed: Passed,
    source: Source,
    ready: impl FnOnce(&Places),
) -> Result<()> {
    let tokens = Arc::new(Tokens::read(&server.config.get())?);
    let ways = WaysIn::open(server, &tokens, passed)?;
    let WaysIn { grpc, http, local, folder, certificates, sockets } = ways;
    let guests = Guests::start(server, &tokens, &folder, sockets.access)?;
    let address = |listeners: &[Listener]| listeners.iter().find_map(Listener::address);
    let device = server.device();
    let places = Places { device, folder, grpc: address(&grpc), http: address(&http) };

    let (end, ended) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for listener in grpc {
        tasks.spawn(grpc::serve(server.clone(), tokens.clone(), listener, wait(ended.clone())));
    }
    for listener in http {
        let serve = http::serve(server.clone(), tokens.clone(), listener, wait(ended.clone()));
        tasks.spawn(async move {
            serve.await;
            Ok(())
        });
    }
    tokio::spawn(prune(server.clone()));
    tokio::spawn(notify::give_signs_of_life(server.clone()));
    let files = Arc::new(Files { source, tokens, tls: certificates });
    tokio::spawn(reload_at(hangups()?, server.clone(), files));
    let signals = Signals::new()?;
    ready(&places);
    notify::ready();
    tracing::info!(device = %places.device, folder = %places.folder.display(), "ready");
    let failed = tokio::select! {
        () = signals.next() => None,
        done = tasks.join_next() => done, // a listener that ends by itself has failed
    };
    notify::stopping();
    server.clients.close();
    let local = tokio::task::spawn_blocking(|| local.stop());
    drain(&server.requests, server.config.get().times.drain()).await;
    leave(local, CLOSE_TIMEOUT, || server.nodes.iter().any(|node| node.lost().is_some())).await;
    drop(guests); // real-time guests go on among themselves
    let _ = end.send(true);
    let closed = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await; // idle connections are cut off
    drop(sockets);
    failed.map_or(Ok(()), |done| done.unwrap_or_else(|e| Err(Error::system("a listener", e))))
}

/// Forgets shared memory whose clients are gone, and networks of shapes that nobody uses, until the
/// runtime ends.
async fn prune(server: Arc<Server>) {
    loop {
        tokio::time::sleep(CLOSE_TIMEOUT).await;
        server.regions.prune();
        if let Some(idle) = server.config.get().times.shapes() {
            let server = server.clone();
            let expire = move || server.registry.expire_shapes(idle);
            let _ = tokio::task::spawn_blocking(expire).await; // a panic has already been printed
        }
    }
}

/// Refuses new requests and waits until those that are open have ended.
async fn drain(requests: &Admission, max: Duration) {
    requests.close();
    let begin = Instant::now();
    tracing::info!(open = requests.in_use(), "draining");
    while requests.in_use() > 0 && begin.elapsed() < max {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    match requests.in_use() {
        0 => tracing::info!(time = ?begin.elapsed(), "drained"),
        open => tracing::warn!(open, "given up"),
    }
}

/// Waits for clients of the local path: no longer than `limit` if a device is lost, where work may
/// never end.
async fn leave(mut local: JoinHandle<()>, limit: Duration, is_lost: impl Fn() -> bool) {
    // Else it has ended, or panicked and printed why.
    while tokio::time::timeout(limit, &mut local).await.is_err() {
        if is_lost() {
            return tracing::warn!("clients of a lost device given up");
        }
    }
}

async fn wait(mut ended: watch::Receiver<bool>) {
    let _ = ended.wait_for(|ended| *ended).await;
}

/// What ends the daemon.
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

impl Signals {
    fn new() -> Result<Self> {
        let wanted = |kind| signal(kind).map_err(|e| Error::system("signals", e));
        Ok(Self(wanted(SignalKind::terminate())?, wanted(SignalKind::interrupt())?))
    }

    async fn next(mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// The one that is waited for ends when the sender is dropped.
    #[test]
    fn clients_that_hang_are_waited_for_unless_a_device_is_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let hung = || {
            let (release, held) = channel::<()>();
            (release, tokio::task::spawn_blocking(move || held.recv().unwrap_or(())))
        };
        let (release, local) = hung();
        runtime.block_on(leave(local, Duration::from_millis(1), || true));
        drop(release);
        let (release, local) = hung();
        let looks = std::cell::Cell::new(Some(release));
        let is_lost = || {
            drop(looks.take());
            false
        };
        runtime.block_on(leave(local, Duration::from_millis(1), is_lost));
        assert!(looks.take().is_none(), "it was asked, and went on waiting");
    }
}
