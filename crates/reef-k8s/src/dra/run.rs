//! The plugin for claims as a whole.

use super::api::call::Api;
use super::api::client::{Client, Server};
use super::config::{ClaimsConfig, DRIVER};
use super::driver::Driver;
use super::proto::registration::registration_server::RegistrationServer;
use super::proto::v1::dra_plugin_server::DraPluginServer;
use super::registration::DriverRegistration;
use super::slices::Slices;
use super::suspended::programs::SuspendedPrograms;
use crate::error::{Error, Result};
use crate::node::state::State;
use crate::node::violations::Violations;
use crate::shutdown::until_signal;
use crate::socket::{Fate, OwnSocket};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tonic::transport;

/// Longest time for open calls to end.
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// Prepares claims of this node, and says what can be had of it, until SIGTERM or SIGINT. Blocks.
///
/// # Errors
///
/// `Refused`, if it can't be begun; `Failed`, if the checkpoint is damaged, another plugin takes
/// over, or the system refuses.
pub fn run_claims(config: &ClaimsConfig, server: Server) -> Result<()> {
    config.check()?;
    let api = Arc::new(Client::new(server)?);
    until_signal(async |end| serve(config, api, end).await)
}

/// Does so until `end`.
pub(super) async fn serve(
    config: &ClaimsConfig,
    api: Arc<dyn Api>,
    end: impl Future<Output = ()>,
) -> Result<()> {
    config.check_paths()?;
    let home = config.home();
    std::fs::create_dir_all(&home).map_err(|error| Error::of(&home, &error))?;
    let first = State::read(&config.node, &State::default()).await;
    let (state, seen) = watch::channel(first);
    let config = Arc::new(config.clone());
    let driver = Driver { config: config.clone(), api: api.clone(), state: seen };
    let prepared = driver.replay()?;
    tracing::info!("{}; {prepared} claims are prepared", state.borrow().line());
    let mut slices = Slices::new(config.clone(), api);
    tokio::select! {
        () = end => Ok(()),
        ended = offer(&driver) => ended,
        () = poll(&config, &state, &mut slices, SuspendedPrograms::new(config.clone())) => Ok(()),
    }
}

/// Polls GPUs and daemon for ever, and keeps the slice up to date.
async fn poll(
    config: &ClaimsConfig,
    state: &watch::Sender<State>,
    slices: &mut Slices,
    mut suspended: SuspendedPrograms,
) {
    let mut violations = Violations::default();
    loop {
        let known = state.borrow().clone();
        slices.keep(&known, suspended.poll().await).await;
        violations.poll(&config.node.daemon).await;
        sleep(config.pace.health).await;
        let now = State::read(&config.node, &known).await;
        if now != known {
            tracing::info!("{}", now.line());
            state.send_replace(now);
        }
    }
}

/// Answers the kubelet at two sockets, again when one of them is removed.
async fn offer(driver: &Driver) -> Result<()> {
    let socket = Driver::socket(&driver.config);
    let registry = driver.config.registry.join(format!("{DRIVER}-reg.sock"));
    loop {
        match offer_once(driver, &socket, &registry).await? {
            Fate::Taken => {
                let path = registry.display();
                return Err(Error::Failed(format!("{path}: another plugin has taken it")));
            }
            _ => tracing::info!("a socket of driver {DRIVER} was removed"),
        }
        sleep(driver.config.pace.sockets).await;
    }
}

async fn offer_once(driver: &Driver, socket: &Path, registry: &Path) -> Result<Fate> {
    let (calls, called) = OwnSocket::bind(socket)?; // before the kubelet hears of it
    let (known, asked) = OwnSocket::bind(registry)?;
    let (until, end) = oneshot::channel::<()>();
    let server = transport::Server::builder()
        .add_service(DraPluginServer::new(driver.clone()))
        .add_service(RegistrationServer::new(DriverRegistration { endpoint: socket.to_owned() }))
        .serve_with_incoming_shutdown(called.merge(asked), async { drop(end.await) });
    let mut server = AbortOnDrop(tokio::spawn(server));
    let fate = tokio::select! {
        fate = tend([&calls, &known], driver.config.pace.sockets) => Ok(fate),
        _ = &mut server.0 => Err(Error::Failed(format!("{}: the server has ended", socket.display()))),
    };
    drop(until);
    let _ = timeout(GRACE, &mut server.0).await;
    fate
}

/// A task that is aborted when this is dropped.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until one of the sockets isn't our own any more.
async fn tend(sockets: [&OwnSocket; 2], pace: std::time::Duration) -> Fate {
    loop {
        if let Some(fate) = sockets.iter().map(|own| own.fate()).find(|fate| *fate != Fate::Kept) {
            return fate;
        }
        sleep(pace).await;
    }
}
