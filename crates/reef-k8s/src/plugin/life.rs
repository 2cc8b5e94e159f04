//! One resource, from one kubelet to the next.

use super::proto::RegisterRequest;
use super::proto::device_plugin_server::DevicePluginServer;
use super::proto::registration_client::RegistrationClient;
use super::service::{Service, options};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::node::state::State;
use crate::resource::Resource;
use crate::socket::{Fate, Identity, OwnSocket, connect, identity};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Server;

/// The version of the interface.
const VERSION: &str = "v1beta1";
/// Longest time for open calls to end.
const GRACE: Duration = Duration::from_secs(1);

/// A resource that is offered.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) config: Arc<Config>,
    pub(super) resource: Resource,
    pub(super) state: watch::Receiver<State>,
}

/// Registration that this plugin has sent to a kubelet.
#[derive(Debug)]
struct Announcement {
    /// The kubelet's socket when it took the registration.
    kubelet: Option<Identity>,
    /// When the resource was last watched, or registered.
    watched: Instant,
    /// When to try again, and how long to wait after that.
    next: Instant,
    wait: Duration,
}

impl Life {
    /// Offers the resource until it is dropped, again whenever its socket is removed.
    ///
    /// # Errors
    ///
    /// Another plugin has taken the socket.
    pub(super) async fn offer(self) -> Result<()> {
        let path = self.config.kubelet.join(self.resource.endpoint());
        loop {
            match self.offer_once(&path).await {
                Ok(Fate::Taken) => {
                    let path = path.display();
                    return Err(Error::Failed(format!("{path}: another plugin has taken it")));
                }
                Ok(_) => tracing::info!("{}: its socket was removed", self.resource.name()),
                Err(error) => {
                    tracing::warn!("{}: {error}", self.resource.name());
                    sleep(self.config.pace.retry).await;
                }
            }
        }
    }

    /// Offers it until its socket isn't its own any more.
    async fn offer_once(&self, path: &Path) -> Result<Fate> {
        let (own, incoming) = OwnSocket::bind(path)?;
        let (until, end) = watch::channel(());
        let service = self.service(end.clone());
        let server = Server::builder()
            .add_service(DevicePluginServer::new(service.clone()))
            .serve_with_incoming_shutdown(incoming, ended(end));
        let mut server = tokio::spawn(server);
        let fate = tokio::select! {
            fate = self.tend(&own, &service) => Ok(fate),
            _ = &mut server => Err(Error::Failed(format!("{}: the server has ended", path.display()))),
        };
        drop(until); // streams end, and no call comes in
        if timeout(GRACE, &mut server).await.is_err() {
            server.abort();
        }
        fate
    }

    fn service(&self, end: watch::Receiver<()>) -> Service {
        let (config, resource) = (self.config.clone(), self.resource.clone());
        Service { config, resource, state: self.state.clone(), watched: Arc::new(()), end }
    }

    /// Registers at each kubelet that comes, as long as the socket is our own.
    async fn tend(&self, own: &OwnSocket, service: &Service) -> Fate {
        let pace = self.config.pace;
        let now = Instant::now();
        let mut announced =
            Announcement { kubelet: None, watched: now, next: now, wait: pace.sockets };
        loop {
            match own.fate() {
                Fate::Kept => self.tell(&mut announced, service.watchers() > 0).await,
                fate => return fate,
            }
            sleep(pace.sockets).await;
        }
    }

    /// Registers if the kubelet is another one, or hasn't watched for long.
    async fn tell(&self, announced: &mut Announcement, is_watched: bool) {
        let (pace, now) = (self.config.pace, Instant::now());
        let socket = self.config.kubelet.join("kubelet.sock");
        let kubelet = identity(&socket);
        if is_watched {
            announced.watched = now;
        }
        let is_known = kubelet == announced.kubelet && now - announced.watched < pace.unwatched;
        if kubelet.is_none() || is_known || now < announced.next {
            return;
        }
        match register(&socket, &self.resource).await {
            Ok(()) => {
                tracing::info!("{} is registered", self.resource.name());
                let now = Instant::now();
                *announced = Announcement { kubelet, watched: now, next: now, wait: pace.sockets };
            }
            Err(error) => {
                tracing::warn!("{}: {error}", self.resource.name());
                announced.next = Instant::now() + announced.wait;
                announced.wait = pace.retry.min(announced.wait * 2);
            }
        }
    }
}

/// Registers a resource at the kubelet's socket.
async fn register(socket: &Path, resource: &Resource) -> Result<()> {
    let request = RegisterRequest {
        version: VERSION.into(),
        endpoint: resource.endpoint(),
        resource_name: resource.name(),
        options: Some(options()),
    };
    let mut kubelet = RegistrationClient::new(connect(socket).await?);
    let answer = kubelet.register(request).await;
    let refused = |status: tonic::Status| {
        Error::Failed(format!("{}: {}", socket.display(), status.message()))
    };
    answer.map(drop).map_err(refused)
}

/// Waits until the sender is dropped.
async fn ended(mut end: watch::Receiver<()>) {
    while end.changed().await.is_ok() {}
}
