//! Admission of a client: its request, its rights and its memory.

use super::instance::ClientInstance;
use super::predict::EndPrediction;
use super::serve::Session;
use crate::class::{Class, Priority};
use crate::config::rights::OverBudget;
use crate::config::settings::Config;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::local::fd_passing::{receive, send};
use crate::local::handshake::{CLIENT_HELLO_LEN, ClientHello, ServerHello};
use crate::local::segment::{FIRST, Layout, Segment};
use crate::models::budget::{Reservation, within};
use crate::models::loaded_model::LoadedModel;
use crate::models::shaped::on_demand::Stay;
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::ConnectionGuard;
use crate::net::identity::principal::Principal;
use crate::server::Server;
use crate::tenants::registry::check_rated;
use crate::tenants::tenant::{MemoryReservation, Tenant};
use reef::Account;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time that a client has to send its hello: it may be on a busy machine.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// End of a refusal, with the other ways to the model.
const HERE: &str = "at the local endpoint (HTTP and gRPC serve it)";

/// Reads the client's request and gives it its memory.
///
/// # Errors
///
/// Reason for which it is refused.
pub(super) fn admit<'a>(
    server: &Server,
    stream: &'a UnixStream,
    id: ClientId,
    principal: Principal,
    stop: &'a AtomicBool,
) -> Result<Session<'a>> {
    let hello = receive_hello(stream)?;
    let config = server.config.get();
    let tenant = server.tenants.of(&principal);
    let priority = granted_priority(&config, &tenant, &hello)?; // before a model is loaded for it
    let model = find_model(server, &config, &tenant, hello.model.as_str())?;
    let load = model.node().enter(); // before the client hears of it and the next one comes
    let granted = GrantedSession::of(server, &config, &tenant, priority, &hello, model.node())?;
    if model.sequences.is_some() {
        let text = format!("{}: the state of sequences {HERE}", model.title());
        return Err(Error::Unimplemented(text));
    }
    if model.spec.is_process() {
        let text = format!("{}: a model that is a process {HERE}", model.title());
        return Err(Error::Unimplemented(text));
    }
    if !model.base.inputs.is_floats() || !model.base.outputs.is_floats() {
        let text = format!(
            "{}: tensors other than one FP32 input and one FP32 output {HERE}",
            model.title()
        );
        return Err(Error::Unimplemented(text));
    }
    let stay = server.clients.stay_local(granted.class)?;
    let slots = config.limits.ring as u32;
    let layout = Layout { slots, input: model.base.inputs.bytes, output: model.base.outputs.bytes };
    let is_over = || stop.load(Ordering::Acquire) || model.is_retired();
    let resident = model.stay(granted.class, config.times.request(), &is_over)?.map(Stay::keep);
    let memory = take_memory(server, &config, &tenant, &model, &granted, layout)?;
    let (segment, fd) = Segment::create(layout)?;
    let instances = granted.instances(&model, &tenant, &segment);
    let instances = instances.map_err(|error| model.node().diagnose(error))?; // may take a second
    let (class, has_budget) = (granted.class, granted.has_budget);
    let accepted = ServerHello::Accepted { id: id.number, class, has_budget, layout };
    send(stream, &accepted.to_bytes(), Some(&fd))?;
    let title = format!("{} {class}, {id}", model.title());
    Ok(Session {
        stream,
        stop,
        id,
        instance_id: server.observer.tracer.instance(&title),
        class,
        account: granted.account,
        tenant,
        _load: load,
        spin: config.times.spin(),
        max_time: config.times.request(),
        answered: FIRST,
        instances,
        prediction: EndPrediction::default(),
        model,
        segment,
        _memory: memory,
        _stay: stay,
        _resident: resident,
        _connected: granted.connected,
    })
}

/// Granted part of a client's request.
struct GrantedSession {
    class: Class,
    /// Account of its requests, if it is not its tenant's.
    account: Option<Account>,
    has_budget: bool,
    /// True if its requests can become best-effort.
    can_demote: bool,
    connected: ConnectionGuard,
}

impl GrantedSession {
    fn of(
        server: &Server,
        config: &Config,
        tenant: &Arc<Tenant>,
        mut priority: Priority,
        hello: &ClientHello,
        node: &Node,
    ) -> Result<Self> {
        let (life, connected) = ConnectionGuard::new();
        let mut account = None;
        if let Some(rate) = hello.rate {
            let (device, now) = (node.index, node.clock());
            (priority, account) =
                server.tenants.claim(tenant, &life, priority, rate, device, now)?;
        }
        let class = priority.class();
        let is_own = account.as_ref().map_or(class == Class::RealTime, |own| own.rate().is_some());
        let has_rate = hello.rate.is_some() || tenant.grant().rate.is_some();
        let can_demote =
            has_rate && class == Class::RealTime && config.rt.over == OverBudget::BestEffort;
        let has_budget = hello.rate.is_some() && is_own;
        Ok(Self { class, account, has_budget, can_demote, connected })
    }

    /// True if it has an instance of this class.
    fn has(&self, class: Class) -> bool {
        class == self.class || self.can_demote
    }

    /// Creates its instances, one for each of [`Class::ALL`].
    fn instances(
        &self,
        model: &LoadedModel,
        tenant: &Tenant,
        segment: &Segment,
    ) -> Result<[Option<ClientInstance>; 2]> {
        let make = |each| {
            self.has(each).then(|| ClientInstance::new(model, each, tenant, segment)).transpose()
        };
        Ok([make(Class::RealTime)?, make(Class::BestEffort)?])
    }
}

/// Returns the priority of its requests, if it may have that.
fn granted_priority(config: &Config, tenant: &Tenant, hello: &ClientHello) -> Result<Priority> {
    let priority = tenant.priority(0, hello.class, config.models.class)?;
    hello.rate.map_or(Ok(()), |rate| check_rated(priority, rate))?;
    Ok(priority)
}

/// Returns the model, which is loaded if the client has the right to do so.
fn find_model(
    server: &Server,
    config: &Config,
    tenant: &Tenant,
    name: &str,
) -> Result<Arc<LoadedModel>> {
    if config.models.on_demand && tenant.grant().control {
        server.registry.get_or_load(name)
    } else {
        server.registry.get(name, "")
    }
}

/// Reserves device memory for its instances, and host memory for its shared memory.
fn take_memory(
    server: &Server,
    config: &Config,
    tenant: &Arc<Tenant>,
    model: &LoadedModel,
    granted: &GrantedSession,
    layout: Layout,
) -> Result<([Reservation; 2], MemoryReservation)> {
    let count = Class::ALL.into_iter().filter(|&each| granted.has(each)).count();
    let (instances, segment) = (count as u64 * model.base.sizes.instance, layout.bytes() as u64);
    let bytes = instances + segment;
    let what = format!("a client of {}", model.title());
    within(&what, bytes, config.memory.client_mib << 20)?;
    let taken = tenant.take_memory(bytes, max_memory(config, &tenant.principal))?;
    let of_device = model.budget().reserve(&what, instances)?;
    Ok(([of_device, server.registry.budget().reserve(&what, segment)?], taken))
}

/// Returns the maximum memory of clients of `principal` on the device: users other than the owner
/// leave room for others.
fn max_memory(config: &Config, principal: &Principal) -> u64 {
    match (config.memory.total_mib << 20, principal.is_owner()) {
        (0, _) | (_, true) => u64::MAX,
        (all, false) => config.limits.part(all),
    }
}

/// Reads a client's hello.
fn receive_hello(stream: &UnixStream) -> Result<ClientHello> {
    let wrong = |e: &dyn std::fmt::Display| Error::system("socket", e);
    stream.set_nonblocking(false).map_err(|e| wrong(&e))?;
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(|e| wrong(&e))?;
    stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(|e| wrong(&e))?;
    let mut bytes = [0; CLIENT_HELLO_LEN];
    receive(stream, &mut bytes)?;
    ClientHello::from_bytes(&bytes)
}
