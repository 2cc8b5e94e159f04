//! Clients that make the daemon hold more than they should: bytes that never end, messages that
//! grow.

use crate::daemon::Daemon;
use crate::wire::proto::InferTensorContents;
use crate::wire::{Grpc, infer_request};
use crate::{SOON, within};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use reef_serve::Class;
use std::convert::Infallible;
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::{Channel, Endpoint};

/// A call whose message is said to have `length` bytes and begins with these, and which then stays
/// as it is.
pub(crate) async fn stalled(
    mut channel: Channel,
    length: u32,
    bytes: Vec<Bytes>,
) -> Option<String> {
    let prefix: Bytes = [&[0][..], &length.to_be_bytes()].concat().into();
    let frames = std::iter::once(prefix).chain(bytes).map(|b| Ok::<_, Infallible>(Frame::data(b)));
    let body = StreamBody::new(tokio_stream::iter(frames).chain(tokio_stream::pending()));
    let call = http::Request::post("http://x/inference.GRPCInferenceService/ModelInfer")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(body))
        .unwrap();
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.ok()?;
    let answer = channel.call(call).await.ok()?;
    Some(answer.headers().get("grpc-status")?.to_str().ok()?.to_owned())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// 128 streams of 16 MiB on one connection would be 2 GiB.
#[test]
fn a_connection_holds_no_more_than_it_may() {
    let of_connection = "memory.connection_mib=64";
    let daemon = Daemon::start("held", &["times.idle_ms=120000", of_connection]);
    let before = daemon.usage().0;
    let runtime = runtime();
    let address = format!("http://{}", daemon.grpc);
    let (refused, most) = runtime.block_on(async {
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let chunk = Bytes::from(vec![0x2a; 64 << 10]);
        let bytes = || vec![chunk.clone(); 200]; // 12.5 MiB of 16
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..100 {
            calls.spawn(stalled(channel.clone(), 16 << 20, bytes()));
        }
        let (mut refused, mut most) = (0, 0);
        let begin = std::time::Instant::now();
        while begin.elapsed() < SOON && refused < 90 {
            let wait = Duration::from_millis(20);
            if let Ok(Some(said)) = tokio::time::timeout(wait, calls.join_next()).await {
                refused += usize::from(said.unwrap().as_deref() == Some("8"));
            }
            most = most.max(daemon.usage().0);
        }
        (refused, most)
    });
    assert!(refused >= 90, "{refused} of 100 were told RESOURCE_EXHAUSTED");
    let grown = (most - before) >> 20;
    assert!(grown < 200, "{grown} MiB more");
    Grpc::connect(daemon.folder()).infer(infer_request("tiny", Class::BestEffort)).unwrap();
}

/// Two bytes are an empty tensor, which takes two hundred bytes once it is decoded.
#[test]
fn messages_do_not_grow_when_they_are_decoded() {
    // A busy machine takes a minute for such a message.
    let daemon = Daemon::start("grown", &["times.request_ms=600000", "times.idle_ms=600000"]);
    let before = daemon.usage().0;
    let mut grpc = Grpc::connect(daemon.folder());
    let mut request = infer_request("tiny", Class::BestEffort);
    request.inputs = vec![Default::default(); 1_000_000];
    let said = grpc.infer(request).unwrap_err();
    assert_eq!(said.code(), tonic::Code::InvalidArgument, "{said}");
    let values = "[],".repeat(1_000_000);
    let json = format!("{{\"inputs\":[],\"parameters\":{{\"x\":[{values}0]}}}}");
    let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let said = daemon.say(format!("{head}content-length: {}\r\n\r\n{json}", json.len()).as_bytes());
    assert!(said.starts_with("HTTP/1.1 400") && said.contains("got 0"), "{said}");
    let grown = (daemon.usage().0 - before) >> 20;
    assert!(grown < 100, "{grown} MiB more");
}

/// Each number takes a byte in the message, and eight where all are of 64 bits.
#[test]
fn typed_numbers_do_not_grow_before_they_are_checked() {
    let daemon = Daemon::start("typed", &[]);
    let mut grpc = Grpc::connect(daemon.folder());
    let mut request = infer_request("tiny", Class::BestEffort);
    grpc.infer(request.clone()).unwrap();
    let before = daemon.peak();
    let flags = InferTensorContents { bool_contents: vec![true; 4 << 20], ..Default::default() };
    (request.inputs[0].datatype, request.inputs[0].contents) = ("BOOL".into(), Some(flags));
    request.raw_input_contents.clear();
    let said = grpc.infer(request).unwrap_err();
    assert!(said.message().contains("datatype must be FP32"), "{said}"); // after the conversion
    let grown = (daemon.peak() - before) >> 20;
    assert!(grown < 32, "{grown} MiB more, of a message of 4 MiB");
}

/// A message over gRPC that drips in is cut off as one over HTTP is.
#[test]
fn messages_have_their_time() {
    let daemon = Daemon::start("stalled", &["times.idle_ms=1000"]);
    let address = format!("http://{}", daemon.grpc);
    let (runtime, mut said) = (runtime(), None);
    within(SOON, "a client that asks in time", || {
        let endpoint = Endpoint::from_shared(address.clone()).unwrap();
        let answer = runtime.block_on(async {
            let channel = endpoint.connect().await.unwrap();
            let call = stalled(channel, 1000, vec![Bytes::from_static(&[0x2a; 10])]);
            tokio::time::timeout(SOON, call).await
        });
        said = answer.expect("an answer");
        said.is_some()
    });
    assert_eq!(said.as_deref(), Some("4"), "DEADLINE_EXCEEDED");
}
