//! `reef k8s`: both classes for the pods of a Kubernetes node.

use crate::report::log;
use anyhow::Result;
use reef_k8s::{Class, Config, Node, Pace, Resource};
use std::path::PathBuf;

/// What a node does for Kubernetes.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Offers the resources reef.dev/rt and reef.dev/be to the kubelet of this node, until SIGTERM.
    Plugin(Args),
}

/// Paths are the node's: they are mounted into containers.
#[derive(clap::Args)]
pub(crate) struct OnNode {
    /// What stands in front of /proc/driver/nvidia and /dev.
    #[arg(long, default_value = "/")]
    root: PathBuf,
    /// Folder of the daemon's sockets.
    #[arg(long, default_value = "/run/reef")]
    folder: PathBuf,
    /// The library that takes the driver's place.
    #[arg(long, default_value = "/var/lib/reef/libreef_cuda_shim.so")]
    shim: PathBuf,
    /// The driver's file (libcuda.so.1), over which the library is mounted [default: the library is preloaded].
    #[arg(long)]
    driver: Option<PathBuf>,
    /// A folder of root's with one set of books for all containers, which have to be root's [default: each has its own].
    #[arg(long)]
    books: Option<PathBuf>,
    /// A file with a token that real-time containers show to the daemon.
    #[arg(long, value_name = "FILE")]
    rt_token_file: Option<PathBuf>,
    /// How logs look; REEF_LOG says which there are [default: info].
    #[arg(long, value_enum, default_value = "text")]
    log: log::Format,
}

/// What is offered to the kubelet, and where.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    on: OnNode,
    /// The kubelet's folder for device plugins.
    #[arg(long, default_value = "/var/lib/kubelet/device-plugins")]
    kubelet: PathBuf,
    /// A folder for a CDI file: containers get mounts and device nodes by name.
    #[arg(long)]
    cdi: Option<PathBuf>,
    /// Real-time containers that each GPU takes.
    #[arg(long, default_value_t = 1)]
    rt: u32,
    /// Most device memory of each real-time container, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    rt_memory: Option<String>,
    /// Part of the device's time of each real-time container, such as 30%.
    #[arg(long, value_name = "SHARE")]
    rt_compute: Option<String>,
    /// Best-effort containers that each GPU takes.
    #[arg(long, default_value_t = 4)]
    be: u32,
    /// Most device memory of each best-effort container.
    #[arg(long, value_name = "SIZE")]
    be_memory: Option<String>,
    /// Part of the device's time of each best-effort container.
    #[arg(long, value_name = "SHARE")]
    be_compute: Option<String>,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    let Command::Plugin(args) = command;
    let config = config(args);
    config.check()?;
    log::start(args.on.log)?;
    Ok(reef_k8s::run(&config)?)
}

fn node(args: &OnNode) -> Node {
    Node {
        root: args.root.clone(),
        daemon: args.folder.clone(),
        shim: args.shim.clone(),
        driver: args.driver.clone(),
        books: args.books.clone(),
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
            resource(rt, args.rt, &args.rt_memory, &args.rt_compute),
            resource(be, args.be, &args.be_memory, &args.be_compute),
        ],
        pace: Pace::default(),
    }
}
