//! Triton's extension `generate`: a request and its answers as flat JSON, `generate_stream` as
//! server-sent events.
//!
//! A key with the name of an input is that input. `id` and `parameters` are as in inferences.

use super::infer::{self, class};
use super::json::{self, parameters};
use super::numbers::non_finite::to_json;
use super::reply::{App, Reply};
use crate::error::{Error, Result};
use crate::kserve::infer::request::{InferRequest, InputTensor, TensorData};
use crate::kserve::infer::response::InferResponse;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::server::Server;
use crate::tensor::{TensorInfo, short};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Model and, optionally, version of a path.
#[derive(Debug, serde::Deserialize)]
pub(super) struct ModelPath {
    model: String,
    #[serde(default)]
    version: String,
}

/// Returns the only answer to a request.
pub(super) async fn whole(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    Path(path): Path<ModelPath>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply<Response> {
    let request = read(&server, path, &headers, &body, &charge)?;
    if !server.streams(&request) {
        return Ok(answer(&server.answer(&peer, request).await?).into_response());
    }
    let mut answers = start(server, peer, request)?;
    let (mut only, mut more) = (None, 0);
    while let Some(part) = answers.recv().await {
        match part? {
            Some(part) if only.is_none() => only = Some(answer(&part)),
            Some(_) => more += 1,
            None => break,
        }
    }
    match (only, more) {
        (Some(only), 0) => Ok(only.into_response()),
        (only, more) => {
            let count = usize::from(only.is_some()) + more;
            let text =
                format!("generate: must have one answer, got {count} (generate_stream takes all)");
            Err(Error::Program(text).into())
        }
    }
}

/// Returns the answers to a request as events.
pub(super) async fn stream(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    Path(path): Path<ModelPath>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply<Response> {
    let request = read(&server, path, &headers, &body, &charge)?;
    if !server.streams(&request) {
        let answer = server.answer(&peer, request).await?;
        return Ok(events(Body::from(event(&to_value(&answer)))));
    }
    let mut answers = start(server, peer, request)?;
    let first = answers.recv().await.transpose()?.flatten(); // an error before it has a status
    let rest = ReceiverStream::new(answers).filter_map(|answer| match answer {
        Ok(Some(part)) => Some(event(&to_value(&part))),
        Ok(None) => None,
        Err(error) => Some(event(&json!({ "error": error.client_text() }))),
    });
    let first = tokio_stream::iter(first.map(|part| event(&to_value(&part))));
    Ok(events(Body::from_stream(first.chain(rest).map(Ok::<_, std::convert::Infallible>))))
}

/// Runs a request of a model that streams, until its client has gone.
fn start(
    server: Arc<Server>,
    peer: Peer,
    request: InferRequest,
) -> Result<mpsc::Receiver<Result<Option<InferResponse>>>> {
    let slot = server.request(&peer)?;
    let (to, answers) = mpsc::channel(1);
    tokio::spawn(async move {
        let end = server.answer_in_parts(&peer, request, &to).await;
        drop(slot);
        let _ = to.send(end.map(|()| None)).await; // the client may be gone
    });
    Ok(answers)
}

/// Reads a request. Keys that do not name an input are its client's own.
fn read(
    server: &Server,
    path: ModelPath,
    headers: &HeaderMap,
    body: &[u8],
    charge: &Charge,
) -> Result<InferRequest> {
    charge.add(body.len() as u64 * BYTES_PER_BYTE)?;
    let mut fields = json::object(body)?;
    let model = server.registry.get(&path.model, &path.version)?;
    let (model_name, version) = (path.model, path.version);
    let mut request = InferRequest {
        model: model_name,
        version,
        class: class(headers)?,
        charge: Some(charge.clone()),
        ..InferRequest::default()
    };
    for info in model.request_inputs() {
        if let Some(value) = fields.remove(&info.name) {
            request.inputs.push(input(server, info, value, charge)?);
        }
    }
    if let Some(id) = fields.remove("id") {
        let wrong = || Error::Invalid("JSON: id must be a text".into());
        request.id = id.as_str().ok_or_else(wrong)?.into();
    }
    let nested = match fields.remove("parameters") {
        None => Map::new(),
        Some(Value::Object(nested)) => nested,
        Some(_) => return Err(Error::Invalid("JSON: parameters must be an object".into())),
    };
    for (key, value) in parameters(&nested) {
        request.parameter(key, &value)?;
    }
    Ok(request)
}

/// Upper bound of the memory for a byte of JSON: `0,` is a value of 32 bytes.
const BYTES_PER_BYTE: u64 = 16;

/// Returns an input of one value or a list.
fn input(server: &Server, info: &TensorInfo, value: Value, charge: &Charge) -> Result<InputTensor> {
    let list = if value.is_array() { value } else { Value::Array(vec![value]) };
    let shape = shape(info, list.as_array().map_or(0, Vec::len))?;
    let data = to_raw_value(&list).map_err(|e| Error::system("JSON", e))?;
    let (name, datatype) = (info.name.clone(), info.datatype().to_owned());
    let bytes = infer::from_json(&name, &datatype, &data, Some(charge), &server.buffers)?;
    Ok(InputTensor { name, datatype, shape, from: TensorData::Bytes(bytes) })
}

/// Returns the shape of `count` values: the last open size takes them, and others are 1.
fn shape(info: &TensorInfo, count: usize) -> Result<Vec<i64>> {
    let mut shape = info.shape.clone();
    let fixed: usize = shape.iter().filter(|&&size| size >= 0).map(|&size| size as usize).product();
    let open = shape.iter().rposition(|&size| size < 0);
    shape.iter_mut().filter(|size| **size < 0).for_each(|size| *size = 1);
    if let Some(open) = open {
        shape[open] = (count / fixed.max(1)) as i64;
    }
    let want: i64 = shape.iter().product();
    if want == count as i64 {
        return Ok(shape);
    }
    let (name, shape) = (short(&info.name), &info.shape);
    Err(Error::Invalid(format!(
        "tensor {name:?}: must have values for shape {shape:?}, got {count}"
    )))
}

fn answer(answer: &InferResponse) -> impl IntoResponse + use<> {
    ([(CONTENT_TYPE, "application/json")], to_json(&to_value(answer)))
}

/// Returns an answer as flat JSON: an output of one value is that value.
fn to_value(answer: &InferResponse) -> Value {
    let mut fields = Map::new();
    if !answer.id.is_empty() {
        fields.insert("id".into(), answer.id.as_str().into());
    }
    fields.insert("model_name".into(), answer.model.spec.name.as_str().into());
    fields.insert("model_version".into(), answer.model.spec.version.to_string().into());
    for (info, output) in answer.tensors() {
        let data = infer::data(info, output).and_then(|data| serde_json::to_value(data).ok());
        let value = match data.unwrap_or_default() {
            Value::Array(mut one) if one.len() == 1 => one.remove(0),
            other => other,
        };
        fields.insert(info.name.clone(), value);
    }
    Value::Object(fields)
}

/// Returns an event with this data.
fn event(data: &Value) -> Bytes {
    [b"data: ", &*to_json(data), b"\n\n"].concat().into()
}

fn events(body: Body) -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}
