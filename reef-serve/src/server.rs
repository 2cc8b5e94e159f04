//! The daemon without its protocols: what all of them lead to.

use crate::class::{Class, Priority};
use crate::config::live::Live;
use crate::config::settings::Config;
use crate::config::users::Users;
use crate::engine::node::{Entered, Node, Nodes};
use crate::error::{Error, Result};
use crate::models::config::load::LoadParameters;
use crate::models::declaration::Shapes;
use crate::models::loaded_model::LoadedModel;
use crate::models::registry::state::Registry;
use crate::models::repository::Repository;
use crate::models::shaped::variant::Variant;
use crate::name::ModelName;
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::{ANONYMOUS, Principal};
use crate::net::quota::admission::{Admission, Permit};
use crate::net::quota::charge::{Charge, Memory};
use crate::net::quota::clients::Clients;
use crate::net::quota::descriptors::Room;
use crate::net::quota::shares::{Share, Shares};
use crate::observe::devices::DeviceLook;
use crate::observe::exposition::Exposition;
use crate::observe::metrics::Snapshot;
use crate::observe::observer::Observer;
use crate::observe::scrapes::Scrapes;
use crate::requests::buffer_pool::Pieces;
use crate::requests::job::{Given, Job, Phases, Wanted};
use crate::requests::regions::Regions;
use crate::requests::worker_pool::Parsers;
use crate::tenants::registry::Tenants;
use crate::tenants::tenant::Tenant;
use bytes::Bytes;
use reef::Account;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Room that is kept for long messages: the memory of all clients over two to this.
const KEPT_SHIFT: usize = 5;

/// What all protocols share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Live,
    /// Its devices.
    pub(crate) nodes: Arc<[Arc<Node>]>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) regions: Regions,
    pub(crate) tenants: Tenants,
    pub(crate) observer: Arc<Observer>,
    /// Connections of all protocols.
    pub(crate) clients: Arc<Clients>,
    /// Requests of gRPC and HTTP.
    pub(crate) requests: Arc<Admission>,
    /// The same by principal, and of all who have shown nothing.
    open: Arc<Shares<Principal>>,
    open_of_anonymous: Arc<Shares<&'static str>>,
    /// What requests of gRPC and HTTP take.
    pub(crate) memory: Memory,
    pub(crate) parsers: Parsers,
    /// What long messages lie in.
    pub(crate) pieces: Arc<Pieces>,
    /// Threads on which networks are made for shapes that requests come with.
    makers: Parsers,
    scrapes: Scrapes,
}

/// A place of a request.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    _permit: Permit,
    _share: Share<Principal>,
    _of_anonymous: Option<Share<&'static str>>,
}

/// One inference, as the standard protocol asks for it.
pub(crate) struct Inference {
    pub(crate) client: ClientId,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) model: Arc<LoadedModel>,
    pub(crate) variant: Arc<Variant>,
    pub(crate) priority: Priority,
    /// What it is charged to, if that is not its tenant's account.
    pub(crate) account: Option<Account>,
    /// Its time runs from then on.
    pub(crate) arrived: Instant,
    pub(crate) timeout: Option<Duration>,
    pub(crate) inputs: Vec<Given>,
    pub(crate) outputs: Vec<Wanted>,
}

impl Server {
    /// Opens the devices and loads the models that the configuration names. Blocks.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration or the models; the device's.
    pub(crate) fn open(config: Config) -> Result<Arc<Self>> {
        config.check()?;
        let nodes = Nodes::open(&config.device, &config.scheduler, config.rt.reserve)?;
        Self::on(nodes, config)
    }

    /// The same on devices that are open.
    fn on(Nodes { all: nodes, losses }: Nodes, config: Config) -> Result<Arc<Self>> {
        let repository =
            Repository::open(config.models.repository.as_deref(), config.models.builtin)?
                .with_kernels(config.models.kernels);
        let observer = Arc::new(Observer::default());
        let registry = Arc::new(Registry::new(&nodes, repository, &config, &observer));
        registry.follow(losses)?;
        config.models.load.iter().try_for_each(|name| registry.load_named(name))?;
        Ok(Arc::new(Self {
            regions: Regions::new(config.limits.regions, config.memory.client_mib << 20),
            tenants: Tenants::new(&config, nodes.len()),
            clients: {
                let room = Room::new(config.limits.clients);
                let part = |all: usize| config.limits.part(all as u64) as usize;
                // With no other principal, the owner needs to leave no room.
                let is_alone = config.listen.users == Users::Owner;
                let user_part = if is_alone { config.limits.clients } else { part(room.unix) };
                Clients::new(room, part(room.tcp), user_part, config.limits.connects_per_second)
            },
            requests: Admission::new("requests", config.limits.open_requests),
            open: {
                let part = config.limits.part(config.limits.open_requests as u64);
                Shares::new("open requests", u64::MAX, part)
            },
            open_of_anonymous: {
                let most = config.limits.of_anonymous(config.limits.open_requests as u64);
                Shares::new("open requests", u64::MAX, most)
            },
            memory: request_memory(&config),
            parsers: Parsers::start()?,
            pieces: Pieces::new((config.memory.total_mib as usize) << 20 >> KEPT_SHIFT),
            makers: Parsers::start()?,
            scrapes: Scrapes::default(),
            config: Live::new(config),
            nodes,
            registry,
            observer,
        }))
    }

    /// The device, or the devices, for people.
    pub(crate) fn device(&self) -> String {
        let one = |node: &Arc<Node>| match node.is_alone {
            true => node.engine.name(),
            false => format!("{} ({})", node.name, node.engine.name()),
        };
        self.nodes.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Whether requests are served: it doesn't drain, and a device works.
    pub(crate) fn is_ready(&self) -> bool {
        !self.requests.is_closed() && self.nodes.iter().any(|node| node.lost().is_none())
    }

    /// Takes a device out, on a thread that may block: its models go to others.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` may not; `NotFound` if there is no such device.
    pub(crate) async fn give_up(&self, peer: &Peer, device: &str) -> Result<()> {
        self.check_control(peer)?;
        let node = self.nodes.iter().find(|node| node.name == device).ok_or_else(|| {
            let have: Vec<_> = self.nodes.iter().map(|node| &*node.name).collect();
            Error::NotFound(format!("no device {device:?} (have: {})", have.join(", ")))
        })?;
        let (node, who) = (node.clone(), peer.principal.clone());
        let give_up = move || {
            node.give_up(&format!("taken out by {who}"));
            Ok(())
        };
        aside(give_up).await
    }

    /// Takes a place for a request of `peer`; its answer should have been sent when the place is
    /// given back.
    ///
    /// # Errors
    ///
    /// As [`Admission::try_acquire`]; `Exhausted` if its principal has as many as one may have.
    pub(crate) fn request(&self, peer: &Peer) -> Result<OpenRequest> {
        let permit = self.requests.try_acquire()?;
        let share = self.open.take(peer.principal.clone(), 1)?;
        let anonymous = peer.principal.is_anonymous();
        let of_anonymous = anonymous.then(|| self.open_of_anonymous.take(ANONYMOUS, 1));
        let _of_anonymous = of_anonymous.transpose()?;
        Ok(OpenRequest { _permit: permit, _share: share, _of_anonymous })
    }

    /// Refuses `peer` what changes the daemon for others, or shows what they do, unless it has the
    /// right.
    ///
    /// # Errors
    ///
    /// `Denied`.
    pub(crate) fn check_control(&self, peer: &Peer) -> Result<()> {
        self.tenants.of(&peer.principal).grant().check_control(&peer.principal)
    }

    /// Loads a model, on a thread that may block. What `given` takes is charged, and the request
    /// has its place, until that thread is done with it, also if the client goes away.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` may not; as [`Registry::load_with`].
    pub(crate) async fn load(
        self: &Arc<Self>,
        peer: &Peer,
        name: ModelName,
        given: LoadParameters,
        charge: Option<Charge>,
    ) -> Result<()> {
        self.check_control(peer)?;
        let held = (self.requests.try_acquire()?, charge);
        let server = self.clone();
        let load = move || {
            let done = server.registry.load_with(&name, &given);
            drop(given);
            drop(held); // not before the bytes that it stands for
            done
        };
        aside(load).await
    }

    /// Unloads a model, likewise.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` may not; as [`Registry::unload`].
    pub(crate) async fn unload(self: &Arc<Self>, peer: &Peer, name: ModelName) -> Result<()> {
        self.check_control(peer)?;
        let _open = self.requests.try_acquire()?;
        let server = self.clone();
        aside(move || server.registry.unload(&name)).await
    }

    /// The network of `model` for these shapes, which is made if it isn't there: by a thread for
    /// that, one at a time for each principal.
    ///
    /// # Errors
    ///
    /// `Exhausted` if there is no room for it; `Deadline` if it isn't there in time; what is wrong
    /// with the shapes.
    pub(crate) async fn variant(
        &self,
        model: &Arc<LoadedModel>,
        tenant: &Arc<Tenant>,
        shapes: Shapes,
        (arrived, timeout): (Instant, Option<Duration>),
    ) -> Result<Arc<Variant>> {
        if let Some(variant) = model.variants.get(&shapes, &tenant.who) {
            return Ok(variant);
        }
        let config = self.config.get();
        let (time, deadline) = self.time(arrived, timeout);
        let most = match (config.memory.total_mib << 20, tenant.who.is_owner()) {
            (0, _) | (_, true) => u64::MAX,
            (all, false) => config.limits.part(all),
        };
        let (model, payer) = (model.clone(), tenant.clone());
        let make = move || model.make(&shapes, &payer, most);
        let made =
            tokio::time::timeout_at(deadline.into(), self.makers.aside(&tenant.who, (), make))
                .await;
        let late = |_| {
            Error::Deadline(format!(
                "timed out after {time:?}, a network for its shapes was not there"
            ))
        };
        made.map_err(late)?
    }

    /// How long a request may take that arrived then, and until when.
    fn time(&self, arrived: Instant, timeout: Option<Duration>) -> (Duration, Instant) {
        let max = self.config.get().times.request();
        let time = timeout.map_or(max, |timeout| timeout.min(max));
        (time, arrived + time)
    }

    /// Runs an inference in its turn. The output is empty if it went to a region.
    ///
    /// # Errors
    ///
    /// `Exhausted` at once if its queue is full, or its tenant's budget used up and what is over is
    /// refused; `Deadline` when its time is over; the device's.
    pub(crate) async fn infer(&self, inference: Inference) -> Result<Vec<Vec<u8>>> {
        let Inference {
            client,
            tenant,
            model,
            variant,
            priority,
            account,
            arrived,
            timeout,
            inputs,
            outputs,
        } = inference;
        let stated = account.is_some();
        let node = model.node();
        let account = account.unwrap_or_else(|| tenant.account(node.index));
        let (time, deadline) = self.time(arrived, timeout);
        let (reply, answer) = oneshot::channel();
        let admitted = tenant.admit(priority, &account, node.clock());
        let class = admitted.as_ref().unwrap_or(&priority).class();
        let mut outcome = Outcome::new(model.clone(), class);
        let queued = admitted.and_then(|priority| {
            model.submit(Job {
                client,
                tenant,
                priority,
                account,
                stated,
                rows: model.rows_of(class, &variant.shapes()),
                instances: variant,
                inputs,
                outputs,
                arrived: Instant::now(), // at the queue
                deadline,
                reply,
            })
        });
        let (how, phases) = match queued {
            Err(error) => (Err(error), None),
            Ok(()) => match tokio::time::timeout_at(deadline.into(), answer).await {
                Ok(Ok((how, phases))) => (how, Some(phases)),
                Ok(Err(_)) => {
                    let gone = Error::Unavailable("the model was unloaded".into());
                    (Err(model.node().explained(gone)), None)
                }
                Err(_) => (Err(Error::Deadline(format!("timed out after {time:?}"))), None),
            },
        };
        outcome.set(phases, how.as_ref().map(drop));
        how
    }

    /// The text that Prometheus reads.
    pub(crate) async fn metrics(&self, format: Exposition) -> Bytes {
        self.scrapes.text(format, || self.metrics_now()).await
    }

    /// The same at once, as OpenMetrics.
    pub(crate) fn metrics_now(&self) -> String {
        let config = self.config.get();
        let used = self.registry.device_memory();
        let devices = self.nodes.iter().zip(used).map(|(node, memory)| look(node, memory));
        self.observer.metrics.text(&Snapshot {
            devices: devices.collect(),
            sizes: self.registry.memory(),
            memory: self.registry.budget().used(),
            clients: self.clients.in_use(),
            open: self.requests.in_use(),
            request_memory: self.memory.taken(),
            models: self.registry.len(),
            depths: self.registry.depths(),
            tenants: self.tenants.all(self.nodes.iter().map(|node| node.clock())),
            reserve: config.rt.reserve,
        })
    }
}

/// A device at this moment, of which `memory` is reserved.
fn look(node: &Node, memory: u64) -> DeviceLook {
    DeviceLook {
        name: node.name.clone(),
        units: node.engine.units(),
        busy: node.busy.time(),
        stats: node.stats(),
        memory,
        load: node.load(),
        is_up: node.lost().is_none(),
    }
}

/// How a request to a model ends, which is counted once: at the latest when its client has gone.
struct Outcome {
    model: Arc<LoadedModel>,
    class: Class,
    arrived: Instant,
    is_set: bool,
    _entered: Entered,
}

impl Outcome {
    fn new(model: Arc<LoadedModel>, class: Class) -> Self {
        let entered = model.node().enter();
        Self { model, class, arrived: Instant::now(), is_set: false, _entered: entered }
    }

    /// Counts it. Without `phases`, all of its time was spent in the queue.
    fn set(&mut self, phases: Option<Phases>, how: Result<(), &Error>) {
        self.is_set = true;
        let phases = phases.unwrap_or_else(|| self.waited());
        self.model.note_answer(self.class, &phases, Some(how));
    }

    fn waited(&self) -> Phases {
        Phases { queue: self.arrived.elapsed(), ..Phases::default() }
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if !self.is_set {
            self.model.note_answer(self.class, &self.waited(), None);
        }
    }
}

/// What requests may take, and a principal and a connection of it: as much as the longest message
/// at least.
fn request_memory(config: &Config) -> Memory {
    let (memory, limits) = (&config.memory, &config.limits);
    let message = (limits.message_mib as u64) << 20;
    let all = unlimited_if_zero(memory.requests_mib);
    let anonymous = limits.of_anonymous(all).max(message);
    let connection = unlimited_if_zero(memory.connection_mib);
    Memory::new((all, anonymous), limits.part(all).max(message), connection)
}

fn unlimited_if_zero(mib: u64) -> u64 {
    if mib == 0 { u64::MAX } else { mib << 20 }
}

/// Runs what blocks on a thread for that.
pub(crate) async fn aside(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(Error::system("a thread of the daemon", e)))
}

#[cfg(test)]
mod tests;
