//! `GET /reef/suspended`: guests that are off the GPU; `POST /reef/guests/NAME/suspend`, `/resume`
//! and `/move` with a process number or a job; `POST /reef/models/NAME/suspend` and `/resume` with
//! the name of a model on demand.

use super::reply::{App, Reply};
use crate::error::{Error, Result};
use crate::name::ModelName;
use crate::net::identity::peer::Peer;
use crate::residency::residents::Residents;
use crate::server::Server;
use crate::suspend::suspensions::millis;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use reef_suspend::Suspended;
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// Time for the work of a guest to end, in milliseconds.
const TIMEOUT_MS: u64 = 10_000;

/// `timeout_ms=N&to=GPU`.
#[derive(Debug, PartialEq)]
struct Options {
    timeout: Duration,
    to: Option<String>,
}

impl Options {
    fn of(uri: &Uri) -> Result<Self> {
        let mut options = Self { timeout: Duration::from_millis(TIMEOUT_MS), to: None };
        let pairs = uri.query().into_iter().flat_map(|query| query.split('&'));
        for pair in pairs {
            match pair.split_once('=') {
                Some(("timeout_ms", ms)) => {
                    let ms = ms.parse().map_err(|_| {
                        Error::Invalid(format!("timeout_ms must be a number, got {ms:?}"))
                    })?;
                    options.timeout = Duration::from_millis(ms);
                }
                Some(("to", name)) => options.to = Some(name.to_owned()),
                _ => {
                    return Err(Error::Invalid(format!(
                        "no option {pair:?} (have: timeout_ms, to)"
                    )));
                }
            }
        }
        Ok(options)
    }
}

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/reef/suspended", get(list))
        .route("/reef/guests/{guest}/suspend", post(suspend))
        .route("/reef/guests/{guest}/resume", post(resume))
        .route("/reef/guests/{guest}/move", post(move_to))
        .route("/reef/models/{model}/suspend", post(suspend_model))
        .route("/reef/models/{model}/resume", post(resume_model))
}

fn answer(all: &[Suspended]) -> Json<Value> {
    Json(json!({ "suspended": all }))
}

/// A suspended program of the list.
#[derive(Debug, Serialize)]
struct ListEntry {
    #[serde(flatten)]
    of: Suspended,
    /// `REEF_LIMIT_ID` at its start. In Kubernetes that is the UID of its claim. `None`: it is not
    /// set, or the system does not tell the daemon.
    limit_id: Option<String>,
}

impl ListEntry {
    fn new(of: Suspended) -> Self {
        let limit_id = limit_id(of.process.pid);
        Self { of, limit_id }
    }
}

/// Maximum number of bytes of a process's variables that are read.
const MAX_VARIABLES: u64 = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "of /proc")]
fn limit_id(pid: u32) -> Option<String> {
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = Vec::new();
    file.take(MAX_VARIABLES).read_to_end(&mut variables).ok()?;
    let mut variables = variables.split(|byte| *byte == 0);
    let id = variables.find_map(|one| one.strip_prefix(b"REEF_LIMIT_ID="))?;
    String::from_utf8(id.to_vec()).ok().filter(|id| !id.is_empty())
}

/// Lists suspended programs on a blocking thread, which reads their records and their variables.
async fn list(State(server): App) -> Reply<Json<Value>> {
    let here = server.clone();
    Ok(server.suspended_lists.run(move || entries(&here)).await?)
}

fn entries(server: &Server) -> Json<Value> {
    let all = server.observer.suspensions.get().map(|all| all.all()).unwrap_or_default();
    let all: Vec<_> = all.into_iter().map(ListEntry::new).collect();
    Json(json!({ "suspended": all }))
}

async fn suspend(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(guest): Path<String>,
    uri: Uri,
) -> Reply<Json<Value>> {
    let Options { timeout, .. } = Options::of(&uri)?;
    let work = server.suspending(&peer, move |all| all.suspend(&guest, timeout));
    Ok(answer(&work.await?))
}

async fn resume(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(guest): Path<String>,
) -> Reply<Json<Value>> {
    Ok(answer(&server.suspending(&peer, move |all| all.resume(&guest)).await?))
}

async fn move_to(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(guest): Path<String>,
    uri: Uri,
) -> Reply<Json<Value>> {
    let Options { timeout, to } = Options::of(&uri)?;
    let to = to.ok_or_else(|| Error::Invalid("`to` must name a GPU".into()))?;
    let work = server.suspending(&peer, move |all| all.move_to(&guest, timeout, to));
    Ok(answer(&work.await?))
}

async fn suspend_model(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(model): Path<String>,
    uri: Uri,
) -> Reply<()> {
    let Options { timeout, .. } = Options::of(&uri)?;
    millis(timeout)?; // in its range
    let suspend = move |all: &Residents, model: &str| all.suspend(model, timeout);
    Ok(server.move_model(&peer, ModelName::new(&model)?, suspend).await?)
}

async fn resume_model(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(model): Path<String>,
) -> Reply<()> {
    let resume = |all: &Residents, model: &str| all.resume(model);
    Ok(server.move_model(&peer, ModelName::new(&model)?, resume).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_suspend::{Held, Process, Steps};
    use std::time::Instant;

    #[test]
    fn suspended_program_is_listed_with_limit_id_of_its_start() {
        let program = |id: &str| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env("REEF_LIMIT_ID", id).spawn().unwrap()
        };
        let (mut named, mut none) = (program("claim-1"), program(""));
        let begin = Instant::now();
        // The system shows a process's variables a moment after it has begun.
        while limit_id(named.id()).is_none() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        let listed = |pid: u32| {
            let of = Suspended {
                process: Process { pid, start: 1 },
                name: "sleep".into(),
                held: vec![Held { device: "07".repeat(16), bytes: 5 }],
                since: 0,
                steps: Steps::default(),
                for_memory: true,
                is_swapped: false,
                swapped: Vec::new(),
            };
            serde_json::to_value(ListEntry::new(of)).unwrap()
        };
        let (first, second) = (listed(named.id()), listed(none.id()));
        for child in [&mut named, &mut none] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(first["limit_id"], "claim-1");
        assert_eq!(first["held"], json!([{ "device": "07".repeat(16), "bytes": 5 }]));
        assert_eq!((&first["for_memory"], &first["process"]["start"]), (&true.into(), &1.into()));
        assert_eq!(second["limit_id"], Value::Null);
    }

    #[test]
    fn unknown_option_is_refused_by_name() {
        let of = |query: &str| Options::of(&format!("/x?{query}").parse().unwrap());
        let timeout = Duration::from_millis(5);
        assert_eq!(
            of("timeout_ms=5&to=cuda:1"),
            Ok(Options { timeout, to: Some("cuda:1".into()) })
        );
        let error = of("time=5").unwrap_err().to_string();
        assert!(error.contains("no option \"time=5\" (have: timeout_ms, to)"), "{error}");
        assert!(of("timeout_ms=-1").is_err());
    }
}
