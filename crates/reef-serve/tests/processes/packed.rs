//! Compressed messages of gRPC, as the stock client sends them with `compression_algorithm="gzip"`.

use crate::SOON;
use crate::daemon::Daemon;
use crate::wire::{Grpc, channel, infer_request};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use prost::Message;
use reef_serve::Class;
use std::io::Write;

use tonic::body::Body;
use tonic::codegen::{Service, http};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).expect("memory takes it");
    to.finish().expect("memory takes it")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut to = ZlibEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).expect("memory takes it");
    to.finish().expect("memory takes it")
}

/// A message behind its prefix.
fn framed(is_packed: bool, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[u8::from(is_packed)][..], &length, message].concat()
}

/// Makes a call with this body and returns its status, its message, and the bytes of the answer.
fn call(daemon: &Daemon, method: &str, encoding: &str, body: Vec<u8>) -> (i32, String, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = async {
        let mut channel = channel(daemon.folder()).await;
        let body = http_body_util::Full::new(Bytes::from(body));
        let call = http::Request::post(format!("http://x/inference.GRPCInferenceService/{method}"))
            .header("content-type", "application/grpc")
            .header("grpc-encoding", encoding)
            .header("te", "trailers")
            .body(Body::new(body))
            .unwrap();
        std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
        let (head, body) = channel.call(call).await.unwrap().into_parts();
        let all = body.collect().await.unwrap();
        let mut said = head.headers;
        said.extend(all.trailers().cloned().unwrap_or_default());
        let text = |name| said.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        let message = text("grpc-message").replace("%20", " ");
        (text("grpc-status").parse().unwrap(), message, all.to_bytes().len())
    };
    runtime.block_on(async { tokio::time::timeout(SOON, call).await.expect("an answer") })
}

#[test]
fn compressed_messages_are_those_that_were_packed() {
    let daemon = Daemon::start("packed", &[]);
    let request = infer_request("tiny", Class::BestEffort).encode_to_vec();
    let answer = call(&daemon, "ModelInfer", "identity", framed(false, &request));
    assert!(answer.0 == 0 && answer.2 > 4000, "{answer:?}");
    for (encoding, packed) in [("gzip", gzip(&request)), ("deflate", deflate(&request))] {
        for body in [framed(true, &packed), framed(false, &request)] {
            assert_eq!(call(&daemon, "ModelInfer", encoding, body), answer, "{encoding}");
        }
        let both = [framed(true, &packed), framed(false, &request)].concat();
        let (status, said, bytes) = call(&daemon, "ModelStreamInfer", encoding, both);
        assert!(status == 0 && bytes > 2 * 4000, "{encoding}: {said}");
        let (status, ..) = call(&daemon, "ServerLive", encoding, framed(true, &gzip(b"")[..0]));
        assert_ne!(status, 12, "{encoding}");
    }
    let (status, said, _) = call(&daemon, "ModelInfer", "br", framed(true, &request));
    assert!(status == 12 && said.contains("have: gzip, deflate"), "{said}");
}

#[test]
fn compressed_messages_that_are_wrong_are_refused() {
    let daemon = Daemon::start("packed-wrong", &["limits.message_mib=1"]);
    let request = gzip(&infer_request("tiny", Class::BestEffort).encode_to_vec());
    for (body, wanted) in [
        (framed(true, &request[..request.len() / 2]), "compressed body"),
        (framed(true, b"no gzip"), "compressed body"),
        ([&[7][..], &framed(true, &request)[1..]].concat(), "must be 0 or 1, got 7"),
    ] {
        let (status, said, _) = call(&daemon, "ModelInfer", "gzip", body);
        assert!(status == 3 && said.contains(wanted), "{status} {said}");
    }
    let (status, said, _) = call(&daemon, "ModelInfer", "gzip", framed(true, &request)[..9].into());
    assert_ne!(status, 0, "cut off: {said}");
}

/// A thousandth of what it becomes.
#[test]
fn compressed_message_that_grows_is_refused_before_it_is_there() {
    let daemon = Daemon::start("packed-bomb", &[]);
    let bomb = gzip(&vec![0; 1 << 30]);
    assert!(bomb.len() < 6 << 20, "{}", bomb.len());
    let before = daemon.peak();
    for method in ["ModelInfer", "ModelStreamInfer", "RepositoryModelLoad"] {
        let (status, said, _) = call(&daemon, method, "gzip", framed(true, &bomb));
        assert!(
            status == 8 && said.contains("67108864 bytes, decompressed"),
            "{method}: {status} {said}"
        );
    }
    let small = gzip(&vec![0; 1 << 20]);
    let (status, said, _) = call(&daemon, "ModelReady", "gzip", framed(true, &small));
    assert!(status == 8 && said.contains("65536 bytes, decompressed"), "{status} {said}");
    let grown = (daemon.peak() - before) >> 20;
    assert!(grown < 100, "{grown} MiB more at its peak");
    Grpc::connect(daemon.folder()).infer(infer_request("tiny", Class::BestEffort)).unwrap();
}
