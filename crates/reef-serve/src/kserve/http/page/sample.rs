//! State of the daemon at one moment, for the page. Times and counts only grow.

use crate::class::Class;
use crate::observe::devices::DeviceSnapshot;
use crate::observe::latency::Counts;
use crate::observe::triton::ModelFigures;
use crate::residency::facts::Residency;
use crate::server::Server;
use crate::tenants::tenant::Tenant;
use reef_guest::limit::JobView;
use reef_guest::page;
use reef_guest::registry::GuestView;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// State of the daemon at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) taken: Instant,
    /// Time since 1970.
    pub(super) time: Duration,
    /// Latencies of answered requests, for each of [`Class::ALL`].
    pub(super) latencies: [Counts; 2],
    pub(super) devices: Vec<DeviceSnapshot>,
    pub(super) models: Vec<ModelUse>,
    pub(super) programs: Vec<ProgramUse>,
    pub(super) connections: usize,
}

/// A loaded version of a model.
#[derive(Debug, Clone)]
pub(super) struct ModelUse {
    pub(super) figures: ModelFigures,
    pub(super) bytes: u64,
    /// Processes that are on the GPU on demand.
    pub(super) residency: Vec<Residency>,
}

/// Use of a device by a client of the daemon in one class, or by an unmodified program.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProgramUse {
    /// Differs from all others', over time as well.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) class: Class,
    /// Device time that it had.
    pub(super) ran: Duration,
    /// Time for which it waited for others on the device.
    pub(super) held: Duration,
    pub(super) memory: Option<u64>,
    /// `None` for clients, whose state is not known.
    pub(super) is_held: Option<bool>,
}

impl Sample {
    /// Reads the state. Takes the locks that metrics take.
    pub(super) fn take(server: &Server) -> Self {
        let (latencies, devices) = (server.observer.latencies.counts(), server.devices_now());
        let clocks = server.nodes.iter().map(|node| node.clock());
        let mut programs: Vec<_> =
            server.tenants.all(clocks).iter().flat_map(|tenant| clients(tenant)).collect();
        programs.extend(guests(server));
        Self {
            taken: Instant::now(),
            time: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            latencies,
            devices,
            models: models(server),
            programs,
            connections: server.clients.in_use().iter().sum(),
        }
    }
}

fn models(server: &Server) -> Vec<ModelUse> {
    let sizes = server.registry.memory();
    let residents = server.observer.residents.get().map(|all| all.all()).unwrap_or_default();
    let figures = server.registry.figures().into_iter().map(|figures| {
        let is_same = |of: &crate::observe::metrics::ModelLabels| {
            of.model == figures.model && of.version == figures.version
        };
        let bytes = sizes.iter().find(|(of, _)| is_same(of)).map_or(0, |(_, bytes)| *bytes);
        let mut residency = residents.clone();
        residency
            .retain(|one| one.name.model == figures.model && one.name.version == figures.version);
        ModelUse { figures, bytes, residency }
    });
    figures.collect()
}

/// Returns the use of a client in each class that it used.
fn clients(tenant: &Tenant) -> impl Iterator<Item = ProgramUse> {
    let (name, memory) = (tenant.principal.to_string(), tenant.memory());
    let times = tenant.served().into_iter().zip(tenant.held());
    let each = Class::ALL.into_iter().zip(times).map(move |(class, (ran, held))| ProgramUse {
        key: format!("{name} {}", class.name()),
        name: name.clone(),
        class,
        ran,
        held,
        memory: Some(memory),
        is_held: None,
    });
    each.filter(|one| !one.ran.is_zero() || !one.held.is_zero())
}

/// Returns the use of each unmodified program. The daemon's own work has its clients' lines.
fn guests(server: &Server) -> Vec<ProgramUse> {
    let registry = server.observer.guests.lock().0.upgrade();
    let mut guests = registry.map(|registry| registry.guests()).unwrap_or_default();
    guests.retain(|guest| guest.who.pid != std::process::id());
    let audit = server.observer.limits.get();
    let jobs = audit.map(|audit| audit.read().jobs()).unwrap_or_default();
    guests.iter().map(|guest| guest_use(guest, &jobs)).collect()
}

fn guest_use(guest: &GuestView, jobs: &[JobView]) -> ProgramUse {
    let is_real_time = guest.who.class == page::Class::RealTime;
    let GuestView { who, job, .. } = guest;
    let of_job = if job.is_empty() { String::new() } else { format!(", job {job}") };
    ProgramUse {
        key: format!("guest {}", who.guest),
        name: format!("{} (pid {}{of_job})", program(who.pid), who.pid),
        class: if is_real_time { Class::RealTime } else { Class::BestEffort },
        ran: guest.busy,
        held: if is_real_time { Duration::ZERO } else { guest.held }, // it holds others
        memory: memory(guest, jobs),
        is_held: Some(!is_real_time && guest.is_active),
    }
}

/// Returns the device memory of a guest, which is known if it has a limit.
fn memory(guest: &GuestView, jobs: &[JobView]) -> Option<u64> {
    let own = jobs.iter().filter(|job| job.device == guest.device && job.name == guest.job);
    let mut processes = own.flat_map(|job| &job.processes);
    let process = processes.find(|process| process.pid == guest.who.pid)?;
    Some(process.used.saturating_add(process.overhead))
}

/// Returns the name that a process gave itself.
#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn program(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm"));
    let text = |name: Vec<u8>| String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned();
    name.map_or_else(|_| "program".into(), text)
}
