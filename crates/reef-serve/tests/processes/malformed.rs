//! Malformed input at each socket, by a seeded generator; a good request still works afterwards.
//!
//! `REEF_MALFORMED` says how many frames there are, `REEF_MALFORMED_SEED` repeats a run.

use crate::daemon::Daemon;
use crate::wire::{self, Http, Way, infer_request, proto};
use crate::within;
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef_serve::Class;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

/// The time a connection may stay open after its last byte.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls of one gRPC connection at a time.
const AT_ONCE: usize = 16;

fn number(variable: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{variable}: no number: {text}"))
}

#[test]
fn malformed_input_ends_nothing_but_itself() {
    let count = number("REEF_MALFORMED", 3000);
    let seed = number("REEF_MALFORMED_SEED", 1);
    println!("REEF_MALFORMED={count} REEF_MALFORMED_SEED={seed}");
    let daemon = Daemon::start("malformed", &["limits.message_mib=1"]);
    let folder = daemon.folder();
    let good =
        || Way::ALL.into_iter().for_each(|way| wire::inference(way, Class::RealTime, folder)());
    good();
    let (before, begin) = (daemon.usage(), Instant::now());
    thread::scope(|scope| {
        let rng = |n| ChaCha8Rng::seed_from_u64(seed + n);
        scope.spawn(move || grpc(folder, count / 3, rng(1)));
        scope.spawn(move || http(folder, count / 3, rng(2)));
        scope.spawn(move || local(folder, count - 2 * (count / 3), rng(3)));
    });
    println!("{count} frames in {:.1} s", begin.elapsed().as_secs_f64());
    good();
    within(CLOSE_TIMEOUT, "all are gone", || daemon.clients() == 1.0);
    within(CLOSE_TIMEOUT, "their threads", || daemon.usage().1 <= before.1 + 2);
    assert_eq!(daemon.metric("reef_open_requests"), 0.0);
    let (memory, now) = (before.0 >> 20, daemon.usage().0 >> 20);
    println!("{memory} MiB resident before, {now} MiB after");
    assert!(now < memory + 64, "{memory} MiB before, {now} MiB after");
}

/// Changes some of the bytes, their order or their number.
fn mutate(bytes: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    for _ in 0..rng.random_range(1..5) {
        let end = bytes.len();
        let from = rng.random_range(0..=end);
        let to = rng.random_range(from..=end.min(from + 16));
        match rng.random_range(0..6) {
            0 if from < end => bytes[from] ^= 1 << rng.random_range(0..8),
            1 if from < end => bytes[from] = [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5)],
            2 => drop(bytes.drain(from..to)),
            3 => drop(bytes.splice(from..from, bytes[from..to].to_vec())),
            4 => {
                let noise: Vec<u8> = (from..to).map(|_| rng.random()).collect();
                drop(bytes.splice(from..to, noise));
            }
            _ => bytes.truncate(end - rng.random_range(0..=end.min(8))),
        }
    }
}

/// Messages of each call, with names of models that there are and that there aren't.
fn calls() -> Vec<(&'static str, Vec<u8>)> {
    let name = || "nothing".to_owned();
    let infer = |bytes: usize| {
        let mut request = infer_request("tiny", Class::BestEffort);
        request.raw_input_contents = vec![vec![1; bytes].into()];
        request.encode_to_vec()
    };
    let region = proto::SystemSharedMemoryRegisterRequest {
        name: "x".into(),
        key: "/x".into(),
        offset: 8,
        byte_size: 64,
    };
    let load = proto::RepositoryModelLoadRequest { model_name: name(), ..Default::default() };
    let meta = proto::ModelMetadataRequest { name: "tiny".into(), version: "1".into() };
    let statistics = proto::ModelStatisticsRequest { name: name(), version: "2".into() };
    vec![
        ("ModelInfer", infer(16)),
        ("ModelInfer", infer(0)),
        ("ModelInfer", infer(4 * wire::VALUES)),
        ("ModelStreamInfer", infer(64)),
        ("ModelMetadata", meta.encode_to_vec()),
        ("ModelStatistics", statistics.encode_to_vec()),
        ("RepositoryIndex", proto::RepositoryIndexRequest::default().encode_to_vec()),
        ("RepositoryModelLoad", load.encode_to_vec()),
        ("SystemSharedMemoryRegister", region.encode_to_vec()),
        ("TraceSetting", vec![8, 1]),
    ]
}

/// Mutated messages in whole gRPC calls, and mutated frames of HTTP/2.
fn grpc(folder: &Path, count: u64, mut rng: ChaCha8Rng) {
    let calls = calls();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let channel = runtime.block_on(wire::channel(folder));
    let mut open = tokio::task::JoinSet::new();
    for n in 0..count {
        let (method, mut bytes) = calls[rng.random_range(0..calls.len())].clone();
        mutate(&mut bytes, &mut rng);
        if n % 16 == 0 {
            let mut frames = http2(method, &bytes);
            mutate(&mut frames, &mut rng);
            noise(folder, "grpc.sock", &[PREFACE, &frames].concat());
            continue;
        }
        open.spawn_on(call(channel.clone(), method, bytes.into()), runtime.handle());
        if open.len() >= AT_ONCE {
            runtime.block_on(open.join_next()).expect("there is one").expect("no panic");
        }
    }
    while let Some(call) = runtime.block_on(open.join_next()) {
        call.expect("no panic");
    }
}

/// Makes a call with these bytes as the message. Whatever the daemon says, it says it in time.
async fn call(channel: tonic::transport::Channel, method: &str, bytes: Bytes) {
    let path = format!("/inference.GRPCInferenceService/{method}").parse().expect("a path");
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.expect("the connection stays");
    let said = if method == "ModelStreamInfer" {
        let messages = tokio_stream::iter([bytes]);
        grpc.streaming(Request::new(messages), path, Raw).await.map(drop)
    } else {
        grpc.unary(Request::new(bytes), path, Raw).await.map(drop)
    };
    if let Err(status) = said {
        let lost = [Code::Unavailable, Code::Cancelled, Code::Unknown, Code::DeadlineExceeded];
        assert!(!lost.contains(&status.code()), "{method}: {status}");
    }
}

/// The preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A call as frames: settings, headers without compression, and the message.
fn http2(method: &str, message: &[u8]) -> Vec<u8> {
    let path = format!("/inference.GRPCInferenceService/{method}");
    let mut headers = vec![0x83, 0x86]; // POST, http
    for (name, value) in [
        (":path", path.as_str()),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        headers.push(0); // literal, never indexed
        for text in [name, value] {
            headers.push(text.len() as u8);
            headers.extend(text.as_bytes());
        }
    }
    let length = (message.len() as u32).to_be_bytes();
    let data = [&[0][..], &length, message].concat();
    [frame(4, 0, 0, &[]), frame(1, 4, 1, &headers), frame(0, 1, 1, &data)].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Mutated JSON, tensors and lengths in whole requests, and mutated requests.
fn http(folder: &Path, count: u64, mut rng: ChaCha8Rng) {
    let short = wire::json(Class::BestEffort, 16);
    let data = short.replace("\"parameters\":{\"binary_data_size\":16}", "\"data\":[1,[2,3.5e9]]");
    let mut http = Http::connect(folder).expect("it listens");
    for n in 0..count {
        let (mut body, mut json) = match n % 3 {
            0 => (data.clone().into_bytes(), None),
            _ => ([short.as_bytes(), &[1; 16]].concat(), Some(short.len())),
        };
        mutate(&mut body, &mut rng);
        json = json.map(|length| if n % 5 == 0 { rng.random_range(0..300) } else { length });
        let mut request = wire::request(json, &body);
        if n % 16 == 0 {
            mutate(&mut request, &mut rng);
            noise(folder, "http.sock", &request);
            continue;
        }
        let (status, said) = http.ask(&request).expect("the connection stays");
        let said = String::from_utf8_lossy(&said);
        assert!(matches!(status, 200 | 400 | 404 | 429 | 501), "{status}: {said}");
    }
}

/// Mutated greetings; few of them name a model that there is, because those come in.
fn local(folder: &Path, count: u64, mut rng: ChaCha8Rng) {
    let hello = |name: &str| {
        let mut bytes = [b"reeflcl3".as_slice(), &[0, name.len() as u8]].concat();
        bytes.resize(16, 0);
        bytes.extend(name.as_bytes());
        bytes.resize(96, 0);
        bytes
    };
    let (unknown, tiny) = (hello(&"x".repeat(64)), hello("tiny"));
    for n in 0..count {
        let mut bytes = if n % 256 == 0 { tiny.clone() } else { unknown.clone() };
        mutate(&mut bytes, &mut rng);
        noise(folder, "local.sock", &bytes);
    }
}

/// Says these bytes and no more; the daemon has to end the connection.
fn noise(folder: &Path, socket: &str, bytes: &[u8]) {
    let mut stream = UnixStream::connect(folder.join(socket)).expect("it listens");
    stream.set_read_timeout(Some(CLOSE_TIMEOUT)).unwrap();
    let _ = stream.write_all(bytes); // it may have refused already
    let _ = stream.shutdown(Shutdown::Write); // likewise
    let mut said = Vec::new();
    if let Err(error) = stream.read_to_end(&mut said) {
        let reset = error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(reset, "{socket}: {error} after {bytes:02x?}");
    }
}

/// Messages as the bytes that they are.
#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
