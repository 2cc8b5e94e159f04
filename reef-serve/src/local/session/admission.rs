//! How a client comes in: what it asks for, whether it may have that, and its memory.

use super::instance::Shared;
use super::predict::Expected;
use super::serve::Session;
use crate::class::{Class, Priority};
use crate::config::rights::Over;
use crate::config::settings::Config;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::local::fd_passing::{receive, send};
use crate::local::handshake::{CLIENT_HELLO_LEN, ClientHello, ServerHello};
use crate::local::segment::{FIRST, Layout, Segment};
use crate::models::budget::{Reservation, within};
use crate::models::loaded_model::LoadedModel;
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::Connected;
use crate::net::identity::principal::Principal;
use crate::server::Server;
use crate::tenants::registry::check_rated;
use crate::tenants::tenant::{MemoryTaken, Tenant};
use reef::Account;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a client may take to say what it wants.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// Hears what the client wants and gives it its memory.
///
/// # Errors
///
/// Why it may not come in.
pub(super) fn come_in<'a>(
    server: &Server,
    stream: &'a UnixStream,
    id: ClientId,
    who: Principal,
    stop: &'a AtomicBool,
) -> Result<Session<'a>> {
    let hello = receive_hello(stream)?;
    let config = server.config.get();
    let tenant = server.tenants.of(&who);
    let priority = priority_of(&config, &tenant, &hello)?; // before a model is loaded for it
    let model = model_of(server, &config, &tenant, hello.model.as_str())?;
    let entered = model.node().enter(); // before the client hears of it and the next one comes
    let standing = Standing::of(server, &config, (&tenant, priority, &hello), model.node())?;
    if !model.base.inputs.is_floats() || !model.base.outputs.is_floats() {
        let text = format!("{}: this path is for one input and one output, of FP32", model.title());
        return Err(Error::Unimplemented(text));
    }
    let stay = server.clients.stay_local(standing.class)?;
    let slots = config.limits.ring as u32;
    let layout = Layout { slots, input: model.base.inputs.bytes, output: model.base.outputs.bytes };
    let memory = take_memory(server, &config, &tenant, &model, &standing, layout)?;
    let (segment, fd) = Segment::create(layout)?;
    let instances = standing.instances(&model, &tenant, &segment);
    let instances = instances.map_err(|error| model.node().told(error))?; // may take a second
    let (class, has_budget) = (standing.class, standing.has_budget);
    let accepted = ServerHello::Accepted { id: id.number, class, has_budget, layout };
    send(stream, &accepted.to_bytes(), Some(&fd))?;
    let title = format!("{} {class}, {id}", model.title());
    Ok(Session {
        stream,
        stop,
        id,
        instance_id: server.observer.tracer.instance(&title),
        class,
        account: standing.account,
        tenant,
        _entered: entered,
        spin: config.times.spin(),
        max_time: config.times.request(),
        answered: FIRST,
        instances,
        expected: Expected::default(),
        model,
        segment,
        _memory: memory,
        _stay: stay,
        _connected: standing.connected,
    })
}

/// What a client gets of what it asked for.
struct Standing {
    class: Class,
    /// What its requests are charged to, if that is not its tenant's account.
    account: Option<Account>,
    has_budget: bool,
    /// Whether its requests can become best-effort.
    demotes: bool,
    connected: Connected,
}

impl Standing {
    fn of(
        server: &Server,
        config: &Config,
        (tenant, mut priority, hello): (&Arc<Tenant>, Priority, &ClientHello),
        node: &Node,
    ) -> Result<Self> {
        let (life, connected) = Connected::new();
        let mut account = None;
        if let Some(rate) = hello.rate {
            let at = (node.index, node.clock());
            (priority, account) = server.tenants.claim(tenant, &life, priority, rate, at)?;
        }
        let class = priority.class();
        let is_own = account.as_ref().map_or(class == Class::RealTime, |own| own.rate().is_some());
        let has_rate = hello.rate.is_some() || tenant.grant().rate.is_some();
        let demotes = has_rate && class == Class::RealTime && config.rt.over == Over::BestEffort;
        let has_budget = hello.rate.is_some() && is_own;
        Ok(Self { class, account, has_budget, demotes, connected })
    }

    /// Whether it has an instance of this class.
    fn has(&self, class: Class) -> bool {
        class == self.class || self.demotes
    }

    /// Its instances, as [`Class::EACH`].
    fn instances(
        &self,
        model: &LoadedModel,
        tenant: &Tenant,
        segment: &Segment,
    ) -> Result<[Option<Shared>; 2]> {
        let make =
            |each| self.has(each).then(|| Shared::new(model, each, tenant, segment)).transpose();
        Ok([make(Class::RealTime)?, make(Class::BestEffort)?])
    }
}

/// The place of its requests, if it may have that.
fn priority_of(config: &Config, tenant: &Tenant, hello: &ClientHello) -> Result<Priority> {
    let priority = tenant.priority(0, hello.class, config.models.class)?;
    hello.rate.map_or(Ok(()), |rate| check_rated(priority, rate))?;
    Ok(priority)
}

/// The model that it names, which is loaded if it may do that: a right of its own.
fn model_of(
    server: &Server,
    config: &Config,
    tenant: &Tenant,
    name: &str,
) -> Result<Arc<LoadedModel>> {
    match config.models.on_demand && tenant.grant().control {
        true => server.registry.get_or_load(name),
        false => server.registry.get(name, ""),
    }
}

/// Reserves what its instances take of the device, and its shared memory of the host.
fn take_memory(
    server: &Server,
    config: &Config,
    tenant: &Arc<Tenant>,
    model: &LoadedModel,
    standing: &Standing,
    layout: Layout,
) -> Result<([Reservation; 2], MemoryTaken)> {
    let count = Class::EACH.into_iter().filter(|&each| standing.has(each)).count();
    let (instances, segment) = (count as u64 * model.base.sizes.instance, layout.bytes() as u64);
    let bytes = instances + segment;
    let what = format!("a client of {}", model.title());
    within(&what, bytes, config.memory.client_mib << 20)?;
    let taken = tenant.take_memory(bytes, most_memory(config, &tenant.who))?;
    let of_device = model.budget().reserve(&what, instances)?;
    Ok(([of_device, server.registry.budget().reserve(&what, segment)?], taken))
}

/// What clients of `who` may take on the device: users who were let in leave room for others.
fn most_memory(config: &Config, who: &Principal) -> u64 {
    match (config.memory.total_mib << 20, who.is_owner()) {
        (0, _) | (_, true) => u64::MAX,
        (all, false) => config.limits.part(all),
    }
}

/// What a client wants.
fn receive_hello(stream: &UnixStream) -> Result<ClientHello> {
    let wrong = |e: &dyn std::fmt::Display| Error::system("socket", e);
    stream.set_nonblocking(false).map_err(|e| wrong(&e))?;
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(|e| wrong(&e))?;
    stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(|e| wrong(&e))?;
    let mut bytes = [0; CLIENT_HELLO_LEN];
    receive(stream, &mut bytes)?;
    ClientHello::from_bytes(&bytes)
}
