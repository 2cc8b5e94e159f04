//! Requests to processes, over HTTP and gRPC.

use super::{
    RAW, SDK, TRUSTED, ask, ask_as, children, error, numbers, post, post_bytes, put, with_echo,
};
use crate::daemon::Daemon;
use crate::wire::proto::ModelInferRequest;
use crate::wire::proto::model_infer_request::InferInputTensor;
use crate::wire::{Grpc, Http, infer_request};
use crate::{SOON, options, within};
use reef_serve::{Class, Client};
use rustix::fs::Mode;
use rustix::shm;
use serde_json::{Value, json};
use std::fs::File;
use std::path::PathBuf;
use std::thread;

/// Answers how many inputs it has read from files, and the first and last number of its input.
const FILES: &str = r#"
import reef.serve
from reef.serve import _run


class Files(reef.serve.Model):
    inputs = {"x": ("FP32", [-1])}
    outputs = {"y": ("FP32", [3])}

    def infer_batch(self, requests):
        inputs = [request["x"] for request in requests]
        return [{"y": [float(len(read)), x[0], x[len(x) - 1]]} for x in inputs]


def counted(*args):
    read.append(args)
    return original(*args)


read, original, _run.read_file = [], _run.read_file, counted
reef.serve.run(Files)
"#;

/// Starts a daemon with the model `all`, which is `sdk.py`.
fn with_sdk(test: &str) -> Daemon {
    let folder = Daemon::place(test);
    put(folder.path(), "all", SDK, "", "");
    Daemon::start_in(folder, &[TRUSTED, "models.load=[\"all\"]"])
}

fn texts(text: &str, times: i64) -> Value {
    json!({ "inputs": [
        { "name": "values", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3, 4]] },
        { "name": "text", "datatype": "BYTES", "shape": [1], "data": [text] },
        { "name": "times", "datatype": "INT64", "shape": [1], "data": [times] },
    ] })
}

fn infer(daemon: &Daemon, body: &Value) -> (u16, Value) {
    post(daemon, "/v2/models/all/infer", body)
}

#[test]
fn process_answers_as_a_network_does() {
    let daemon = with_sdk("process-http");
    let (status, said) = infer(&daemon, &texts("ä\"", 2));
    assert_eq!(status, 200, "{said}");
    let want = json!({ "model_name": "all", "model_version": "1", "outputs": [
        { "name": "text", "datatype": "BYTES", "shape": [1], "data": ["ä\"ä\""] },
        { "name": "sum", "datatype": "FP32", "shape": [1], "data": [10.0] },
        { "name": "names", "datatype": "BYTES", "shape": [2], "data": ["ä\"", "ä\""] },
    ] });
    assert_eq!(said, want);
    let mut chosen = texts("a", 1);
    chosen["outputs"] = json!([{ "name": "sum", "parameters": { "binary_data": true } }]);
    let (status, body) =
        post_bytes(&daemon, "/v2/models/all/infer", "", chosen.to_string().as_bytes());
    assert!(status == 200 && body.ends_with(&10f32.to_le_bytes()), "{status}");
}

/// Shared memory of the system, which ends with this value.
struct Memory(PathBuf);

impl Memory {
    /// Makes memory with the numbers from 0.
    fn with_numbers(count: u16) -> Self {
        let path = PathBuf::from(format!("/dev/shm/reef-files-{}", std::process::id()));
        let bytes: Vec<u8> = (0..count).flat_map(|at| f32::from(at).to_le_bytes()).collect();
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn large_input_in_a_region_is_read_by_the_program() {
    let folder = Daemon::place("process-files");
    put(folder.path(), "echo", RAW, "", "");
    put(folder.path(), "files", FILES, "", "");
    put(folder.path(), "batches", FILES, "", "max_batch = 2");
    let load = "models.load=[\"echo\", \"files\", \"batches\"]";
    let daemon = Daemon::start_in(folder, &[TRUSTED, load]);
    let memory = Memory::with_numbers(20_000);
    let mut http = Http::connect(daemon.folder()).expect("it listens"); // a region ends with it
    let mut say = |path: &str, body: &Value| -> (u16, Value) {
        let body = body.to_string();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}");
        let (status, said) =
            http.ask(format!("{head}\r\n\r\n{body}").as_bytes()).expect("an answer");
        (status, serde_json::from_slice(&said).unwrap_or_default())
    };
    let key = memory.0.file_name().and_then(|name| name.to_str()).expect("a name");
    let region = json!({ "key": key, "offset": 0, "byte_size": 80_000 });
    let said = say("/v2/systemsharedmemory/region/x/register", &region);
    assert_eq!(said.0, 200, "{said:?}");
    let mut infer = |model: &str, count: u64| {
        let place = json!({
            "shared_memory_region": "x",
            "shared_memory_offset": 12,
            "shared_memory_byte_size": 4 * count,
        });
        let input =
            json!({ "name": "x", "datatype": "FP32", "shape": [count], "parameters": place });
        numbers(&say(&format!("/v2/models/{model}/infer"), &json!({ "inputs": [input] })))
    };
    for model in ["files", "batches"] {
        assert_eq!(infer(model, 17_000), [1.0, 3.0, 17_002.0], "{model}");
        assert_eq!(infer(model, 10), [1.0, 3.0, 12.0], "{model}: a small one is copied");
    }
    let copied = infer("echo", 17_000);
    assert_eq!((copied.len(), copied[0], copied[16_999]), (17_000, 3.0, 17_002.0));
}

#[test]
fn metadata_of_a_process_are_those_it_declares() {
    let daemon = with_sdk("process-metadata");
    let body = |path: &str| -> Value {
        let said = daemon.get(path);
        serde_json::from_str(said.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let said = body("/v2/models/all");
    assert_eq!(said["platform"], "reef_process");
    let input = json!({ "name": "values", "datatype": "FP32", "shape": [-1, 2] });
    assert_eq!(said["inputs"][2], input);
    let said = body("/v2/models/all/config");
    assert_eq!(
        said["output"][0],
        json!({ "name": "text", "data_type": "TYPE_STRING", "dims": [1] })
    );
    assert!(daemon.get("/v2/models/all/ready").starts_with("HTTP/1.1 200"));
    let stats = body("/v2/models/all/stats");
    assert_eq!(stats["model_stats"][0]["inference_count"], 0);
    assert_eq!(infer(&daemon, &texts("a", 1)).0, 200);
    assert_eq!(body("/v2/models/all/stats")["model_stats"][0]["inference_count"], 1);
}

#[test]
fn process_answers_over_grpc() {
    let daemon = with_sdk("process-grpc");
    let input = |name: &str, datatype: &str, shape: &[i64]| InferInputTensor {
        name: name.into(),
        datatype: datatype.into(),
        shape: shape.into(),
        ..Default::default()
    };
    let floats: Vec<u8> = [1f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let request = ModelInferRequest {
        model_name: "all".into(),
        inputs: vec![
            input("text", "BYTES", &[1]),
            input("times", "INT64", &[1]),
            input("values", "FP32", &[1, 2]),
        ],
        raw_input_contents: vec![
            b"\x02\0\0\0hi".to_vec().into(),
            3i64.to_le_bytes().to_vec().into(),
            floats.into(),
        ],
        ..Default::default()
    };
    let mut grpc = Grpc::connect(daemon.folder());
    let said = grpc.answer(request.clone()).unwrap();
    assert_eq!(*said.raw_output_contents[0], *b"\x06\0\0\0hihihi");
    assert_eq!(*said.raw_output_contents[1], 3f32.to_le_bytes());
    assert_eq!(said.outputs[2].shape, [1]);
    let mut wrong = request.clone();
    wrong.raw_input_contents[0] = b"\x05\0\0\0hi".to_vec().into();
    let said = grpc.infer(wrong).unwrap_err();
    assert_eq!(said.message(), "tensor text: each text must follow its length");
    let mut raised = request;
    raised.raw_input_contents[0] = b"\x05\0\0\0raise".to_vec().into();
    let said = grpc.infer(raised).unwrap_err();
    assert_eq!((said.code(), said.message()), (tonic::Code::Internal, "ValueError: no such thing"));
}

/// Two models with one process each, of different classes.
#[test]
fn request_of_a_class_without_processes_is_refused() {
    let folder = Daemon::place("process-classes");
    put(folder.path(), "calm", RAW, "", "instances = { rt = 0, be = 1 }");
    put(folder.path(), "urgent", RAW, "", "instances = { rt = 1, be = 0 }");
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"calm\", \"urgent\"]"]);
    assert_eq!(children(&daemon).len(), 2, "one process each");
    let mut grpc = Grpc::connect(daemon.folder());
    for (model, own, other, class, words) in [
        ("calm", 2, 1, Class::RealTime, "real-time requests: instances.rt is 0"),
        ("urgent", 1, 2, Class::BestEffort, "best-effort requests: instances.be is 0"),
    ] {
        assert!(daemon.get(&format!("/v2/models/{model}/ready")).starts_with("HTTP/1.1 200"));
        let want = format!("model {model}/1: has no instance for {words}");
        assert_eq!(error(&ask_as(&daemon, model, "", other, 0)), (400, want.clone()));
        // Its input has another name than the model's: the class comes first.
        let said = grpc.infer(infer_request(model, class)).unwrap_err();
        assert_eq!((said.code(), said.message()), (tonic::Code::InvalidArgument, &*want));
        assert_eq!(ask_as(&daemon, model, "", own, 0).0, 200);
        let config = daemon.get(&format!("/v2/models/{model}/config"));
        assert_eq!(config.matches("KIND_MODEL").count(), 1, "a group of one class: {config}");
    }
    assert_eq!(error(&ask(&daemon, "urgent", "")).0, 400, "requests are best-effort by default");
    assert!(daemon.get("/metrics").contains("model=\"calm\""));
    for model in ["calm", "urgent"] {
        let path = format!("/v2/repository/models/{model}/unload");
        assert_eq!(post(&daemon, &path, &json!({})).0, 200);
    }
    within(SOON, "the end of both", || children(&daemon).is_empty());
}

#[test]
fn error_of_the_program_is_its_requests() {
    let daemon = with_sdk("process-errors");
    let said = |text: &str| error(&infer(&daemon, &texts(text, 1)));
    let process = || numbers_of(&infer(&daemon, &texts("facts", 1)));
    let before = process();
    assert_eq!(said("raise"), (500, "ValueError: no such thing".into()));
    assert_eq!(said("wrong"), (400, "text must be right".into()));
    assert_eq!(said("bare"), (500, "ValueError: infer must return output 'text', got none".into()));
    assert_eq!(process(), before, "the same process goes on");
}

fn numbers_of(said: &(u16, Value)) -> Value {
    assert_eq!(said.0, 200, "{said:?}");
    said.1["outputs"][1]["data"].clone()
}

#[test]
fn request_that_the_process_cannot_have_is_refused() {
    let daemon = with_sdk("process-refused");
    let with = |at: usize, key: &str, value: Value| {
        let mut body = texts("a", 1);
        body["inputs"][at][key] = value;
        error(&infer(&daemon, &body))
    };
    let refused = |text: &str| (400, text.to_owned());
    let want = "tensor values: shape must be [-1, 2], got [2, 3]";
    assert_eq!(with(0, "shape", json!([2, 3])), refused(want));
    assert_eq!(
        with(0, "shape", json!([3, 2])),
        refused("tensor values: must have 24 bytes, got 16")
    );
    assert_eq!(
        with(0, "datatype", json!("FP64")),
        refused("tensor values: datatype must be FP32, got \"FP64\"")
    );
    assert_eq!(with(1, "shape", json!([2])), refused("tensor text: shape must be [1], got [2]"));
    assert_eq!(
        with(1, "data", json!(["a", "b"])),
        refused("tensor text: must have 1 texts, got 2")
    );
    let mut classes = texts("a", 1);
    classes["outputs"] = json!([{ "name": "sum", "parameters": { "classification": 1 } }]);
    let said = error(&infer(&daemon, &classes));
    assert_eq!(said, (501, "tensor \"sum\" of a process as classes is not implemented".into()));
    let local = Client::connect("all", &options(daemon.folder(), None)).map(drop);
    let why = "all/1: a model that is a process at the local endpoint (HTTP and gRPC serve it)";
    assert_eq!(local.unwrap_err().to_string(), format!("{why} is not implemented"));
}

#[test]
fn process_has_only_its_own_environment() {
    let daemon = with_sdk("process-environment");
    let said = infer(&daemon, &texts("environment", 1));
    assert_eq!(said.0, 200, "{said:?}");
    let names = said.1["outputs"][2]["data"].as_array().unwrap();
    let names: Vec<_> =
        names.iter().map(|text| text.as_str().unwrap().split_once('=').unwrap().0).collect();
    let own: Vec<_> = names.into_iter().filter(|name| *name != "LC_CTYPE").collect(); // Python's
    assert_eq!(own, ["PATH", "PYTHONPATH"]);
    let said = infer(&daemon, &texts("facts", 1));
    let facts = &said.1["outputs"][2]["data"];
    let folder = daemon.folder().join("models/all/1").canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    assert_eq!(*facts, json!(["all", "1", "be", "cpu:0", folder, folder]));
    assert_eq!(said.1["outputs"][0]["data"], json!(["be"]));
}

#[test]
fn wrong_answer_is_an_error_and_the_process_goes_on() {
    let daemon = with_echo("process-answers", "", "");
    let before = super::pid(&daemon, "echo");
    let said = |id: &str| error(&ask(&daemon, "echo", id));
    assert_eq!(said("wrong shape"), (500, "answer: tensor y: must have 36 bytes, got 8".into()));
    assert_eq!(said("no output"), (500, "answer: must have output y".into()));
    assert_eq!(said("error"), (500, "out of luck".into()));
    assert_eq!(numbers(&ask(&daemon, "echo", "")), [1.5, -2.0]);
    assert_eq!(super::pid(&daemon, "echo"), before);
}

/// Shared memory of this user, removed when this is dropped. Its zeros take no memory.
struct Zeros(String);

impl Zeros {
    fn new(name: &str, bytes: u64) -> Self {
        let key = format!("/reef-{name}-{}", std::process::id());
        let flags = shm::OFlags::RDWR | shm::OFlags::CREATE | shm::OFlags::EXCL;
        let file = File::from(shm::open(&key, flags, Mode::RUSR | Mode::WUSR).unwrap());
        file.set_len(bytes).unwrap();
        Self(key)
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        let _ = shm::unlink(&self.0);
    }
}

/// The answer to a request on this connection.
fn post_by(http: &mut Http, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    let (status, said) = http.ask((head + &body).as_bytes()).unwrap();
    (status, serde_json::from_slice(&said).unwrap_or_default())
}

/// A program gets copies of regions, which count as the request's memory.
#[test]
fn inputs_in_regions_are_charged_as_they_are_copied() {
    const BYTES: u64 = 64 << 20;
    let (folder, memory) = (Daemon::place("process-regions"), Zeros::new("zeros", BYTES));
    put(folder.path(), "echo", RAW, "", "");
    let limits = ["limits.message_mib=8", "memory.connection_mib=16"];
    let flags = [TRUSTED, "models.load=[\"echo\"]", limits[0], limits[1]];
    let daemon = Daemon::start_in(folder, &flags);
    let mut http = Http::connect(daemon.folder()).unwrap(); // a region ends with its connections
    let mut post = |path: &str, body: &Value| post_by(&mut http, path, body);
    let region = json!({ "key": memory.0, "offset": 0, "byte_size": BYTES });
    assert_eq!(post("/v2/systemsharedmemory/region/zeros/register", &region).0, 200);
    let mut ask = |bytes: u64| {
        let at = json!({ "shared_memory_region": "zeros", "shared_memory_byte_size": bytes });
        let input =
            json!({ "name": "x", "datatype": "FP32", "shape": [bytes / 4], "parameters": at });
        post("/v2/models/echo/infer", &json!({ "inputs": [input] }))
    };
    assert_eq!(numbers(&ask(8)), [0.0, 0.0]);
    let (status, said) = error(&ask(BYTES));
    assert!(status == 429 && said.starts_with("bytes of requests of "), "{status} {said}");
    assert_eq!(numbers(&ask(8)), [0.0, 0.0], "the charge has ended");
}

/// As that of a network: the part of a region for an output may be longer.
#[test]
fn output_in_a_region_has_its_own_size_in_the_answer() {
    let daemon = with_echo("process-region-output", "", "");
    let memory = Zeros::new("outputs", 4096);
    let mut http = Http::connect(daemon.folder()).unwrap(); // a region ends with its connections
    let mut post = |path: &str, body: &Value| post_by(&mut http, path, body);
    let region = json!({ "key": memory.0, "offset": 0, "byte_size": 4096 });
    assert_eq!(post("/v2/systemsharedmemory/region/outputs/register", &region).0, 200);
    let part = |bytes: u64| {
        json!({
            "shared_memory_region": "outputs",
            "shared_memory_offset": 4,
            "shared_memory_byte_size": bytes,
        })
    };
    let mut ask = |bytes: u64| {
        let input = json!({ "name": "x", "datatype": "FP32", "shape": [2], "data": [1.5, -2.0] });
        let output = json!({ "name": "y", "parameters": part(bytes) });
        post("/v2/models/echo/infer", &json!({ "inputs": [input], "outputs": [output] }))
    };
    let (status, said) = ask(64);
    assert_eq!((status, &said["outputs"][0]["parameters"]), (200, &part(8)), "{said}");
    assert_eq!(said["outputs"][0]["shape"], json!([2]));
    let written = std::fs::read(format!("/dev/shm{}", memory.0)).unwrap();
    let want = [0.0_f32, 1.5, -2.0, 0.0].map(f32::to_le_bytes).concat();
    assert_eq!(written[..16], want[..]);
    assert_eq!(error(&ask(4)).0, 400, "too short");
}

/// In the same way as those of networks: a track for each process.
#[test]
fn requests_of_a_process_are_in_a_trace() {
    let daemon = with_echo("process-trace", "", "");
    let traced = || {
        thread::scope(|scope| {
            let traced = scope.spawn(|| daemon.get("/reef/trace?seconds=1"));
            while !traced.is_finished() {
                assert_eq!(ask(&daemon, "echo", "").0, 200);
                assert_eq!(ask(&daemon, "echo", "error").0, 500);
            }
            traced.join().unwrap()
        })
    };
    // On a busy machine no request may end in a second.
    within(SOON, "a trace with requests", || {
        let said = traced();
        let (_, body) = said.split_once("\r\n\r\n").expect("an answer");
        let trace: Value = serde_json::from_str(body).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let is_run = |event: &&Value| event["name"] == "echo/1" && event["cat"] == "be";
        let outcomes: Vec<_> =
            events.iter().filter(is_run).map(|event| &event["args"]["outcome"]).collect();
        let is_named = |event: &Value| event["args"]["name"] == "echo/1 be 0";
        ["ok", "program"].iter().all(|name| outcomes.iter().any(|outcome| *outcome == name))
            && events.iter().any(is_named)
    });
}
