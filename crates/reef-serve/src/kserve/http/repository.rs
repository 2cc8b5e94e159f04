//! Calls that load, unload and list models.

use super::bounded;
use super::json::{object, read};
use super::reply::{App, Reply};
use crate::error::{Error, Result};
use crate::models::config::load::{LoadParameters, LoadValue};
use crate::models::registry::lookups::IndexEntry;
use crate::name::{ModelName, excerpt};
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::server::Server;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
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
    let ready = match object(&body)?.remove("ready") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(ready)) => ready,
        Some(other) => {
            let why = format!("ready: must be true or false, got {}", excerpt(&other.to_string()));
            return Err(Error::Invalid(why).into());
        }
    };
    let listed = server.index(&peer).await?;
    let listed = listed.into_iter().filter(|i| i.is_ready || !ready);
    let entry = |i: IndexEntry| {
        let version = i.version.map(|v| v.to_string()).unwrap_or_default();
        let (name, state) = (i.name.as_str(), i.state());
        json!({ "name": name, "version": version, "state": state, "reason": i.reason })
    };
    Ok(Json(listed.map(entry).collect()))
}

async fn load(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    Path(model): Path<String>,
    body: Bytes,
) -> Reply<()> {
    let (name, bytes) = (ModelName::new(&model)?, body.len());
    charge.add(2 * bytes as u64)?; // its texts, and their decoded bytes
    let read = move || parameters(&body);
    let given = server.workers.run(&peer.principal, charge.clone(), bytes, read).await?;
    Ok(server.load(&peer, name, given, Some(charge)).await?)
}

/// Body of a load.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LoadJson {
    #[serde(deserialize_with = "bounded::load_parameters")]
    parameters: Map<String, Value>,
}

/// Reads the parameters of a load; files are in base64.
fn parameters(body: &[u8]) -> Result<LoadParameters> {
    let json: LoadJson = read(body)?;
    let mut given = LoadParameters::default();
    for (key, value) in json.parameters {
        let value = match value {
            Value::String(text) if key.starts_with("file:") => {
                let bytes = BASE64.decode(text).map_err(|e| {
                    let shown = excerpt(&key);
                    Error::Invalid(format!("{shown:?} must be base64: {e}"))
                })?;
                LoadValue::Bytes(bytes.into())
            }
            Value::String(text) => LoadValue::Text(text),
            _ => LoadValue::Other,
        };
        given.add(&key, value)?;
    }
    Ok(given)
}

async fn unload(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(model): Path<String>,
) -> Reply<()> {
    Ok(server.unload(&peer, ModelName::new(&model)?).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model would be loaded without it.
    #[test]
    fn configuration_outside_of_the_parameters_is_refused() {
        let said = parameters(br#"{"config": "{}"}"#).unwrap_err().to_string();
        assert!(said.contains("unknown field `config`"), "{said}");
        let given = parameters(br#"{"parameters": {"config": "{}"}}"#).unwrap();
        assert_ne!(given, LoadParameters::default());
    }
}
