//! `reef serve`: the daemon.

use crate::report::log;
use crate::report::output::print;
use anyhow::{Context, Result};
use reef_serve::config::{SET, from_sources};
use reef_serve::{Config, Endpoints};
use std::path::PathBuf;

/// Serve inference to other processes, over the protocol of KServe v2 and Triton.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Log format. REEF_LOG sets the level, which is info without it.
    #[arg(long, value_enum, default_value = "text")]
    log: log::Format,
    /// Validate configuration, files, ports, device and models; print the effective configuration
    /// and exit.
    #[arg(long)]
    check: bool,
}

/// Sources of a configuration.
#[derive(clap::Args)]
pub(crate) struct Sources {
    /// Configuration file (TOML). REEF_SERVE__SECTION__KEY in the environment overrides it, options
    /// override both.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Device: auto (a GPU if there is one), cpu:0, or several of one backend, such as
    /// cuda:0,cuda:1 or cuda:* [default: auto].
    #[arg(long)]
    device: Option<String>,
    /// Folder of the Unix sockets [default: $XDG_RUNTIME_DIR/reef, or /tmp/reef-UID].
    #[arg(long = "socket-dir", value_name = "DIR")]
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
    /// Models to load at the start; * for all of the repository.
    #[arg(long, value_delimiter = ',')]
    load: Option<Vec<String>>,
    /// Let unmodified programs register (`reef exec`).
    #[arg(long)]
    guests: bool,
    /// Set any other key of the configuration, such as limits.queue=16.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let mut is_quoted = false;
    let is_end = |c: char| {
        is_quoted ^= c == '"';
        c == '=' && !is_quoted
    };
    let end = text.find(is_end).or_else(|| text.find('=')).ok_or("must be KEY=VALUE")?;
    Ok((text[..end].trim().into(), text[end + 1..].into()))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let read = reader(&args.sources);
    let config = read()?;
    if args.check {
        reef_serve::check(&config)?;
        return print(as_toml(&config)?);
    }
    let log = log::start(args.log)?;
    reef_serve::on_log_level(move |level| log.set_level(level));
    reef_serve::run_reloading(read, |endpoints| announce(endpoints).unwrap_or_default())?;
    Ok(())
}

/// Reads the configuration: now, and when it may have changed.
pub(crate) fn reader(
    args: &Sources,
) -> impl Fn() -> reef_serve::Result<Config> + Send + Sync + use<> {
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

/// The configuration as a file that says the same.
pub(crate) fn as_toml(config: &Config) -> Result<String> {
    Ok(toml::to_string(config).context("configuration")?.trim_end().to_owned())
}

/// A string that TOML reads as one, whatever it holds.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Prints the device and each address: one line each, for people and for scripts.
fn announce(endpoints: &Endpoints) -> Result<()> {
    print(format_args!("device {}", endpoints.device))?;
    print(format_args!("folder {}", endpoints.folder.display()))?;
    for (name, address) in [("grpc", endpoints.grpc), ("http", endpoints.http)] {
        if let Some(address) = address {
            print(format_args!("{name} {address}"))?;
        }
    }
    print("ready")
}
