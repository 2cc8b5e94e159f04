//! Device calls: `GET /reef/devices` lists the daemon's devices with their state; `POST
//! /reef/devices/NAME/give-up` removes one.

use super::reply::{App, Reply};
use crate::engine::node::Node;
use crate::net::identity::peer::Peer;
use crate::server::Server;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/reef/devices", get(devices))
        .route("/reef/devices/{device}/give-up", post(give_up))
}

async fn devices(State(server): App) -> Json<Value> {
    let models = server.registry.models_by_device();
    let one = |node: &Arc<Node>| {
        json!({
            "name": node.name,
            "device": node.engine.name(),
            "units": node.engine.units(),
            "load": node.load(),
            "lost": node.lost(),
            "models": models.get(&node.index).cloned().unwrap_or_default(),
        })
    };
    Json(json!({ "devices": server.nodes.iter().map(one).collect::<Vec<_>>() }))
}

async fn give_up(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(device): Path<String>,
) -> Reply<Json<Value>> {
    server.give_up(&peer, &device).await?;
    Ok(devices(State(server)).await)
}

/// Returns the lost devices, for a probe of a degraded daemon; `None` if all devices work.
pub(super) fn degraded(server: &Server) -> Option<Value> {
    let lost = |node: &Arc<Node>| Some(json!({ "device": node.name, "lost": node.lost()? }));
    let lost: Vec<Value> = server.nodes.iter().filter_map(lost).collect();
    (!lost.is_empty()).then(|| Value::from(lost))
}
