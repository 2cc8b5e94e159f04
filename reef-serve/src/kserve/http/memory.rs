//! Shared memory of the system.

use super::json::object;
use super::reply::{App, Reply};
use crate::error::{Error, Result};
use crate::kserve::failure::Failure;
use crate::net::identity::peer::Peer;
use crate::requests::regions::Region;
use crate::server::Server;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{any, get, post};
use axum::{Extension, Json, Router};
use serde_json::{Map, Value, json};
use std::sync::Arc;

type From = Extension<Peer>;

pub(super) fn routes() -> Router<Arc<Server>> {
    let none = || async { Failure(Error::Unimplemented("CUDA shared memory".into())) };
    Router::new()
        .route("/v2/systemsharedmemory/status", get(all))
        .route("/v2/systemsharedmemory/unregister", post(forget_all))
        .route("/v2/systemsharedmemory/region/{name}/status", get(one))
        .route("/v2/systemsharedmemory/region/{name}/register", post(register))
        .route("/v2/systemsharedmemory/region/{name}/unregister", post(forget))
        .route("/v2/cudasharedmemory/{*path}", any(none))
}

async fn all(State(server): App, Extension(peer): From) -> Reply<Json<Value>> {
    Ok(status(&server, &peer, "")?)
}

async fn one(
    State(server): App,
    Extension(peer): From,
    Path(name): Path<String>,
) -> Reply<Json<Value>> {
    Ok(status(&server, &peer, &name)?)
}

fn status(server: &Server, peer: &Peer, name: &str) -> Result<Json<Value>> {
    let regions = server.regions.status(peer, name)?;
    let entry = |(name, region): (String, Region)| {
        let (key, offset, bytes) = (region.key, region.offset, region.bytes);
        json!({ "name": name, "key": key, "offset": offset, "byte_size": bytes })
    };
    Ok(Json(regions.into_iter().map(entry).collect()))
}

async fn register(
    State(server): App,
    Extension(peer): From,
    Path(name): Path<String>,
    body: Bytes,
) -> Reply<()> {
    let asked = object(&body)?;
    let key = asked.get("key").and_then(Value::as_str);
    let key = key.ok_or_else(|| Error::Invalid("shared memory: no key".into()))?;
    let (offset, bytes) = (number(&asked, "offset")?, number(&asked, "byte_size")?);
    Ok(server.register(&peer, &name, key, offset, bytes)?)
}

fn number(asked: &Map<String, Value>, key: &str) -> Result<u64> {
    match asked.get(key) {
        None => Ok(0),
        Some(value) => value
            .as_u64()
            .ok_or_else(|| Error::Invalid(format!("shared memory: {key} is no number from 0"))),
    }
}

async fn forget(State(server): App, Extension(peer): From, Path(name): Path<String>) {
    server.regions.unregister(&peer, &name);
}

async fn forget_all(State(server): App, Extension(peer): From) {
    server.regions.unregister(&peer, "");
}
