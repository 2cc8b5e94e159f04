//! State of the daemon that is common to all protocols.

use crate::class::{Class, Priority};
use crate::config::limits::Limits;
use crate::config::live::LiveConfig;
use crate::config::settings::Config;
use crate::engine::call::CallHead;
use crate::engine::node::{LoadGuard, Node, Nodes};
use crate::error::{Error, Result};
use crate::models::config::load::LoadParameters;
use crate::models::declaration::Shapes;
use crate::models::entries::EntryGuard;
use crate::models::loaded_model::LoadedModel;
use crate::models::registry::lookups::IndexEntry;
use crate::models::registry::state::Registry;
use crate::models::repository::Repository;
use crate::models::shaped::variant::Variant;
use crate::name::ModelName;
use crate::net::folder::folder;
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::{ANONYMOUS, OTHERS, Principal};
use crate::net::quota::admission::{Admission, Permit};
use crate::net::quota::charge::{Charge, Memory};
use crate::net::quota::clients::Clients;
use crate::net::quota::descriptors::SlotCounts;
use crate::net::quota::shares::{Share, Shares};
use crate::observe::devices::DeviceSnapshot;
use crate::observe::exposition::Exposition;
use crate::observe::metrics::Snapshot;
use crate::observe::observer::Observer;
use crate::observe::residency::ResidencyCollector;
use crate::observe::scrapes::Scrapes;
use crate::observe::triton::GpuCollector;
use crate::requests::buffer_pool::BufferPool;
use crate::requests::job::{BoundInput, BoundOutput, Job, Phases, reply_of};
use crate::requests::regions::Regions;
use crate::requests::serial_work::SerialWork;
use crate::requests::worker_pool::WorkerPool;
use crate::residency::mover::{Mover, SuspendingMover};
use crate::residency::networks::Movers;
use crate::residency::residents::Residents;
use crate::suspend::suspensions::{OWN_PROGRAM, Suspensions};
use crate::tenants::registry::Tenants;
use crate::tenants::tenant::Tenant;
use bytes::Bytes;
use reef::Account;
use reef_guest::slots::SlotShares;
use reef_suspend::store::Store;
use reef_suspend::{Criu, Suspended};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Shift from the memory of all clients to the memory kept in the buffer pool.
const POOL_SHIFT: usize = 5;

/// Maximum number of loads and unloads by clients at a time, and of their commands for guests and
/// devices. Each keeps one of the runtime's 512 blocking threads until it ends, also if its client
/// has gone, and a load also an open request.
const MAX_CHANGES: usize = 128;

/// State of the daemon that is common to all protocols.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: LiveConfig,
    /// Devices of the daemon.
    pub(crate) nodes: Arc<[Arc<Node>]>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) regions: Regions,
    pub(crate) tenants: Tenants,
    pub(crate) observer: Arc<Observer>,
    /// Connections of all protocols.
    pub(crate) clients: Arc<Clients>,
    /// Requests of gRPC and HTTP.
    pub(crate) requests: Arc<Admission>,
    /// Calls with answers to such requests that are not yet in the socket, and connections whose
    /// sockets take no bytes.
    pub(crate) unsent: Arc<Admission>,
    /// Loads and unloads by clients.
    pub(crate) changes: Arc<Admission>,
    /// Commands of clients for guests and devices.
    commands: Arc<Admission>,
    /// Open requests by principal, of all unauthenticated clients, and of all but the owner.
    open: Arc<Shares<Principal>>,
    open_of_anonymous: Arc<Shares<&'static str>>,
    open_of_others: Arc<Shares<&'static str>>,
    /// Memory of requests of gRPC and HTTP.
    pub(crate) memory: Memory,
    pub(crate) workers: WorkerPool,
    /// Buffers of long messages.
    pub(crate) buffers: Arc<BufferPool>,
    /// Threads of each device, by its index. They create networks for request shapes, allocate
    /// memory of sequences and map shared memory: a device that hangs keeps them, and those of
    /// other devices go on, as do those that read messages.
    pub(crate) network_workers: Vec<WorkerPool>,
    /// Threads that list the repository, whose file system may hang.
    pub(crate) repository_workers: WorkerPool,
    /// Questions to devices, and lists of suspended programs.
    pub(crate) device_questions: SerialWork,
    pub(crate) suspended_lists: SerialWork,
    scrapes: Scrapes,
}

#[derive(Debug)]
pub(crate) struct RequestSlot {
    _permit: Permit,
    _share: Share<Principal>,
    _of_anonymous: Option<Share<&'static str>>,
    _of_others: Option<Share<&'static str>>,
}

/// One inference of the standard protocol.
pub(crate) struct Inference {
    pub(crate) client: ClientId,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) model: Arc<LoadedModel>,
    pub(crate) variant: Arc<Variant>,
    /// Keeps the model's queue open until the inference is queued.
    pub(crate) entry: Option<EntryGuard>,
    pub(crate) priority: Priority,
    /// Account of the inference, if it is not its tenant's.
    pub(crate) account: Option<Account>,
    /// Begin of its timeout.
    pub(crate) arrived: Instant,
    pub(crate) timeout: Option<Duration>,
    /// Set if a process runs it.
    pub(crate) call: Option<CallHead>,
    pub(crate) inputs: Vec<BoundInput>,
    pub(crate) outputs: Vec<BoundOutput>,
}

impl Server {
    /// Opens the devices and loads the models of the configuration. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of the configuration, the models and the device.
    pub(crate) fn open(config: Config) -> Result<Arc<Self>> {
        Self::on(open_devices(&config)?, config)
    }

    /// Opens the devices. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of the configuration and the device.
    pub(crate) fn without_models(config: Config) -> Result<Arc<Self>> {
        Self::empty_on(open_devices(&config)?, config)
    }

    /// Loads the models of the configuration. Blocks.
    ///
    /// # Errors
    ///
    /// The error of the first model that cannot be loaded.
    pub(crate) fn load_models(&self) -> Result<()> {
        let config = self.config.get();
        config.models.load.iter().try_for_each(|name| self.registry.load_named(name))
    }

    /// Opens the daemon on devices that are open already, and loads its models.
    fn on(nodes: Nodes, config: Config) -> Result<Arc<Self>> {
        let server = Self::empty_on(nodes, config)?;
        server.load_models()?;
        Ok(server)
    }

    /// Opens the daemon on devices that are open already, without a model.
    fn empty_on(nodes: Nodes, config: Config) -> Result<Arc<Self>> {
        let Nodes { all: nodes, losses } = nodes;
        let repository =
            Repository::open(config.models.repository.as_deref(), config.models.builtin)?
                .with_kernels(config.models.kernels)
                .with_processes(config.models.processes);
        let observer = Arc::new(Observer::default());
        observer.metrics.add(Box::new(GpuCollector::default()));
        open_residents(&config, &observer);
        open_checkpoints(&config, &observer)?;
        let registry = Arc::new(Registry::new(&nodes, repository, &config, &observer));
        registry.follow(losses)?;
        let slot_counts = SlotCounts::new(config.limits.clients, config.limits.regions);
        Ok(Arc::new(Self {
            regions: {
                let (max, each) =
                    (slot_counts.regions, config.limits.part(slot_counts.regions as u64));
                Regions::new(
                    SlotShares::with_owner(max, each as usize),
                    config.memory.client_mib << 20,
                )
            },
            tenants: Tenants::new(&config, nodes.len()),
            clients: Clients::new(slot_counts, &config),
            requests: Admission::new("requests", config.limits.open_requests),
            unsent: Admission::new("unsent answers", usize::MAX),
            changes: Admission::new("loads and unloads", MAX_CHANGES),
            commands: Admission::new("commands for guests and devices", MAX_CHANGES),
            open: {
                let part = config.limits.part(config.limits.open_requests as u64);
                Shares::new("open requests", u64::MAX, part)
            },
            open_of_anonymous: {
                let max = config.limits.of_anonymous(config.limits.open_requests as u64);
                Shares::new("open requests", u64::MAX, max)
            },
            open_of_others: {
                let max = Limits::of_others(config.limits.open_requests as u64);
                Shares::new("open requests", u64::MAX, max)
            },
            memory: request_memory(&config),
            workers: WorkerPool::start()?,
            buffers: BufferPool::new((config.memory.total_mib as usize) << 20 >> POOL_SHIFT),
            network_workers: nodes.iter().map(|_| WorkerPool::start()).collect::<Result<_>>()?,
            repository_workers: WorkerPool::start()?,
            device_questions: SerialWork::default(),
            suspended_lists: SerialWork::default(),
            scrapes: Scrapes::default(),
            config: LiveConfig::new(config),
            nodes,
            registry,
            observer,
        }))
    }

    /// Returns the device or devices, for people.
    pub(crate) fn device(&self) -> String {
        let one = |node: &Arc<Node>| {
            if node.is_alone {
                node.engine.name()
            } else {
                format!("{} ({})", node.name, node.engine.name())
            }
        };
        self.nodes.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// True if requests are served: it does not drain, and a device works.
    pub(crate) fn is_ready(&self) -> bool {
        !self.requests.is_closed() && self.nodes.iter().any(|node| node.lost().is_none())
    }

    /// Removes a device, on a blocking thread: its models move to others.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` has no right to do so; `NotFound` for an unknown device; `Exhausted` if
    /// there are [`MAX_CHANGES`] commands.
    pub(crate) async fn mark_lost(&self, peer: &Peer, device: &str) -> Result<()> {
        self.check_control(peer)?;
        let node = self.nodes.iter().find(|node| node.name == device).ok_or_else(|| {
            let have: Vec<_> = self.nodes.iter().map(|node| &*node.name).collect();
            Error::NotFound(format!("unknown device {device:?} (have: {})", have.join(", ")))
        })?;
        let (node, principal) = (node.clone(), peer.principal.clone());
        let command = self.commands.try_acquire()?;
        let mark_lost = move || {
            let _command = command; // until it ends, also if the client has gone
            node.mark_lost(&format!("removed by {principal}"));
            Ok(())
        };
        run_blocking(mark_lost).await
    }

    /// Suspends guests, or brings them back, on a thread that may block.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` may not; `NotFound` without guests; `Exhausted` if there are
    /// [`MAX_CHANGES`] commands; the errors of `work`.
    pub(crate) async fn suspending(
        &self,
        peer: &Peer,
        work: impl FnOnce(&Suspensions) -> Result<Vec<Suspended>> + Send + 'static,
    ) -> Result<Vec<Suspended>> {
        self.check_control(peer)?;
        let without = || Error::NotFound("no guests: guests.listen must be true".into());
        let suspensions = self.observer.suspensions.get().cloned().ok_or_else(without)?;
        let command = self.commands.try_acquire()?;
        let work = move || {
            let _command = command; // until it ends, also if the client has gone
            work(&suspensions)
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|e| Err(Error::system("a thread of the daemon", e)))
    }

    /// Has a model on demand leave its device or return, on a thread that may block.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` may not; `NotFound` if it is not loaded; `Exhausted` if there are
    /// [`MAX_CHANGES`] commands; the errors of `work`.
    pub(crate) async fn move_model(
        &self,
        peer: &Peer,
        name: ModelName,
        work: impl FnOnce(&Residents, &str) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.check_control(peer)?;
        self.registry.get(name.as_str(), "")?;
        let without = || Error::Invalid("no model is on demand".into());
        let residents = self.observer.residents.get().cloned().ok_or_else(without)?;
        let command = self.commands.try_acquire()?;
        let work = move || {
            let _command = command; // until it ends, also if the client has gone
            work(&residents, name.as_str())
        };
        run_blocking(work).await
    }

    /// Takes a slot for a request of `peer`, until its answer is made. An
    /// [`AnswerPermit`](crate::net::quota::admission::AnswerPermit) lasts until it has been sent.
    ///
    /// # Errors
    ///
    /// Errors of [`Admission::try_acquire`]; `Exhausted` if its principal has used up its quota, or
    /// all but the owner theirs.
    pub(crate) fn request(&self, peer: &Peer) -> Result<RequestSlot> {
        let permit = self.requests.try_acquire()?;
        let share = self.open.take(peer.principal.clone(), 1)?;
        let is_anonymous = peer.principal.is_anonymous();
        let of_anonymous = is_anonymous.then(|| self.open_of_anonymous.take(ANONYMOUS, 1));
        let _of_anonymous = of_anonymous.transpose()?;
        let of_others = !peer.principal.is_owner();
        let of_others = of_others.then(|| self.open_of_others.take(OTHERS, 1));
        let _of_others = of_others.transpose()?;
        Ok(RequestSlot { _permit: permit, _share: share, _of_anonymous, _of_others })
    }

    /// Refuses `peer` a call that changes the daemon for others, or shows others' activity, unless
    /// it has the right `control`.
    ///
    /// # Errors
    ///
    /// `Denied`.
    pub(crate) fn check_control(&self, peer: &Peer) -> Result<()> {
        self.tenants.of(&peer.principal).grant().check_control(&peer.principal)
    }

    /// Loads a model on a blocking thread. The memory of `given` stays charged, and the request
    /// keeps its slot, until that thread is done with it, also if the client disconnects.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` has no right to do so; `Exhausted` if there are [`MAX_CHANGES`]; the
    /// errors of [`Registry::load_with`].
    pub(crate) async fn load(
        self: &Arc<Self>,
        peer: &Peer,
        name: ModelName,
        given: LoadParameters,
        charge: Option<Charge>,
    ) -> Result<()> {
        self.check_control(peer)?;
        let held = (self.requests.try_acquire()?, self.changes.try_acquire()?, charge);
        let server = self.clone();
        let load = move || {
            let done = server.registry.load_with(&name, &given);
            drop(given);
            drop(held); // after the bytes that it charges
            done
        };
        run_blocking(load).await
    }

    /// Unloads a model on a blocking thread.
    ///
    /// # Errors
    ///
    /// `Denied` if `peer` has no right to do so; `Exhausted` if there are [`MAX_CHANGES`]; the
    /// errors of [`Registry::unload`].
    pub(crate) async fn unload(self: &Arc<Self>, peer: &Peer, name: ModelName) -> Result<()> {
        self.check_control(peer)?;
        let _open = self.requests.try_acquire()?;
        let (server, change) = (self.clone(), self.changes.try_acquire()?);
        let unload = move || {
            let _change = change; // until it ends, also if the client has gone
            server.registry.unload(&name)
        };
        run_blocking(unload).await
    }

    /// Returns all versions that are loaded or could be.
    ///
    /// # Errors
    ///
    /// Errors of [`Registry::index`]; `Deadline` if the repository's file system does not answer in
    /// time.
    pub(crate) async fn index(self: &Arc<Self>, peer: &Peer) -> Result<Vec<IndexEntry>> {
        let (time, deadline) = self.time(Instant::now(), None);
        let server = self.clone();
        let list = move || server.registry.index();
        let listed = self.repository_workers.run_blocking(&peer.principal, (), list);
        let late =
            |_| Error::Deadline(format!("timed out after {time:?} while listing the repository"));
        tokio::time::timeout_at(deadline.into(), listed).await.map_err(late)?
    }

    /// Returns the network of `model` for these shapes. Creates it if necessary, on a worker
    /// thread, one at a time for each principal.
    ///
    /// # Errors
    ///
    /// `Exhausted` if there is no room for it; `Deadline` if it is not ready in time; errors of the
    /// shapes.
    pub(crate) async fn variant(
        &self,
        model: &Arc<LoadedModel>,
        tenant: &Arc<Tenant>,
        shapes: Shapes,
        arrived: Instant,
        timeout: Option<Duration>,
    ) -> Result<Arc<Variant>> {
        if let Some(variant) = model.variants.get(&shapes, &tenant.principal) {
            return Ok(variant);
        }
        let (time, deadline) = self.time(arrived, timeout);
        let max = self.max_device_bytes(tenant);
        let device = model.node().index;
        let (own, payer) = (model.clone(), tenant.clone());
        let make = move || own.make(&shapes, &payer, max);
        let made = tokio::time::timeout_at(
            deadline.into(),
            self.network_workers[device].run_blocking(&tenant.principal, (), make),
        )
        .await;
        let late = || {
            Error::Deadline(format!(
                "timed out after {time:?} while preparing the model for these shapes"
            ))
        };
        made.map_err(|_| model.late(Class::BestEffort).unwrap_or_else(late))?
    }

    /// Maximum bytes of a tenant on the device.
    pub(crate) fn max_device_bytes(&self, tenant: &Tenant) -> u64 {
        let config = self.config.get();
        match (config.memory.total_mib << 20, tenant.principal.is_owner()) {
            (0, _) | (_, true) => u64::MAX,
            (all, false) => config.limits.part(all),
        }
    }

    /// Returns the timeout and the deadline of a request that arrived at `arrived`.
    pub(crate) fn time(&self, arrived: Instant, timeout: Option<Duration>) -> (Duration, Instant) {
        let max = self.config.get().times.request();
        let time = timeout.map_or(max, |timeout| timeout.min(max));
        (time, arrived + time)
    }

    /// Runs an inference in its turn. An output is empty if it went to a region.
    ///
    /// # Errors
    ///
    /// `Exhausted` at once if its queue is full, or if its tenant has used up its budget and such
    /// requests are refused; `Deadline` when its time is over; errors of the device.
    pub(crate) async fn infer(&self, inference: Inference) -> Result<Vec<Vec<u8>>> {
        let Inference {
            client,
            tenant,
            model,
            variant,
            entry,
            priority,
            account,
            arrived,
            timeout,
            call,
            inputs,
            outputs,
        } = inference;
        let has_stated_rate = account.is_some();
        let node = model.node();
        let account = account.unwrap_or_else(|| tenant.account(node.index));
        let (time, deadline) = self.time(arrived, timeout);
        let (reply, answer) = oneshot::channel();
        // A process of the other class does not have the state of a sequence.
        let may_demote = call.as_ref().is_none_or(|call| call.sequence.is_none());
        let admitted = tenant.admit(priority, &account, node.clock(), may_demote);
        let class = admitted.as_ref().unwrap_or(&priority).class();
        let mut answer_count = AnswerCount::new(model.clone(), class);
        let rows = match &call {
            Some(call) => model.rows_of_call(class, call),
            None => model.rows_of(class, &variant.shapes()),
        };
        let queued = admitted.and_then(|priority| {
            call.iter().try_for_each(|call| call.check_class(class))?;
            model.submit(Job {
                client,
                tenant,
                priority,
                account,
                has_stated_rate,
                rows,
                instances: variant,
                call,
                inputs,
                outputs,
                arrived: Instant::now(), // at the queue
                deadline,
                reply,
            })
        });
        drop(entry);
        let awake = model.awake_for_answer(class);
        let (result, phases) = match queued {
            Err(error) => (Err(error), None),
            Ok(()) => match tokio::time::timeout_at(deadline.into(), reply_of(answer, awake)).await
            {
                Ok(Some((result, phases))) => (result, Some(phases)),
                Ok(None) => {
                    let gone = Error::Unavailable("the model was unloaded".into());
                    (Err(model.node().explain(gone)), None)
                }
                Err(_) => {
                    let late = || Error::Deadline(format!("timed out after {time:?}"));
                    (Err(model.late(class).unwrap_or_else(late)), None)
                }
            },
        };
        answer_count.set(phases, result.as_ref().map(drop));
        result
    }

    /// Returns the metrics as text, possibly shared with concurrent scrapes.
    ///
    /// # Errors
    ///
    /// Errors of [`Scrapes::text`].
    pub(crate) async fn metrics(self: &Arc<Self>, format: Exposition) -> Result<Bytes> {
        let server = self.clone();
        self.scrapes.text(format, move || server.metrics_now()).await
    }

    /// Returns the current metrics, as OpenMetrics.
    pub(crate) fn metrics_now(&self) -> String {
        let config = self.config.get();
        self.observer.metrics.text(&Snapshot {
            devices: self.devices_now(),
            sizes: self.registry.memory(),
            engines: self.registry.engines(),
            memory: self.registry.budget().used(),
            clients: self.clients.in_use(),
            open: self.requests.in_use(),
            request_memory: self.memory.taken(),
            models: self.registry.len(),
            depths: self.registry.depths(),
            figures: self.registry.figures(),
            tenants: self.tenants.all(self.nodes.iter().map(|node| node.clock())),
            reserve: config.rt.reserve,
        })
    }

    /// Returns the current state of each device.
    pub(crate) fn devices_now(&self) -> Vec<DeviceSnapshot> {
        let used = self.registry.device_memory();
        self.nodes.iter().zip(used).map(|(node, memory)| snapshot(node, memory)).collect()
    }
}

/// Opens the devices of a configuration, once it is checked.
fn open_devices(config: &Config) -> Result<Nodes> {
    config.check()?;
    config.memory.check_address_space()?;
    let (devices, why) = config.devices();
    if let Some(why) = why {
        tracing::info!("{why}");
    }
    Nodes::open(&devices, &config.scheduler, config.rt.reserve)
}

/// Prepares models that are on their device on demand, before the first one is loaded.
fn open_residents(config: &Config, observer: &Observer) {
    let listens = config.guests.listen;
    let processes = listens.then(|| process_mover(config, observer));
    let movers = Movers::new(observer.networks.clone(), processes);
    let max_away = match config.memory.away_mib {
        0 => None,
        mib => Some(mib.saturating_mul(1 << 20)),
    };
    let residents = Residents::new(Box::new(movers), max_away);
    let residents = observer.residents.get_or_init(|| residents);
    observer.metrics.add(Box::new(ResidencyCollector(residents.clone())));
}

/// Opens the folders from which processes start, if the configuration names a place for them, and
/// removes those that are beyond its bound.
///
/// # Errors
///
/// `Invalid` if other users could write to it, or the system refuses.
fn open_checkpoints(config: &Config, observer: &Observer) -> Result<()> {
    let Some(folder) = &config.models.checkpoints else { return Ok(()) };
    let store = Store::open(folder, unlimited_if_zero(config.models.checkpoints_mib));
    let store = store.map_err(|e| Error::Invalid(format!("models.checkpoints: {e}")))?;
    // Before folders are removed: the record of a start is in its folder.
    for number in store.end_interrupted() {
        tracing::warn!(number, "ended: its start from a folder had outlived its daemon");
    }
    for removed in store.trim() {
        let folder = removed.display();
        tracing::info!(%folder, "removed: models.checkpoints_mib is less than all folders take");
    }
    if let Err(why) = Criu::from_environment() {
        tracing::warn!(%why, "models.checkpoints: no process can be written");
    }
    observer.checkpoints.get_or_init(|| Arc::new(store));
    Ok(())
}

/// Returns the mover of processes.
fn process_mover(config: &Config, observer: &Observer) -> Box<dyn Mover> {
    let records = folder(config.listen.folder.as_deref()).join("suspended");
    let suspensions = Arc::new(Suspensions::new(Weak::new(), records, OWN_PROGRAM.into()));
    let mover = SuspendingMover::new(suspensions.clone());
    observer.suspensions.get_or_init(|| suspensions);
    Box::new(mover)
}

/// Returns the state of a device, of which `memory` is reserved.
fn snapshot(node: &Node, memory: u64) -> DeviceSnapshot {
    DeviceSnapshot {
        name: node.name.clone(),
        units: node.engine.units(),
        busy: node.busy.time(),
        stats: node.stats(),
        memory,
        load: node.load(),
        is_up: node.lost().is_none(),
    }
}

/// Outcome of a request to a model. It is counted once: at the latest when its client has
/// disconnected.
struct AnswerCount {
    model: Arc<LoadedModel>,
    class: Class,
    arrived: Instant,
    is_set: bool,
    _load: LoadGuard,
}

impl AnswerCount {
    fn new(model: Arc<LoadedModel>, class: Class) -> Self {
        let load = model.node().enter();
        Self { model, class, arrived: Instant::now(), is_set: false, _load: load }
    }

    /// Counts it. Without `phases`, all of its time was spent in the queue.
    fn set(&mut self, phases: Option<Phases>, outcome: Result<(), &Error>) {
        self.is_set = true;
        let phases = phases.unwrap_or_else(|| self.queue_phases());
        self.model.note_answer(self.class, &phases, Some(outcome));
    }

    fn queue_phases(&self) -> Phases {
        Phases { queue: self.arrived.elapsed(), ..Phases::default() }
    }
}

impl Drop for AnswerCount {
    fn drop(&mut self) {
        if !self.is_set {
            self.model.note_answer(self.class, &self.queue_phases(), None);
        }
    }
}

/// Returns the memory of requests, with its quotas: each at least as much as the longest message.
fn request_memory(config: &Config) -> Memory {
    let (memory, limits) = (&config.memory, &config.limits);
    let message = (limits.message_mib as u64) << 20;
    let all = unlimited_if_zero(memory.requests_mib);
    let (others, anonymous) = (Limits::of_others(all), limits.of_anonymous(all));
    let connection = unlimited_if_zero(memory.connection_mib);
    let [others, anonymous, principal] =
        [others, anonymous, limits.part(all)].map(|quota| quota.max(message));
    Memory::new(all, others, anonymous, principal, connection)
}

fn unlimited_if_zero(mib: u64) -> u64 {
    if mib == 0 { u64::MAX } else { mib << 20 }
}

/// Runs blocking work on a blocking thread.
async fn run_blocking(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(Error::system("a blocking thread", e)))
}

#[cfg(test)]
mod tests;
