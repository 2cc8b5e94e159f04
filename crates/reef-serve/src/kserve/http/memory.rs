//! Calls for shared memory of the system, and of CUDA devices.

use super::json::object;
use super::reply::{App, Reply};
use crate::error::{Error, Result};
use crate::net::identity::peer::Peer;
use crate::requests::region_memory::{Kind, Memory, SystemMemory};
use crate::requests::regions::Region;
use crate::server::Server;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v2/systemsharedmemory/status", get(all))
        .route("/v2/systemsharedmemory/unregister", post(forget_all))
        .route("/v2/systemsharedmemory/region/{name}/status", get(one))
        .route("/v2/systemsharedmemory/region/{name}/register", post(register))
        .route("/v2/systemsharedmemory/region/{name}/unregister", post(forget))
        .route("/v2/cudasharedmemory/status", get(all_cuda))
        .route("/v2/cudasharedmemory/unregister", post(forget_all_cuda))
        .route("/v2/cudasharedmemory/region/{name}/status", get(one_cuda))
        .route("/v2/cudasharedmemory/region/{name}/register", post(register_cuda))
        .route("/v2/cudasharedmemory/region/{name}/unregister", post(forget_cuda))
}

async fn all(State(server): App, Extension(peer): Extension<Peer>) -> Reply<Json<Value>> {
    Ok(status(&server, &peer, Kind::System, "")?)
}

async fn one(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
) -> Reply<Json<Value>> {
    Ok(status(&server, &peer, Kind::System, &name)?)
}

async fn all_cuda(State(server): App, Extension(peer): Extension<Peer>) -> Reply<Json<Value>> {
    server.check_cuda()?;
    Ok(status(&server, &peer, Kind::Cuda, "")?)
}

async fn one_cuda(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
) -> Reply<Json<Value>> {
    server.check_cuda()?;
    Ok(status(&server, &peer, Kind::Cuda, &name)?)
}

fn status(server: &Server, peer: &Peer, kind: Kind, name: &str) -> Result<Json<Value>> {
    let regions = server.regions.status(peer, kind, name)?;
    let entry = |(name, region): (String, Region)| {
        let bytes = region.bytes;
        match region.memory {
            Memory::System(SystemMemory { key, offset, .. }) => {
                json!({ "name": name, "key": key, "offset": offset, "byte_size": bytes })
            }
            Memory::Device(memory) => {
                let device = memory.node.cuda_ordinal();
                json!({ "name": name, "device_id": device, "byte_size": bytes })
            }
        }
    };
    Ok(Json(regions.into_iter().map(entry).collect()))
}

async fn register(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    body: Bytes,
) -> Reply<()> {
    let asked = object(&body)?;
    let key = asked.get("key").and_then(Value::as_str);
    let key = key.ok_or_else(|| Error::Invalid("shared memory: must have a key".into()))?;
    let (offset, bytes) = (number(&asked, "offset")?, number(&asked, "byte_size")?);
    Ok(server.register(&peer, &name, key, offset, bytes)?)
}

async fn register_cuda(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    body: Bytes,
) -> Reply<()> {
    server.check_cuda()?;
    let (handle, device, bytes) = cuda_region(&body)?;
    Ok(server.register_cuda(&peer, &name, handle, device, bytes).await?)
}

/// Reads the handle, the number of the device, and the bytes.
fn cuda_region(body: &[u8]) -> Result<(Bytes, i64, u64)> {
    let asked = object(body)?;
    let wrong = |why: &str| Error::Invalid(format!("shared memory: raw_handle: {why}"));
    let handle = asked.get("raw_handle").and_then(|handle| handle.get("b64")?.as_str());
    let handle = handle.ok_or_else(|| wrong("must be an object with b64"))?;
    let handle = BASE64.decode(handle).map_err(|e| wrong(&format!("must be base64: {e}")))?;
    let device = asked.get("device_id").map_or(Some(0), Value::as_i64);
    let no_device = || Error::Invalid("shared memory: device_id must be an integer".into());
    Ok((handle.into(), device.ok_or_else(no_device)?, number(&asked, "byte_size")?))
}

fn number(asked: &Map<String, Value>, key: &str) -> Result<u64> {
    match asked.get(key) {
        None => Ok(0),
        Some(value) => value.as_u64().ok_or_else(|| {
            Error::Invalid(format!(
                "shared memory: {key} must be a non-negative integer, got {value}"
            ))
        }),
    }
}

async fn forget(State(server): App, Extension(peer): Extension<Peer>, Path(name): Path<String>) {
    server.regions.unregister(&peer, Kind::System, &name);
}

async fn forget_all(State(server): App, Extension(peer): Extension<Peer>) {
    server.regions.unregister(&peer, Kind::System, "");
}

async fn forget_cuda(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
) -> Reply<()> {
    server.check_cuda()?;
    server.regions.unregister(&peer, Kind::Cuda, &name);
    Ok(())
}

async fn forget_all_cuda(State(server): App, Extension(peer): Extension<Peer>) -> Reply<()> {
    server.check_cuda()?;
    server.regions.unregister(&peer, Kind::Cuda, "");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_region_has_its_handle_in_base64() {
        let body = br#"{ "raw_handle": { "b64": "AQID" }, "device_id": 1, "byte_size": 12 }"#;
        assert_eq!(cuda_region(body), Ok((Bytes::from_static(&[1, 2, 3]), 1, 12)));
        for (body, why) in [
            ("{}", "raw_handle: must be an object with b64"),
            (r#"{ "raw_handle": "AQID" }"#, "raw_handle: must be an object with b64"),
            (r#"{ "raw_handle": { "b64": "AQI" } }"#, "raw_handle: must be base64: "),
            (
                r#"{ "raw_handle": { "b64": "" }, "device_id": "0" }"#,
                "device_id must be an integer",
            ),
            (
                r#"{ "raw_handle": { "b64": "" }, "byte_size": -1 }"#,
                "byte_size must be a non-negative integer, got -1",
            ),
        ] {
            let said = cuda_region(body.as_bytes()).unwrap_err().to_string();
            assert!(said.starts_with(&format!("shared memory: {why}")), "{body}: {said}");
        }
    }
}
