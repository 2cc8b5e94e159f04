//! Metadata, configuration and statistics of server and models.

use super::devices::{abandoned, degraded};
use super::json::object;
use super::reply::{App, ModelPath, Reply};
use crate::error::{Error, Result};
use crate::kserve::middleware::Probe;
use crate::kserve::server_metadata::{NAME, extensions};
use crate::kserve::settings::{self, Settings};
use crate::models::loaded_model::LoadedModel;
use crate::models::placement::replicas::Replicas;
use crate::models::state::spec::{StatePair, StateSpec, StateTensor};
use crate::net::identity::peer::Peer;
use crate::observe::stats::Sum;
use crate::requests::batch::Batching;
use crate::server::Server;
use crate::tensor::TensorInfo;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v2", get(server))
        .route("/v2/", get(server)) // as KServe's OpenAPI has it
        .route("/v2/health/live", get(|| async { Json(json!({ "live": true })) }))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/stats", get(all_statistics))
        .route("/v2/models/{model}", get(model))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/config", get(config))
        .route("/v2/models/{model}/stats", get(statistics))
        .route("/v2/trace/setting", get(trace_settings).post(trace_settings))
        .route("/v2/models/{model}/trace/setting", get(model_trace).post(model_trace))
        .route("/v2/logging", get(log_settings).post(log_settings))
        .route("/v2/models/{model}/versions/{version}", get(model))
        .route("/v2/models/{model}/versions/{version}/ready", get(model_ready))
        .route("/v2/models/{model}/versions/{version}/config", get(config))
        .route("/v2/models/{model}/versions/{version}/stats", get(statistics))
}

async fn trace_settings(
    State(server): App,
    Extension(peer): Extension<Peer>,
    method: Method,
    body: Bytes,
) -> Reply<Json<Value>> {
    let is_recording = server.observer.tracer.is_recording();
    Ok(unchanged(&server, &peer, settings::trace(is_recording), &method, &body)?)
}

async fn model_trace(
    state: App,
    peer: Extension<Peer>,
    Path(model): Path<String>,
    method: Method,
    body: Bytes,
) -> Reply<Json<Value>> {
    state.registry.get(&model, "")?; // models have none of their own
    trace_settings(state, peer, method, body).await
}

async fn log_settings(
    State(server): App,
    Extension(peer): Extension<Peer>,
    method: Method,
    body: Bytes,
) -> Reply<Json<Value>> {
    if method == Method::POST {
        server.check_control(&peer)?;
        settings::change_log(&object(&body)?)?;
    }
    Ok(to_json(settings::log()))
}

/// Returns the settings, and refuses changes.
fn unchanged(
    server: &Server,
    peer: &Peer,
    settings: Settings,
    method: &Method,
    body: &Bytes,
) -> Result<Json<Value>> {
    if *method == Method::POST {
        server.check_control(peer)?;
        settings::check(&settings, &object(body)?)?;
    }
    Ok(to_json(settings))
}

fn to_json(settings: Settings) -> Json<Value> {
    Json(settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

async fn server(State(server): App) -> Json<Value> {
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({ "name": NAME, "version": version, "extensions": extensions(&server) }))
}

/// Returns the readiness. A probe without a token gets the status only.
async fn ready(State(server): App, probe: Option<Extension<Probe>>) -> Response {
    let degraded = degraded(&server).filter(|_| probe.is_none());
    let is_ready = server.is_ready();
    if !is_ready && degraded.is_none() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    // KServe's clients want the field; Triton's look at the status alone.
    let mut body = json!({ "ready": is_ready });
    if let Some(devices) = degraded {
        body["degraded"] = devices;
    }
    if probe.is_none()
        && let Some(devices) = abandoned(&server).await
    {
        body["abandoned"] = devices;
    }
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

/// Returns the readiness of a model, with the platform that answers for it.
async fn model_ready(State(server): App, Path(path): Path<ModelPath>) -> Response {
    let Ok(model) = server.registry.get(&path.model, &path.version) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (name, platform) = (model.spec.name.as_str(), model.spec.platform());
    Json(json!({ "name": name, "ready": true, "platform": platform })).into_response()
}

async fn model(State(server): App, Path(path): Path<ModelPath>) -> Reply<Json<Value>> {
    let model = server.registry.get(&path.model, &path.version)?;
    let versions = server.registry.versions(&model.spec.name);
    Ok(Json(json!({
        "name": model.spec.name.as_str(),
        "versions": versions.iter().map(u32::to_string).collect::<Vec<_>>(),
        "platform": model.spec.platform(),
        "inputs": model.request_inputs().map(tensor).collect::<Vec<_>>(),
        "outputs": model.answer_outputs().map(|(_, info)| tensor(info)).collect::<Vec<_>>(),
    })))
}

fn tensor(info: &TensorInfo) -> Value {
    json!({ "name": info.name, "datatype": info.datatype(), "shape": info.shape })
}

async fn config(State(server): App, Path(path): Path<ModelPath>) -> Reply<Json<Value>> {
    let model = server.registry.get(&path.model, &path.version)?;
    let (name, instances) = (model.spec.name.as_str(), model.spec.instances);
    let tensor = |info: &TensorInfo| json!({ "name": info.name, "data_type": info.config_type(), "dims": model.dims(info) });
    let devices = server.registry.devices(&model);
    let group = |(class, count): (&str, usize)| group(&format!("{name}_{class}"), count, &devices);
    let mut config = json!({
        "name": name,
        "platform": model.spec.platform(),
        "backend": NAME,
        "max_batch_size": if model.spec.max_rows() > 1 { model.spec.max_rows() } else { 0 },
        "input": model.request_inputs().map(tensor).collect::<Vec<_>>(),
        "output": model.answer_outputs().map(|(_, info)| tensor(info)).collect::<Vec<_>>(),
        "instance_group": instances.each().map(group).collect::<Vec<_>>(),
    });
    if let Some(Batching { max, delay }) = model.spec.row_batching() {
        let delay = delay.as_micros() as u64;
        config["dynamic_batching"] =
            json!({ "preferred_batch_size": [max], "max_queue_delay_microseconds": delay });
    }
    if let Some(state) = &model.spec.state {
        config["sequence_batching"] = sequence_batching(&model, state);
    }
    for (key, value) in model.spec.parameters() {
        config["parameters"][key] = json!({ "string_value": value });
    }
    Ok(Json(config))
}

fn sequence_batching(model: &LoadedModel, state: &StateSpec) -> Value {
    let pair = |pair: &StatePair| json!({ "input_name": pair.input, "output_name": pair.output });
    let tensors = model.sequences.iter().flat_map(|sequences| &sequences.tensors);
    let one = |(names, tensor): (&StatePair, &StateTensor)| {
        let info = &model.inputs.each[tensor.input];
        let (mut one, kind) = (pair(names), info.config_type());
        (one["data_type"], one["dims"]) = (json!(kind), json!(info.shape));
        one["initial_state"] =
            json!([{ "data_type": kind, "dims": tensor.first, "zero_data": true }]);
        one
    };
    json!({
        "max_sequence_idle_microseconds": state.idle.as_micros() as u64,
        "oldest": { "max_candidate_sequences": state.max },
        "state": state.pairs.iter().zip(tensors).map(one).collect::<Vec<_>>(),
    })
}

/// Returns the instances of one class, and their devices if the daemon has several.
fn group(name: &str, count: usize, devices: &[usize]) -> Value {
    let mut group = json!({ "name": name, "kind": "KIND_MODEL", "count": count });
    if !devices.is_empty() {
        group["gpus"] = json!(devices);
    }
    group
}

async fn all_statistics(
    State(server): App,
    Extension(peer): Extension<Peer>,
) -> Reply<Json<Value>> {
    let here = server.clone();
    let write = move || statistics_of(here.registry.select("", ""));
    Ok(server.workers.run_blocking(&peer.principal, (), write).await?)
}

async fn statistics(State(server): App, Path(path): Path<ModelPath>) -> Reply<Json<Value>> {
    Ok(statistics_of(server.registry.select(&path.model, &path.version))?)
}

fn statistics_of(models: Result<Vec<Arc<Replicas>>>) -> Result<Json<Value>, Error> {
    let models: Vec<Value> = models?.iter().map(|model| one(model)).collect();
    Ok(Json(json!({ "model_stats": models })))
}

fn one(replicas: &Replicas) -> Value {
    let model = replicas.first(); // replicas share their figures
    let memory = |(device, bytes)| json!({ "type": "device", "id": device, "byte_size": bytes });
    let numbers = model.numbers();
    let sum = |sum: Sum| json!({ "count": sum.count, "ns": sum.time.as_nanos() as u64 });
    json!({
        "name": model.spec.name.as_str(),
        "version": model.spec.version.to_string(),
        "last_inference": numbers.last,
        "inference_count": numbers.success.count * model.batch(),
        "execution_count": model.executions(),
        "inference_stats": {
            "success": sum(numbers.success),
            "fail": sum(numbers.fail),
            "queue": sum(numbers.queue),
            "compute_input": sum(numbers.input),
            "compute_infer": sum(numbers.infer),
            "compute_output": sum(numbers.output),
            "cache_hit": sum(Sum::default()),
            "cache_miss": sum(Sum::default()),
        },
        "batch_stats": [{
            "batch_size": model.batch(),
            "compute_input": sum(numbers.input),
            "compute_infer": sum(numbers.infer),
            "compute_output": sum(numbers.output),
        }],
        "memory_usage": replicas.memory().map(memory).collect::<Vec<_>>(),
    })
}
