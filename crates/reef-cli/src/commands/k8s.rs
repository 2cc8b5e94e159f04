//! `reef k8s`: both classes for the pods of a Kubernetes node.

use crate::report::log;
use anyhow::Result;
use reef_k8s::{
    ClaimsConfig, Class, Config, ContainerLimit, Error, Node, Pace, Resource, Server,
    SuspendedMemory,
};
use std::path::PathBuf;

/// Place of the library that shows limits of memory.
const NVML_SHIM: &str = "/var/lib/reef/libreef_nvml_shim.so";

/// Services of a node for Kubernetes.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Offer the resources reef.dev/rt and reef.dev/be to the kubelet of this node, until SIGTERM.
    Plugin(Args),
    /// Prepare claims of class, memory and share (resource.k8s.io/v1) for pods of this node, until
    /// SIGTERM.
    Dra(DraArgs),
    /// Set the kernel's limit of a container's device memory: container runtimes run it as a hook.
    DmemHook(HookArgs),
}

/// Paths are the node's: they are mounted into containers.
#[derive(clap::Args)]
pub(crate) struct OnNode {
    /// Host root prefix for /proc/driver/nvidia and /dev.
    #[arg(long, default_value = "/")]
    root: PathBuf,
    /// Folder of the daemon's sockets.
    #[arg(long = "socket-dir", value_name = "DIR", default_value = "/run/reef")]
    folder: PathBuf,
    /// Library that takes the driver's place.
    #[arg(long, default_value = "/var/lib/reef/libreef_cuda_shim.so")]
    shim: PathBuf,
    /// Driver's file (libcuda.so.1), to mount the library over [default: the library is preloaded].
    #[arg(long)]
    driver: Option<PathBuf>,
    /// Library that shows limits of memory as the management library [default:
    /// /var/lib/reef/libreef_nvml_shim.so, if it is there].
    #[arg(long, value_name = "FILE")]
    nvml_shim: Option<PathBuf>,
    /// Folder of one set of accounts for all containers, which must run as root [default: each has
    /// its own].
    #[arg(long)]
    accounts: Option<PathBuf>,
    /// File with a token that real-time containers show to the daemon.
    #[arg(long, value_name = "FILE")]
    rt_token_file: Option<PathBuf>,
    /// Log format. REEF_LOG sets the level, which is info without it.
    #[arg(long, value_enum, default_value = "text")]
    log: log::Format,
}

/// Resources to offer to the kubelet, and paths of the node.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    on: OnNode,
    /// Kubelet's folder for device plugins.
    #[arg(long, default_value = "/var/lib/kubelet/device-plugins")]
    kubelet: PathBuf,
    /// Folder to write a CDI file to: containers get mounts and device nodes by name.
    #[arg(long)]
    cdi: Option<PathBuf>,
    /// Number of real-time containers on each GPU.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    rt_replicas: u32,
    /// Limit of device memory of each real-time container, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    rt_memory: Option<String>,
    /// Share of the device's time of each real-time container, such as 30%.
    #[arg(long, value_name = "SHARE")]
    rt_compute: Option<String>,
    /// Number of best-effort containers on each GPU.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    be_replicas: u32,
    /// Limit of device memory of each best-effort container, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    be_memory: Option<String>,
    /// Share of the device's time of each best-effort container, such as 30%.
    #[arg(long, value_name = "SHARE")]
    be_compute: Option<String>,
}

/// Use of the memory of suspended programs, as [`SuspendedMemory`] says.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Memory {
    Count,
    GiveBack,
    GiveBackAll,
}

/// Options of prepared claims.
#[derive(clap::Args)]
pub(crate) struct DraArgs {
    #[command(flatten)]
    on: OnNode,
    /// Name of this node in Kubernetes.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// Kubelet's folder for plugins' own files.
    #[arg(long, default_value = "/var/lib/kubelet/plugins")]
    plugins: PathBuf,
    /// Folder in which the kubelet looks for plugins.
    #[arg(long, default_value = "/var/lib/kubelet/plugins_registry")]
    registry: PathBuf,
    /// Folder of CDI files.
    #[arg(long, default_value = "/var/run/cdi")]
    cdi: PathBuf,
    /// This command's file on the node, by which the kernel (dmem) keeps limits of memory too
    /// [default: the library alone keeps them].
    #[arg(long, value_name = "FILE")]
    dmem_hook: Option<PathBuf>,
    /// Device memory of each GPU, such as 141GiB, of which claims ask for parts [default: memory
    /// isn't counted].
    #[arg(long, value_name = "SIZE")]
    gpu_memory: Option<String>,
    /// Memory of suspended programs: keep it counted, or give it back to other claims; all: also
    /// memory that the daemon took for a real-time program.
    #[arg(long, value_enum, value_name = "USE", default_value = "count")]
    suspended_memory: Memory,
    /// Address of the API server [default: the one that Kubernetes gives to pods].
    #[arg(long, value_name = "HOST:PORT")]
    api: Option<String>,
    /// CA bundle for the API server.
    #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")]
    api_ca: PathBuf,
    /// File with a token for the API server.
    #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token")]
    api_token_file: PathBuf,
}

/// Limit of a container, whose state is read from standard input.
#[derive(clap::Args)]
pub(crate) struct HookArgs {
    /// Most bytes of each GPU's memory.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    max: u64,
    /// PCI address of a GPU, such as 0000:3b:00.0. May be repeated.
    #[arg(long = "gpu", value_name = "ADDRESS", required = true)]
    gpus: Vec<String>,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Plugin(args) => plugin(args),
        Command::Dra(args) => dra(args),
        Command::DmemHook(args) => hook(args),
    }
}

fn dra(args: &DraArgs) -> Result<()> {
    let config = claims(args)?;
    config.check()?;
    let server = server(args)?;
    log::start(args.on.log)?;
    Ok(reef_k8s::run_claims(&config, server)?)
}

fn hook(args: &HookArgs) -> Result<()> {
    let limit = ContainerLimit { max: args.max, gpus: args.gpus.clone() };
    Ok(limit.set(std::io::stdin().lock())?)
}

fn claims(args: &DraArgs) -> Result<ClaimsConfig> {
    let named = |text: &String| {
        let size = reef_guest::limit::bytes(text);
        size.map_err(|why| refused(format!("--gpu-memory {text:?}: {why}")))
    };
    Ok(ClaimsConfig {
        node: node(&args.on),
        name: args.node.clone(),
        plugins: args.plugins.clone(),
        registry: args.registry.clone(),
        cdi: args.cdi.clone(),
        dmem_hook: args.dmem_hook.clone(),
        memory: args.gpu_memory.as_ref().map(named).transpose()?,
        suspended: match args.suspended_memory {
            Memory::Count => SuspendedMemory::Count,
            Memory::GiveBack => SuspendedMemory::GiveBack,
            Memory::GiveBackAll => SuspendedMemory::GiveBackAll,
        },
        pace: Pace::default(),
    })
}

fn server(args: &DraArgs) -> Result<Server> {
    let (host, port) = match &args.api {
        Some(api) => {
            let wrong = || refused(format!("--api must be HOST:PORT, got {api:?}"));
            let (host, port) = api.rsplit_once(':').ok_or_else(wrong)?;
            (host.to_owned(), port.to_owned())
        }
        None => (of_pod("KUBERNETES_SERVICE_HOST")?, of_pod("KUBERNETES_SERVICE_PORT")?),
    };
    let wrong = |_| refused(format!("{port:?} isn't a port of the API server"));
    let port = port.parse().map_err(wrong)?;
    Ok(Server { host, port, authority: args.api_ca.clone(), token: args.api_token_file.clone() })
}

fn of_pod(variable: &str) -> Result<String> {
    let none = |_| refused(format!("no API server: {variable} isn't set; --api names one"));
    std::env::var(variable).map_err(none)
}

fn refused(line: String) -> anyhow::Error {
    Error::Refused(line).into()
}

fn plugin(args: &Args) -> Result<()> {
    let config = config(args);
    config.check()?;
    log::start(args.on.log)?;
    Ok(reef_k8s::run(&config)?)
}

fn node(args: &OnNode) -> Node {
    let is_there = |path: &PathBuf| path.is_file();
    Node {
        root: args.root.clone(),
        daemon: args.folder.clone(),
        shim: args.shim.clone(),
        driver: args.driver.clone(),
        nvml: args.nvml_shim.clone().or_else(|| Some(NVML_SHIM.into()).filter(is_there)),
        accounts: args.accounts.clone(),
        token: args.rt_token_file.clone(),
    }
}

fn config(args: &Args) -> Config {
    let (rt, be) = (Class::RealTime, Class::BestEffort);
    let resource = |class, replicas, memory: &Option<String>, compute: &Option<String>| Resource {
        class,
        replicas,
        memory: memory.clone(),
        compute: compute.clone(),
    };
    Config {
        node: node(&args.on),
        kubelet: args.kubelet.clone(),
        cdi: args.cdi.clone(),
        resources: vec![
            resource(rt, args.rt_replicas, &args.rt_memory, &args.rt_compute),
            resource(be, args.be_replicas, &args.be_memory, &args.be_compute),
        ],
        pace: Pace::default(),
    }
}
