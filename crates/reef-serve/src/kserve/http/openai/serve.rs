//! Handlers of the calls.

use super::answer::{Writer, json_bytes};
use super::request::{Form, OpenAiResult, TextRequest, read, text_model};
use crate::error::Result;
use crate::kserve::http::generate::{Open, events, start, whole_answer};
use crate::kserve::http::infer::decompress;
use crate::kserve::http::numbers::non_finite::to_json;
use crate::kserve::http::reply::App;
use crate::kserve::infer::response::InferResponse;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::server::Server;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Number of answers so far, for their identifiers.
static ANSWERS: AtomicU64 = AtomicU64::new(0);

/// Parts of a model's answer.
type Parts = Receiver<Result<Option<InferResponse>>>;

/// A model of the list.
#[derive(Debug, Serialize)]
struct ModelJson {
    id: String,
    object: &'static str,
    /// Unix time; 0 is unknown.
    created: u64,
    owned_by: &'static str,
}

#[derive(Debug, Serialize)]
struct ModelsJson {
    object: &'static str,
    data: Vec<ModelJson>,
}

pub(in crate::kserve::http) fn inferences() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
}

/// Returns the routes of other calls.
pub(in crate::kserve::http) fn routes() -> Router<Arc<Server>> {
    Router::new().route("/v1/models", get(models)).route("/v1/models/{model}", get(model))
}

async fn models(State(server): App) -> Response {
    let loaded = server.registry.select("", "").unwrap_or_default();
    let names: BTreeSet<String> =
        loaded.iter().map(|replicas| replicas.first().spec.name.to_string()).collect();
    let names = names.into_iter().filter(|name| text_model(&server, name).is_ok());
    let list = ModelsJson { object: "list", data: names.map(ModelJson::of).collect() };
    whole_answer(to_json(&list).into())
}

async fn model(State(server): App, Path(name): Path<String>) -> OpenAiResult<Response> {
    text_model(&server, &name)?;
    Ok(whole_answer(to_json(&ModelJson::of(name)).into()))
}

impl ModelJson {
    fn of(id: String) -> Self {
        Self { id, object: "model", created: 0, owned_by: "reef" }
    }
}

async fn chat(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    open: Open,
    headers: HeaderMap,
    body: Bytes,
) -> OpenAiResult<Response> {
    let call = Call { form: Form::Chat, server, peer, charge };
    call.run(open, headers, body).await
}

async fn completion(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    open: Open,
    headers: HeaderMap,
    body: Bytes,
) -> OpenAiResult<Response> {
    let call = Call { form: Form::Completion, server, peer, charge };
    call.run(open, headers, body).await
}

/// A call of a client.
struct Call {
    form: Form,
    server: Arc<Server>,
    peer: Peer,
    charge: Charge,
}

impl Call {
    async fn run(self, open: Open, headers: HeaderMap, body: Bytes) -> OpenAiResult<Response> {
        let request = self.read(headers, body).await?;
        let writer = Writer::new(&request);
        let TextRequest { is_stream, infer, .. } = request;
        let parts = start(self.server.clone(), self.peer.clone(), open, infer);
        if is_stream { self.stream(writer, parts).await } else { self.whole(writer, parts).await }
    }

    /// Reads a request, which may be compressed; a long one on a worker thread.
    async fn read(&self, headers: HeaderMap, body: Bytes) -> OpenAiResult<TextRequest> {
        let Self { form, server, peer, charge } = self;
        let body = decompress(server, peer, charge, &headers, body).await?;
        let (form, own, held, bytes) = (*form, server.clone(), charge.clone(), body.len());
        let reading = server.memory.charge(peer); // dropped with the copies
        let work = move || Ok(read(&own, form, identifier(form), &headers, &body, &held, &reading));
        server.workers.run(&peer.principal, charge.clone(), bytes, work).await?
    }

    /// Returns the answer as one object; a long one is written on a worker thread.
    async fn whole(self, mut writer: Writer, mut parts: Parts) -> OpenAiResult<Response> {
        let mut text = String::new();
        while let Some(part) = parts.recv().await {
            let Some(part) = part? else { break };
            let (piece, room) = (writer.take(&part)?, text.capacity());
            text.push_str(&piece);
            self.charge.add((text.capacity() - room) as u64)?;
        }
        let (bytes, charge) = (text.len(), self.charge.clone());
        let work = move || {
            let in_json = json_bytes(&text);
            charge.add(in_json as u64)?;
            writer.whole(&text, in_json)
        };
        let workers = &self.server.workers;
        let json = workers.run(&self.peer.principal, self.charge.clone(), bytes, work).await?;
        Ok(whole_answer(json.into()))
    }

    /// Returns the answer as events. There are few parts at a time: they are not charged.
    async fn stream(self, writer: Writer, mut parts: Parts) -> OpenAiResult<Response> {
        let first = parts.recv().await.transpose()?; // an error before it has a status
        let (server, peer, writer) = (self.server, self.peer, Arc::new(Mutex::new(writer)));
        let all = tokio_stream::iter(first.map(Ok)).chain(ReceiverStream::new(parts));
        let own = writer.clone();
        let all = all.take_while(move |_| !own.lock().is_broken()); // the request ends there
        let all = all.then(move |part| write(server.clone(), peer.clone(), writer.clone(), part));
        let some = |event: Bytes| (!event.is_empty()).then_some(Ok::<_, Infallible>(event));
        Ok(events(Body::from_stream(all.filter_map(some))))
    }
}

/// Returns the events for a part; long ones are written on a worker thread.
async fn write(
    server: Arc<Server>,
    peer: Peer,
    writer: Arc<Mutex<Writer>>,
    part: Result<Option<InferResponse>>,
) -> Bytes {
    let outputs = part.iter().flatten().flat_map(|part| &part.outputs);
    let bytes: usize = outputs.map(|output| output.bytes.len()).sum();
    let own = writer.clone();
    let work = move || Ok(own.lock().events(part));
    let written = server.workers.run(&peer.principal, (), bytes, work).await;
    written.unwrap_or_else(|error| writer.lock().events(Err(error))).into()
}

/// Returns an identifier that no other answer has.
fn identifier(form: Form) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let number = ANSWERS.fetch_add(1, Ordering::Relaxed);
    let prefix = match form {
        Form::Chat => "chatcmpl",
        Form::Completion => "cmpl",
    };
    format!("{prefix}-{:x}{number:08x}", now.as_micros())
}
