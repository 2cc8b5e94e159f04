//! `reef ctl models`, `load`, `unload`, `suspend` and `resume`.

use crate::commands::suspend::{COPY_TIMEOUT, millis};
use crate::remote::daemon::{Daemon, DaemonAddress, segment};
use crate::remote::residency::Residency;
use crate::remote::scrape::{Labels, Scrape};
use crate::report::date::date;
use crate::report::output::print;
use crate::report::table::{Table, table};
use crate::report::time;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::{Duration, UNIX_EPOCH};

/// Longest time of a load: weights are read and kernels compiled.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest time of other requests.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: DaemonAddress,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct One {
    /// Model, as the repository calls it.
    model: String,
    #[command(flatten)]
    place: DaemonAddress,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    one: One,
    /// Longest time for its requests to end and for it to leave, such as 10s.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time::parse)]
    timeout: Duration,
}

/// A version of a model in the daemon's index.
#[derive(Deserialize, Serialize)]
pub(super) struct Model {
    name: String,
    version: String,
    state: String,
    /// Reason for which it is not served; empty if it is, or was not loaded.
    #[serde(default)]
    reason: String,
    /// Its processes, if they are on the GPU on demand.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    residency: Option<Residency>,
}

impl Model {
    /// Its state in words: the protocol has one name for a model that was not loaded and for one
    /// that cannot be served.
    fn state_text(&self) -> String {
        match (self.state.as_str(), self.reason.as_str()) {
            ("UNAVAILABLE", "") => "not loaded".into(),
            (state, "") => state.to_lowercase(),
            (state, reason) => format!("{}: {reason}", state.to_lowercase()),
        }
    }
}

/// Models that the daemon knows.
pub(super) fn index(daemon: &Daemon) -> Result<Vec<Model>> {
    let answer = daemon.post("/v2/repository/index", TIMEOUT)?;
    let mut models: Vec<Model> = serde_json::from_slice(&answer)
        .with_context(|| format!("{}: the answer is not an index of models", daemon.name()))?;
    // A server without metrics for this client has no states to list, and models all the same.
    let metrics = daemon.get("/metrics", TIMEOUT).unwrap_or_default();
    let scrape = Scrape::parse(&String::from_utf8_lossy(&metrics));
    for model in &mut models {
        let (name, version) = (&model.name, &model.version);
        let is_own =
            |of: &Labels| of.get("model") == Some(name) && of.get("version") == Some(version);
        model.residency = Residency::of(&scrape, is_own);
    }
    Ok(models)
}

pub(super) fn as_table(models: &[Model]) -> Table {
    if models.iter().all(|model| model.residency.is_none()) {
        let mut table = table(&["model", "version", "state"]);
        for model in models {
            table.add_row([model.name.as_str(), &model.version, &model.state_text()]);
        }
        return table;
    }
    let mut table = table(&["model", "version", "state", "on demand", "returns", "last return"]);
    for model in models {
        let Model { name, version, residency, .. } = model;
        let shown = |text: fn(&Residency) -> String| residency.as_ref().map(text);
        let states = shown(Residency::text).unwrap_or_default();
        let returns = shown(|residency| residency.returns.to_string()).unwrap_or_default();
        let last = residency.as_ref().and_then(|residency| residency.returned);
        let last = last.map(|seconds| Duration::from_secs(seconds as u64));
        let last = last.and_then(|last| UNIX_EPOCH.checked_add(last)).map(date).unwrap_or_default();
        table.add_row([name, version, &model.state_text(), &states, &returns, &last]);
    }
    table
}

pub(super) fn list(args: &List) -> Result<()> {
    let models = index(&args.place.daemon()?)?;
    if args.json {
        return print(serde_json::to_string_pretty(&models)?);
    }
    print(as_table(&models))
}

pub(super) fn load(args: &One) -> Result<()> {
    change(args, "/v2/repository/models", "load", "loaded", LOAD_TIMEOUT)
}

pub(super) fn unload(args: &One) -> Result<()> {
    change(args, "/v2/repository/models", "unload", "unloaded", TIMEOUT)
}

pub(super) fn suspend(args: &Suspend) -> Result<()> {
    let verb = format!("suspend?timeout_ms={}", millis(args.timeout)?);
    change(&args.one, "/reef/models", &verb, "suspended", COPY_TIMEOUT + args.timeout)
}

pub(super) fn resume(args: &One) -> Result<()> {
    change(args, "/reef/models", "resume", "resumed", TIMEOUT)
}

fn change(args: &One, models: &str, verb: &str, done: &str, time: Duration) -> Result<()> {
    let path = format!("{models}/{}/{verb}", segment(&args.model));
    args.place.daemon()?.post(&path, time)?;
    if args.json {
        return print(json!({ "model": args.model, "state": done }));
    }
    print(format_args!("{}: {done}", args.model))
}
