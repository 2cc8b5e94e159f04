//! The daemon as a whole: opens its devices, admits guests, loads its models, listens, and ends in
//! order.
//!
//! On SIGTERM or SIGINT it takes no more connections and requests. It answers those that it has for
//! at most [`Times::drain_ms`](crate::config::Times), or until the next such signal, unloads
//! everything and returns. A service manager is told of each step.

use crate::config::settings::Config;
use crate::endpoints::{Listeners, Sockets, with_passed};
use crate::error::{Error, Result};
use crate::guests::service::Guests;
use crate::kserve::grpc::serve as grpc;
use crate::kserve::http::page::feed::Feed;
use crate::kserve::http::serve as http;
use crate::malloc::limit_heap_growth;
use crate::models::config::upload::remove_abandoned;
use crate::net::identity::auth::Tokens;
use crate::net::listener::Listener;
use crate::net::quota::admission::Admission;
use crate::net::quota::descriptors::raise_limit;
use crate::reload::{Files, Source, hangups, outlive_hangup, reload_at};
use crate::server::Server;
use crate::systemd::activation::PassedSockets;
use crate::systemd::notify;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Time that connections have to close after the last request was answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the daemon until a signal ends it. Calls `ready` with its addresses once it listens.
///
/// # Errors
///
/// Any error that keeps it from starting; a listener that fails.
pub fn run(config: Config, ready: impl FnOnce(&Endpoints)) -> Result<()> {
    run_reloading(move || Ok(config.clone()), ready)
}

/// Runs the daemon with a configuration that is read again at each SIGHUP. Rights and other
/// settings that may change take effect then; a setting that takes a restart is named in the log.
///
/// # Errors
///
/// Errors of [`run`] and of the first `read`; errors of later reads are logged.
pub fn run_reloading(
    read: impl Fn() -> Result<Config> + Send + Sync + 'static,
    ready: impl FnOnce(&Endpoints),
) -> Result<()> {
    limit_heap_growth();
    raise_limit();
    outlive_hangup()?; // from the first model on
    let passed = PassedSockets::take()?;
    let config = read()?;
    remove_abandoned();
    // Before other threads are started.
    let server = Server::without_models(with_passed(config.clone(), &passed))?;
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

/// Addresses at which the daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// The device or devices, in words.
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
    passed: PassedSockets,
    source: Source,
    ready: impl FnOnce(&Endpoints),
) -> Result<()> {
    let tokens = Arc::new(Tokens::read(&server.config.get())?);
    let sockets = Sockets::open(&server.config.get(), &passed)?;
    // Before the models, whose programs may be guests, and these before clients.
    let guests = Guests::start(server, &tokens, &sockets.folder, sockets.access)?;
    server.load_models()?; // blocks: nothing else runs here yet
    let listeners = Listeners::open(server, passed, sockets)?;
    let Listeners { grpc, http, local, certificates, sockets } = listeners;
    let address = |listeners: &[Listener]| listeners.iter().find_map(Listener::address);
    let (device, folder) = (server.device(), sockets.folder.clone());
    let endpoints = Endpoints { device, folder, grpc: address(&grpc), http: address(&http) };

    let (end, ended) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for listener in grpc {
        tasks.spawn(grpc::serve(server.clone(), tokens.clone(), listener, wait(ended.clone())));
    }
    let feed = Feed::new();
    tokio::spawn(feed.clone().run(server.clone()));
    for listener in http {
        let (server, tokens, feed) = (server.clone(), tokens.clone(), feed.clone());
        let serve = http::serve(server, tokens, feed, listener, wait(ended.clone()));
        tasks.spawn(async move {
            serve.await;
            Ok(())
        });
    }
    tokio::spawn(prune(server.clone()));
    tokio::spawn(notify::report_signs_of_life(server.clone()));
    let files = Arc::new(Files { source, tokens, tls: certificates });
    tokio::spawn(reload_at(hangups()?, server.clone(), files));
    let mut signals = Signals::new()?;
    ready(&endpoints);
    notify::ready();
    tracing::info!(device = %endpoints.device, folder = %endpoints.folder.display(), "serving");
    let failed = tokio::select! {
        () = signals.next() => None,
        done = tasks.join_next() => done, // a listener that ends by itself has failed
    };
    notify::stopping();
    server.clients.close();
    let local = tokio::task::spawn_blocking(|| local.stop());
    let requests = async {
        drain(&server.requests, &server.unsent, server.config.get().times.drain()).await;
        server.registry.close(); // a client of the local path may wait for a program
        leave(local, CLOSE_TIMEOUT, || server.nodes.iter().any(|node| node.lost().is_some())).await;
    };
    tokio::select! {
        () = requests => {}
        () = signals.next() => tracing::warn!("signalled again: open requests abandoned"),
    }
    drop(guests); // real-time guests go on among themselves
    feed.close();
    let _ = end.send(true);
    let closed = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await; // idle connections are cut off
    drop(sockets);
    failed.map_or(Ok(()), |done| done.unwrap_or_else(|e| Err(Error::system("a listener", e))))
}

/// Forgets shared memory of clients that have disconnected, connections without progress, networks
/// of unused shapes and unused sequences, until the runtime ends. A network may take any time to
/// leave a device that hangs, and the connections do not wait for that.
async fn prune(server: Arc<Server>) {
    let mut expiring: Option<JoinHandle<()>> = None;
    loop {
        tokio::time::sleep(CLOSE_TIMEOUT).await;
        server.regions.prune();
        server.clients.sweep();
        let (idle, server) = (server.config.get().times.shapes(), server.clone());
        start_next(&mut expiring, move || server.registry.expire_unused(idle));
    }
}

/// Starts work on a thread that may block, unless the work before it has not ended.
fn start_next(running: &mut Option<JoinHandle<()>>, work: impl FnOnce() + Send + 'static) {
    if running.as_ref().is_none_or(JoinHandle::is_finished) {
        *running = Some(tokio::task::spawn_blocking(work)); // which prints its panic
    }
}

/// Refuses new requests and waits until all open requests have ended and their answers are sent.
/// A client that reads nothing of its answer loses its connection after `times.write_ms`.
async fn drain(requests: &Admission, unsent: &Admission, max: Duration) {
    requests.close();
    let begin = Instant::now();
    tracing::info!(open = requests.in_use(), unsent = unsent.in_use(), "draining");
    // In this order: an answer is unsent before its request has ended.
    while (requests.in_use() > 0 || unsent.in_use() > 0) && begin.elapsed() < max {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    match (requests.in_use(), unsent.in_use()) {
        (0, 0) => tracing::info!(time = ?begin.elapsed(), "drained"),
        (open, unsent) => tracing::warn!(open, unsent, "requests abandoned"),
    }
}

/// Waits for clients of the local path: at most `limit` if a device is lost, because its work may
/// never end.
async fn leave(mut local: JoinHandle<()>, limit: Duration, is_lost: impl Fn() -> bool) {
    // Else it has ended, or panicked and printed why.
    while tokio::time::timeout(limit, &mut local).await.is_err() {
        if is_lost() {
            return tracing::warn!("clients of a lost device abandoned");
        }
    }
}

async fn wait(mut ended: watch::Receiver<bool>) {
    let _ = ended.wait_for(|ended| *ended).await;
}

/// Signals that end the daemon.
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

impl Signals {
    fn new() -> Result<Self> {
        let wanted = |kind| signal(kind).map_err(|e| Error::system("signals", e));
        Ok(Self(wanted(SignalKind::terminate())?, wanted(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::quota::admission::AnswerPermit;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    /// The client of the second case ends when its sender is dropped.
    #[test]
    fn hung_client_is_awaited_unless_a_device_is_lost() {
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
        let checks = std::cell::Cell::new(Some(release));
        let is_lost = || {
            drop(checks.take());
            false
        };
        runtime.block_on(leave(local, Duration::from_millis(1), is_lost));
        assert!(checks.take().is_none(), "is_lost was called, and the wait went on");
    }

    #[test]
    fn drain_waits_for_an_answer_until_it_is_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let [requests, unsent] = ["requests", "unsent answers"].map(|what| Admission::new(what, 9));
        let answer = AnswerPermit::default();
        answer.begin(&unsent);
        let part = answer.pass_on();
        drop(answer);
        runtime.block_on(async {
            let short = Duration::from_millis(20);
            let long = Duration::from_secs(3600);
            let mut drained = std::pin::pin!(drain(&requests, &unsent, long));
            assert!(tokio::time::timeout(short, &mut drained).await.is_err(), "it is not sent");
            drop(part);
            drained.await;
        });
    }

    #[test]
    fn work_that_hangs_is_neither_awaited_nor_doubled() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (release, held) = channel::<()>();
        let count = Arc::new(AtomicUsize::new(0));
        let add = |count: Arc<AtomicUsize>| move || _ = count.fetch_add(1, Ordering::SeqCst);
        runtime.block_on(async {
            let mut running = None;
            start_next(&mut running, move || held.recv().unwrap_or(()));
            start_next(&mut running, add(count.clone()));
            drop(release);
            running.take().expect("the first").await.expect("no panic");
            start_next(&mut running, add(count.clone()));
            running.take().expect("the last").await.expect("no panic");
        });
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
