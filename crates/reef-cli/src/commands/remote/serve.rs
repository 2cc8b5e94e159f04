//! `reef remote serve`: lends this machine's devices to programs of other machines.

#[cfg(feature = "daemon")]
use super::control;
use super::lines::Lines;
use crate::report::output::print;
use crate::report::usage::Usage;
use anyhow::Result;
use reef::op::Operators;
use reef::remote::observe::Sessions;
use reef::remote::server::{DeviceHost, Devices, Host, Listener, Security, Tenants};
use reef::{Visit, with_device};
#[cfg(feature = "daemon")]
use reef_remote_worker::{WorkerOptions, Workers};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Address to listen on: HOST:PORT, or unix:PATH.
    ///
    /// An address that other machines can reach needs --token-file, --cert and --key.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7733")]
    listen: String,
    /// Give each client devices of its own, which it preempts at every level.
    ///
    /// Clients don't share a device then: `reef demo` and `reef bench` need this.
    #[arg(long)]
    own: bool,
    /// Also accept programs that use the CUDA driver (`reef exec --remote`), at this address.
    ///
    /// Each gets a process of its own here. With REEF_GUESTS set these are guests of that daemon.
    #[arg(long, value_name = "ADDRESS")]
    programs: Option<String>,
    /// Give each program's process a user of its own, such as 200000-200999.
    ///
    /// The server must be root. MPS, REEF_GUESTS and `compute` in --rights want one user.
    #[arg(long, value_name = "FIRST-LAST", requires = "programs", value_parser = users)]
    worker_users: Option<std::ops::RangeInclusive<u32>>,
    /// Accept programs without a token also where kernels reach all host memory (HMM, ATS).
    #[arg(long, requires = "programs")]
    allow_host_access: bool,
    /// File with the token that clients must have, of at least 16 bytes.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of tenants: `[rights."token NAME"]` with token_file, sessions, memory, rt and compute.
    ///
    /// Each client must have the token of one of them. The bounds hold for all sessions of a tenant
    /// together.
    #[arg(long, value_name = "FILE", conflicts_with = "token_file")]
    rights: Option<PathBuf>,
    /// File with the server's certificates (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// File with its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Time for which a session's thread polls for messages before it sleeps, such as 200us.
    ///
    /// Polling occupies one core, and saves the time of a wake-up.
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = reef::remote::spin)]
    spin: std::time::Duration,
    /// Serve metrics for Prometheus at this address of this machine, such as 127.0.0.1:7735.
    #[cfg(feature = "daemon")]
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Folder of the control socket [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[cfg(feature = "daemon")]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
}

/// Starts a dispatcher on a device.
struct Start;

impl Visit for Start {
    type Output = reef::Result<Arc<dyn DeviceHost>>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        Ok(Arc::new(Host::start(&device)?))
    }
}

/// Hands a device to one client.
struct Lend;

impl Visit for Lend {
    type Output = reef::Result<Arc<dyn DeviceHost>>;

    fn visit<D: Operators>(self, device: D) -> Self::Output {
        Ok(Arc::new(Host::own(&device)))
    }
}

/// Opens a device of this machine. Its options are its own, and it lends no device of others.
fn open<V>(name: &str, visit: V) -> reef::Result<Arc<dyn DeviceHost>>
where
    V: Visit<Output = reef::Result<Arc<dyn DeviceHost>>>,
{
    if name.starts_with("remote") || name.contains('?') {
        return Err(reef::Error::invalid(
            "device",
            format!("must be one of this machine, without options, got {name:?}"),
        ));
    }
    with_device(name, visit)?
}

/// Reads numbers of users.
fn users(text: &str) -> Result<std::ops::RangeInclusive<u32>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => Ok(first..=last),
        _ => Err(format!("must be FIRST-LAST, got {text:?}")),
    }
}

pub(crate) fn run(args: Serve) -> Result<()> {
    #[cfg(feature = "daemon")]
    let metrics = args.metrics.as_deref().map(control::metrics_address).transpose()?;
    #[cfg(feature = "daemon")]
    let socket_dir = args.socket_dir.clone();
    let (users, allow_host_access) = (args.worker_users.clone(), args.allow_host_access);
    let Serve { listen, own, programs, token_file, rights, cert, key, spin, .. } = args;
    let address = listen.parse().map_err(|e| Usage(format!("--listen: {e}")))?;
    let usage = |e: reef::Error| match e {
        reef::Error::Invalid(invalid) => anyhow::Error::from(Usage(invalid.to_string())),
        other => other.into(),
    };
    let tenants = rights.as_deref().map(Tenants::read).transpose().map_err(usage)?;
    let tenants = tenants.unwrap_or_default();
    let security = Security { token: token_file, cert, key, tenants };
    let devices = if own {
        Devices::each(|name| open(name, Lend))
    } else {
        Devices::shared(|name| open(name, Start))
    };
    let sessions = Sessions::default();
    let devices = devices.for_tenants(&security.tenants).listed_in(&sessions);
    let server = devices.serve(security.tokens().map_err(usage)?);
    let listener = Listener::bind(&address, &security).map_err(usage)?;
    let listener = listener.counted_in(&sessions).spin_for(spin);
    let mut listening = vec![listener.address()];
    if let Some(programs) = programs {
        let workers = Walls { users, allow_host_access };
        listening.push(serve_programs(&programs, &security, &sessions, workers)?);
    }
    #[cfg(feature = "daemon")]
    if let Err(error) = reef_remote_worker::listen_for_server(&sessions) {
        note!("reef: no commands, so `reef remote migrate` has nothing of this: {error}");
    }
    #[cfg(feature = "daemon")]
    let metrics = {
        let control = control::Control { sessions, listening: listening.clone() };
        control::start(control, socket_dir.as_deref(), metrics)?
    };
    print(format_args!("listening on {}", listening[0]))?;
    for programs in &listening[1..] {
        print(format_args!("listening on {programs} for programs"))?;
    }
    #[cfg(feature = "daemon")]
    if let Some(address) = metrics {
        print(format_args!("metrics at http://{address}/metrics"))?;
    }
    let lines = Arc::new(Lines::new());
    listener.run(&server, move |error| lines.print(error));
    Ok(())
}

/// Walls between programs.
#[cfg_attr(not(feature = "daemon"), expect(dead_code))]
struct Walls {
    users: Option<std::ops::RangeInclusive<u32>>,
    allow_host_access: bool,
}

/// Accepts programs that use the CUDA driver. Returns where.
#[cfg(feature = "daemon")]
fn serve_programs(
    address: &str,
    security: &Security,
    sessions: &Sessions,
    walls: Walls,
) -> Result<String> {
    use crate::commands::exec::library::{SHIM, library};
    let address = address.parse().map_err(|e| Usage(format!("--programs: {e}")))?;
    let mut options = WorkerOptions::new(std::env::current_exe()?);
    options.command = ["remote", "session"].map(Into::into).into();
    options.security = security.clone();
    options.sessions = sessions.clone();
    (options.users, options.allow_host_access) = (walls.users, walls.allow_host_access);
    let is_guest = std::env::var_os("REEF_GUESTS").is_some_and(|socket| !socket.is_empty());
    if is_guest || security.tenants.have_compute() {
        options.driver = Some(library(SHIM, None, "REEF_SHIM")?);
    }
    let workers = Workers::bind(&address, options).map_err(|e| match e {
        reef::Error::Invalid(invalid) => anyhow::Error::from(Usage(invalid.to_string())),
        other => other.into(),
    })?;
    let address = workers.address();
    std::thread::Builder::new().name("reef-programs".into()).spawn(move || workers.run())?;
    Ok(address)
}

#[cfg(not(feature = "daemon"))]
fn serve_programs(_: &str, _: &Security, _: &Sessions, _: Walls) -> Result<String> {
    anyhow::bail!(Usage("--programs: this build has no such sessions (feature daemon)".into()))
}
