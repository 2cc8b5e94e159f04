//! Device calls: `GET /reef/devices` lists the daemon's devices with their state; `POST
//! /reef/devices/NAME/mark-lost` removes one.

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
        .route("/reef/devices/{device}/mark-lost", post(mark_lost))
}

/// Lists the devices on a blocking thread: one that is busy may answer late.
async fn devices(State(server): App) -> Reply<Json<Value>> {
    let here = server.clone();
    Ok(server.device_questions.run(move || list(&here)).await?)
}

fn list(server: &Server) -> Json<Value> {
    let models = server.registry.models_by_device();
    let one = |node: &Arc<Node>| {
        json!({
            "name": node.name,
            "device": node.engine.name(),
            "units": node.engine.units(),
            "load": node.load(),
            "lost": node.lost(),
            "abandoned": node.stats().abandoned,
            "models": models.get(&node.index).cloned().unwrap_or_default(),
        })
    };
    Json(json!({ "devices": server.nodes.iter().map(one).collect::<Vec<_>>() }))
}

async fn mark_lost(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(device): Path<String>,
) -> Reply<Json<Value>> {
    server.mark_lost(&peer, &device).await?;
    devices(State(server)).await
}

/// Returns the lost devices, for a probe of a degraded daemon; `None` if all devices work.
pub(super) fn degraded(server: &Server) -> Option<Value> {
    let lost = |node: &Arc<Node>| Some(json!({ "device": node.name, "lost": node.lost()? }));
    let lost: Vec<Value> = server.nodes.iter().filter_map(lost).collect();
    (!lost.is_empty()).then(|| Value::from(lost))
}

/// Returns the devices with abandoned queues, which may use their memory for ever; `None` if there
/// are none. They are counted on a blocking thread: a device that is busy may answer late.
pub(super) async fn abandoned(server: &Arc<Server>) -> Option<Value> {
    let nodes = server.nodes.clone();
    let count =
        move || with_abandoned(nodes.iter().map(|node| (&*node.name, node.stats().abandoned)));
    server.device_questions.run(count).await.ok().flatten() // a panic has already been printed
}

/// Lists devices with the number of their abandoned queues, without those that have none.
fn with_abandoned<'a>(devices: impl Iterator<Item = (&'a str, u64)>) -> Option<Value> {
    let some = devices.filter(|&(_, queues)| queues > 0);
    let some: Vec<_> =
        some.map(|(name, queues)| json!({ "device": name, "queues": queues })).collect();
    (!some.is_empty()).then(|| Value::from(some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_with_abandoned_queues_are_listed() {
        assert_eq!(with_abandoned([("cuda:0", 0), ("cuda:1", 0)].into_iter()), None);
        let some = with_abandoned([("cuda:0", 0), ("cuda:1", 2)].into_iter());
        assert_eq!(some, Some(json!([{ "device": "cuda:1", "queues": 2 }])));
    }
}
