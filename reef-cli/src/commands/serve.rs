//! `reef serve`: the daemon.

use crate::report::log;
use crate::report::output::print;
use anyhow::Result;
use reef_serve::config::{SET, from_sources};
use reef_serve::{Config, Places};
use std::path::PathBuf;

/// Serves inference to other processes, over the protocol of KServe v2 and Triton.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A configuration (TOML). REEF_SERVE__SECTION__KEY in the environment goes before it, flags before both.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The device, or several of one backend, such as cuda:0,cuda:1 or cuda:* [default: cpu:0].
    #[arg(long)]
    device: Option<String>,
    /// Folder of the Unix sockets [default: $XDG_RUNTIME_DIR/reef].
    #[arg(long)]
    folder: Option<String>,
    /// TCP address for gRPC, such as 127.0.0.1:8001.
    #[arg(long)]
    grpc: Option<String>,
    /// TCP address for HTTP, such as 127.0.0.1:8000.
    #[arg(long)]
    http: Option<String>,
    /// Folder with a folder for each model.
    #[arg(long)]
    repository: Option<String>,
    /// Models that are loaded at the start; * is all of the repository.
    #[arg(long, value_delimiter = ',')]
    load: Option<Vec<String>>,
    /// Lets unmodified programs register (`reef exec`).
    #[arg(long)]
    guests: bool,
    /// Any other key of the configuration, such as limits.queue=16.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// How logs look; REEF_LOG says which there are [default: info].
    #[arg(long, value_enum, default_value = "text")]
    log: log::Format,
    /// Checks what a start would (token files, certificates, folder, ports, device, models), prints the configuration and ends.
    #[arg(long)]
    check: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is wanted")?;
    Ok((key.into(), value.into()))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let read = reader(args);
    let config = read()?;
    if args.check {
        reef_serve::check(&config)?;
        return print(format_args!("{config:#?}"));
    }
    let log = log::start(args.log)?;
    reef_serve::on_log_level(move |level| log.set_level(level));
    reef_serve::run_reloading(read, |places| announce(places).unwrap_or_default())?;
    Ok(())
}

/// Reads the configuration: now, and when it may have changed.
fn reader(args: &Args) -> impl Fn() -> reef_serve::Result<Config> + Send + Sync + use<> {
    let quoted = |text: &String| toml_string(text);
    let load = args
        .load
        .as_ref()
        .map(|names| format!("[{}]", names.iter().map(quoted).collect::<Vec<_>>().join(", ")));
    let named = [
        ("device", args.device.as_ref().map(quoted)),
        ("listen.folder", args.folder.as_ref().map(quoted)),
        ("listen.grpc", args.grpc.as_ref().map(quoted)),
        ("listen.http", args.http.as_ref().map(quoted)),
        ("models.repository", args.repository.as_ref().map(quoted)),
        ("models.load", load),
        ("guests.listen", args.guests.then(|| "true".to_owned())),
    ];
    let named = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let flags: Vec<_> = named.chain(args.set.iter().cloned()).collect();
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(SET))?;
        Some((name, value.to_string_lossy().into_owned()))
    });
    let (file, variables) = (args.config.clone(), variables.collect::<Vec<_>>());
    move || from_sources(file.as_deref(), variables.clone(), &flags)
}

/// A string that TOML reads as one, whatever it holds.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Says where it listens: one line for each place, for people and for scripts.
fn announce(places: &Places) -> Result<()> {
    print(format_args!("device {}", places.device))?;
    print(format_args!("folder {}", places.folder.display()))?;
    for (name, address) in [("grpc", places.grpc), ("http", places.http)] {
        if let Some(address) = address {
            print(format_args!("{name} {address}"))?;
        }
    }
    print("ready")
}
