//! `reef remote serve`: lends this machine's devices to programs of other machines.

#[cfg(feature = "daemon")]
use super::remote_carry::{
    Migrate, Ps, Restore, Snapshot, run_migrate, run_ps, run_restore, run_snapshot,
};
use crate::report::usage::Usage;
use anyhow::Result;
use reef::op::Operators;
use reef::remote::server::{DeviceHost, Devices, Host, Listener, Security, Tenants};
use reef::{Visit, with_device};
#[cfg(feature = "daemon")]
use reef_remote_worker::{WorkerOptions, Workers};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Lend this machine's devices to programs elsewhere.
    Serve(Serve),
    /// List this machine's sessions of programs that use the CUDA driver.
    #[cfg(feature = "daemon")]
    Ps(Ps),
    /// Move such a session to another server while its program runs.
    #[cfg(feature = "daemon")]
    Migrate(Migrate),
    /// Write such a session to a folder.
    #[cfg(feature = "daemon")]
    Snapshot(Snapshot),
    /// Continue such a session from a folder, at a server.
    #[cfg(feature = "daemon")]
    Restore(Restore),
    /// Serve one program, as `serve` asks.
    #[cfg(feature = "daemon")]
    #[command(hide = true)]
    Session {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
}

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
    /// File with the token that clients must have, of at least 16 bytes.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of tenants: `[rights."token NAME"]` with token_file, sessions and memory.
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
        let text = format!("device: must be one of this machine, without options, got {name:?}");
        return Err(reef::Error::Invalid(text));
    }
    with_device(name, visit)?
}

pub(crate) fn run(command: Command) -> Result<()> {
    let Serve { listen, own, programs, token_file, rights, cert, key } = match command {
        Command::Serve(serve) => serve,
        #[cfg(feature = "daemon")]
        Command::Ps(command) => return run_ps(&command),
        #[cfg(feature = "daemon")]
        Command::Migrate(command) => return run_migrate(&command),
        #[cfg(feature = "daemon")]
        Command::Snapshot(command) => return run_snapshot(&command),
        #[cfg(feature = "daemon")]
        Command::Restore(command) => return run_restore(&command),
        #[cfg(feature = "daemon")]
        Command::Session { args } => {
            return reef_remote_worker::run_worker(args.into_iter()).map_err(anyhow::Error::msg);
        }
    };
    let address = listen.parse().map_err(|e| Usage(format!("--listen: {e}")))?;
    let usage = |e: reef::Error| match e {
        reef::Error::Invalid(text) => anyhow::Error::from(Usage(text)),
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
    let server = devices.for_tenants(&security.tenants).serve(security.tokens().map_err(usage)?);
    let listener = Listener::bind(&address, &security).map_err(usage)?;
    println!("listening on {}", listener.address());
    if let Some(programs) = programs {
        serve_programs(&programs, &security)?;
    }
    listener.run(&server, |error| eprintln!("reef: {error}"));
    Ok(())
}

/// Accepts programs that use the CUDA driver.
#[cfg(feature = "daemon")]
fn serve_programs(address: &str, security: &Security) -> Result<()> {
    use super::exec::library::{SHIM, library};
    let address = address.parse().map_err(|e| Usage(format!("--programs: {e}")))?;
    let mut options = WorkerOptions::new(std::env::current_exe()?);
    options.command = ["remote", "session"].map(Into::into).into();
    options.security = security.clone();
    if std::env::var_os("REEF_GUESTS").is_some_and(|socket| !socket.is_empty()) {
        options.driver = Some(library(SHIM, None, "REEF_SHIM")?);
    }
    let workers = Workers::bind(&address, options).map_err(|e| match e {
        reef::Error::Invalid(text) => anyhow::Error::from(Usage(text)),
        other => other.into(),
    })?;
    println!("listening on {} for programs", workers.address());
    std::thread::Builder::new().name("reef-programs".into()).spawn(move || workers.run())?;
    Ok(())
}

#[cfg(not(feature = "daemon"))]
fn serve_programs(_: &str, _: &Security) -> Result<()> {
    anyhow::bail!(Usage("--programs: this build has no such sessions (feature daemon)".into()))
}
