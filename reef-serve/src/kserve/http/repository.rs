//! Models that come and go.

use super::json::object;
use super::reply::{App, Reply};
use crate::error::Error;
use crate::models::registry::Indexed;
use crate::name::ModelName;
use crate::net::identity::peer::Peer;
use crate::server::Server;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v2/repository/index", post(index))
        .route("/v2/repository/models/{model}/load", post(load))
        .route("/v2/repository/models/{model}/unload", post(unload))
}

async fn index(
    State(server): App,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Reply<Json<Value>> {
    let ready = object(&body)?.get("ready").and_then(Value::as_bool).unwrap_or(false);
    let here = server.clone();
    let listed = server.parsers.aside(&peer.principal, move || here.registry.index()).await?;
    let listed = listed.into_iter().filter(|i| i.ready || !ready);
    let entry = |i: Indexed| {
        let version = i.version.map(|v| v.to_string()).unwrap_or_default();
        json!({ "name": i.name.as_str(), "version": version, "state": i.state(), "reason": "" })
    };
    Ok(Json(listed.map(entry).collect()))
}

async fn load(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(model): Path<String>,
    body: Bytes,
) -> Reply<()> {
    if let Some(Value::Object(parameters)) = object(&body)?.get("parameters")
        && let Some(key) = parameters.keys().next()
    {
        return Err(Error::Unimplemented(format!("load with parameter {key:?}")).into());
    }
    Ok(server.load(&peer, ModelName::new(&model)?).await?)
}

async fn unload(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(model): Path<String>,
) -> Reply<()> {
    Ok(server.unload(&peer, ModelName::new(&model)?).await?)
}
