//! Triton's extension `generate`: a request and its answers as flat JSON, `generate_stream` as
//! server-sent events.
//!
//! A key with the name of an input is that input. `id` and `parameters` are as in inferences.

use super::bounded;
use super::infer::{self, class, text_per_byte};
use super::json::parameters;
use super::numbers::non_finite::{quote, to_json};
use super::reply::{App, ModelPath, Reply};
use crate::error::{Error, Result};
use crate::kserve::infer::request::{InferRequest, InputTensor, TensorData};
use crate::kserve::infer::response::InferResponse;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::net::quota::connection_pool::OpenRequest;
use crate::server::{RequestSlot, Server};
use crate::tensor::{TensorInfo, short};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, json};
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Request of a connection, if that is known, and its slot.
pub(super) type Open = (Option<Extension<Arc<OpenRequest>>>, Extension<Arc<RequestSlot>>);

/// Returns the only answer to a request.
pub(super) async fn whole(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    open: Open,
    Path(path): Path<ModelPath>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply<Response> {
    let request = read(&server, &peer, path, headers, body, &charge).await?;
    if !server.streams(&request) {
        let answer = server.answer(&peer, request).await?;
        return Ok(whole_answer(write(&server, &peer, Some(&charge), answer).await?));
    }
    let answer = only(start(server.clone(), peer.clone(), open, request)).await?;
    Ok(whole_answer(write(&server, &peer, Some(&charge), answer).await?))
}

/// Returns the only part of an answer. A second one ends the request.
async fn only(mut answers: mpsc::Receiver<Result<Option<InferResponse>>>) -> Result<InferResponse> {
    let wrong = |got: &str| {
        let text = format!("generate: must have one answer, got {got} (generate_stream takes all)");
        Error::Program(text)
    };
    let first = answers.recv().await.transpose()?.flatten().ok_or_else(|| wrong("none"))?;
    match answers.recv().await.transpose()?.flatten() {
        None => Ok(first),
        Some(_) => Err(wrong("several")),
    }
}

/// Returns the answers to a request as events.
pub(super) async fn stream(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    open: Open,
    Path(path): Path<ModelPath>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply<Response> {
    let request = read(&server, &peer, path, headers, body, &charge).await?;
    if !server.streams(&request) {
        let answer = server.answer(&peer, request).await?;
        let answer = write(&server, &peer, Some(&charge), answer).await?;
        return Ok(events(Body::from(event(&answer))));
    }
    let mut answers = start(server.clone(), peer.clone(), open, request);
    let first = answers.recv().await.transpose()?; // an error before it has a status
    let all = tokio_stream::iter(first.map(Ok)).chain(ReceiverStream::new(answers));
    let all = all.then(move |answer| event_of(server.clone(), peer.clone(), answer));
    let all = all.filter_map(|event| event.map(Ok::<_, std::convert::Infallible>));
    Ok(events(Body::from_stream(all)))
}

/// Returns the event for an answer; none for the end.
async fn event_of(
    server: Arc<Server>,
    peer: Peer,
    answer: Result<Option<InferResponse>>,
) -> Option<Bytes> {
    let written = match answer.transpose()? {
        Ok(part) => write(&server, &peer, None, part).await, // there are few parts at a time
        Err(error) => Err(error),
    };
    Some(match written {
        Ok(json) => event(&json),
        Err(error) => event(&to_json(&json!({ "error": error.client_text() }))),
    })
}

/// Runs a request of a model that streams in its slot, until its client has gone.
pub(super) fn start(
    server: Arc<Server>,
    peer: Peer,
    open: Open,
    request: InferRequest,
) -> mpsc::Receiver<Result<Option<InferResponse>>> {
    let ((open, slot), (to, answers)) = (open, mpsc::channel(1));
    open.iter().for_each(|open| open.set_has_more(true));
    tokio::spawn(async move {
        let end = server.answer_in_parts(&peer, request, &to).await;
        drop(slot);
        open.iter().for_each(|open| open.set_has_more(false));
        let _ = to.send(end.map(|()| None)).await; // the client may be gone
    });
    answers
}

/// Reads a request, which may be compressed; a long one on a worker thread.
async fn read(
    server: &Arc<Server>,
    peer: &Peer,
    path: ModelPath,
    headers: HeaderMap,
    body: Bytes,
    charge: &Charge,
) -> Result<InferRequest> {
    let body = infer::decompress(server, peer, charge, &headers, body).await?;
    let (own, held, bytes) = (server.clone(), charge.clone(), body.len());
    let work = move || parse(&own, path, &headers, &body, &held);
    server.workers.run(&peer.principal, charge.clone(), bytes, work).await
}

/// Reads a request. Keys that do not name an input are its client's own.
fn parse(
    server: &Server,
    path: ModelPath,
    headers: &HeaderMap,
    body: &[u8],
    charge: &Charge,
) -> Result<InferRequest> {
    let body = quote(body);
    let more = if matches!(body, Cow::Owned(_)) { body.len() as u64 } else { 0 };
    charge.add(more)?;
    let model = server.registry.get(&path.model, &path.version)?;
    let names = model.request_inputs().map(|info| &*info.name).chain(["id", "parameters"]);
    let names: Vec<&str> = names.collect();
    let mut fields = bounded::fields(&body, &names).map_err(|e| invalid(&e))?;
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
        let mut id = serde_json::Deserializer::from_str(id.get());
        request.id = bounded::text(&mut id).map_err(|e| invalid(&e))?;
    }
    if let Some(nested) = fields.remove("parameters") {
        let mut nested = serde_json::Deserializer::from_str(nested.get());
        let nested = bounded::parameters(&mut nested).map_err(|e| invalid(&e))?;
        for (key, value) in parameters(&nested) {
            request.parameter(key, &value)?;
        }
    }
    Ok(request)
}

fn invalid(error: &serde_json::Error) -> Error {
    Error::Invalid(format!("JSON: {error}"))
}

/// Returns an input of one value or a list.
fn input(
    server: &Server,
    info: &TensorInfo,
    value: &RawValue,
    charge: &Charge,
) -> Result<InputTensor> {
    let text = value.get();
    if text.starts_with('[') {
        return list(server, info, value, charge);
    }
    charge.add(text.len() as u64)?;
    let one = RawValue::from_string(format!("[{text}]")).map_err(|e| invalid(&e))?;
    list(server, info, &one, charge)
}

/// Returns an input of a list.
fn list(
    server: &Server,
    info: &TensorInfo,
    values: &RawValue,
    charge: &Charge,
) -> Result<InputTensor> {
    let counted: Vec<IgnoredAny> = serde_json::from_str(values.get()).map_err(|e| invalid(&e))?;
    let shape = shape(info, counted.len())?;
    let (name, datatype) = (info.name.clone(), info.datatype().to_owned());
    let bytes = infer::from_json(&name, &datatype, values, Some(charge), &server.buffers)?;
    Ok(InputTensor { name, datatype, shape, from: TensorData::Bytes(bytes) })
}

/// Returns the shape of `count` values: the last open size takes them, and others are 1.
fn shape(info: &TensorInfo, count: usize) -> Result<Vec<i64>> {
    let mut shape = info.shape.clone();
    let open = shape.iter().rposition(|&size| size < 0);
    shape.iter_mut().filter(|size| **size < 0).for_each(|size| *size = 1);
    // `None`: more than there can be.
    let product = |shape: &[i64]| shape.iter().try_fold(1, |all: i64, &size| all.checked_mul(size));
    if let (Some(open), Some(fixed)) = (open, product(&shape)) {
        shape[open] = count as i64 / fixed.max(1);
    }
    if product(&shape) == Some(count as i64) {
        return Ok(shape);
    }
    let (name, shape) = (short(&info.name), &info.shape);
    Err(Error::Invalid(format!(
        "tensor {name:?}: must have values for shape {shape:?}, got {count}"
    )))
}

/// Returns an answer as flat JSON; a long one is written on a worker thread. Its bytes are added to
/// the charge, if there is one.
async fn write(
    server: &Server,
    peer: &Peer,
    charge: Option<&Charge>,
    answer: InferResponse,
) -> Result<Bytes> {
    let (bytes, text) = answer.tensors().fold((0, 0), |(bytes, text), (info, output)| {
        let more = output.bytes.len();
        (bytes + more, text + text_per_byte(info) * more as u64)
    });
    charge.map_or(Ok(()), |charge| charge.add(text))?;
    let work = move || Ok(flat(&answer).into());
    server.workers.run(&peer.principal, charge.cloned(), bytes, work).await
}

/// Returns an answer as flat JSON: an output of one value is that value.
fn flat(answer: &InferResponse) -> Vec<u8> {
    let mut head = Map::new();
    if !answer.id.is_empty() {
        head.insert("id".into(), answer.id.as_str().into());
    }
    head.insert("model_name".into(), answer.model.spec.name.as_str().into());
    head.insert("model_version".into(), answer.model.spec.version.to_string().into());
    answer.tensors().for_each(|(info, _)| drop(head.remove(&info.name)));
    let mut json = to_json(&head);
    json.pop(); // its last brace
    for (info, output) in answer.tensors() {
        if json.len() > 1 {
            json.push(b',');
        }
        json.extend(to_json(&info.name));
        json.push(b':');
        let data = infer::data(info, output).map(|data| to_json(&data)).unwrap_or_default();
        let is_one = output.datatype_and_shape(info).1.iter().all(|&size| size == 1);
        json.extend_from_slice(match &*data {
            [b'[', one @ .., b']'] if is_one => one,
            all => all,
        });
    }
    json.push(b'}');
    json
}

pub(super) fn whole_answer(json: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], json).into_response()
}

fn event(data: &[u8]) -> Bytes {
    [b"data: ", data, b"\n\n"].concat().into()
}

pub(super) fn events(body: Body) -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_open_size_takes_the_values() {
        let of = |sizes: &[i64], count| {
            let (name, offset, bound) = ("x".into(), 0, None);
            let info =
                TensorInfo { name, element: None, texts: None, shape: sizes.into(), offset, bound };
            shape(&info, count).ok()
        };
        assert_eq!(of(&[2, 3], 6), Some(vec![2, 3]));
        assert_eq!(of(&[-1, -1, 3], 6), Some(vec![1, 2, 3]));
        assert_eq!(of(&[-1, 3], 7), None);
        assert_eq!(of(&[-1, 0], 0), Some(vec![0, 0]));
        assert_eq!(of(&[1 << 32, 1 << 32], 0), None, "a program may declare more than can be");
        assert_eq!(of(&[1 << 32, -1, 1 << 32], 0), None);
    }
}
