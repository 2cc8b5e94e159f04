//! Models that answer in parts: gRPC's streams, `generate` and `generate_stream`.

use super::{TRUSTED, error, post, post_bytes, put, with_echo};
use crate::daemon::Daemon;
use crate::wire::Grpc;
use crate::wire::proto::model_infer_request::InferInputTensor;
use crate::wire::proto::{InferParameter, ModelInferRequest, infer_parameter::ParameterChoice};
use crate::{SOON, within};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

fn with_count(test: &str) -> Daemon {
    let folder = Daemon::place(test);
    put(folder.path(), "count", include_str!("streams.py"), "", "");
    Daemon::start_in(folder, &[TRUSTED, "models.load=[\"count\", \"tiny\"]"])
}

/// As [`with_count`], with requests and clients that may take ten minutes.
fn with_patient_count(test: &str, keys: &str) -> Daemon {
    let folder = Daemon::place(test);
    put(folder.path(), "count", include_str!("streams.py"), "", keys);
    let long = ["times.request_ms=600000", "times.write_ms=600000"];
    Daemon::start_in(folder, &[TRUSTED, "models.load=[\"count\"]", long[0], long[1]])
}

/// Parts of an answer that does not end in the time of a test.
const FOREVER: i64 = 1_000_000_000;

/// Sends a request to `generate_stream`, and reads nothing.
fn begin(daemon: &Daemon, body: &Value) -> TcpStream {
    let (mut stream, body) = (TcpStream::connect(&daemon.http).unwrap(), body.to_string());
    let head = "POST /v2/models/count/generate_stream HTTP/1.1\r\nhost: localhost\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream
}

/// Sends a request to `generate_stream`; returns the data of its events.
fn events(daemon: &Daemon, body: &Value) -> Vec<Value> {
    let text = body.to_string();
    let request = format!(
        "POST /v2/models/count/generate_stream HTTP/1.1\r\nhost: localhost\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    let said = daemon.say(request.as_bytes());
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let data = said.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

#[test]
fn generate_stream_sends_each_part_as_an_event() {
    let daemon = with_count("process-events");
    let said = events(&daemon, &json!({ "text": "a", "count": 3, "id": "7" }));
    let part = |number: u64| json!({ "id": "7", "model_name": "count", "model_version": "1", "token": "a", "number": number });
    assert_eq!(said, [part(0), part(1), part(2)]);
    assert!(events(&daemon, &json!({ "text": "a", "count": 0 })).is_empty());
    let said = events(&daemon, &json!({ "text": "raise", "count": 5 }));
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[2], json!({ "error": "no more" }));
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

/// A sequence has begun once the first request has had its last part.
#[test]
fn requests_of_a_sequence_are_answered_in_parts() {
    let folder = Daemon::place("process-parts-sequence");
    put(folder.path(), "count", include_str!("streams.py"), "", "max_sequences = 8");
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"count\"]"]);
    let body = |parameters: Value| json!({ "text": "a", "count": 2, "parameters": parameters });
    let first = body(json!({ "sequence_id": 7, "sequence_start": true }));
    assert_eq!(events(&daemon, &first).len(), 2);
    let last = body(json!({ "sequence_id": 7, "sequence_end": true }));
    assert_eq!(events(&daemon, &last).len(), 2, "it has begun");
    let next = body(json!({ "sequence_id": 7 }));
    let said = error(&post(&daemon, "/v2/models/count/generate_stream", &next));
    assert!(said.0 == 400 && said.1.contains("must begin with sequence_start"), "{said:?}");
}

#[test]
fn generate_takes_exactly_one_answer() {
    let daemon = with_count("process-generate");
    let generate = |body: Value| post(&daemon, "/v2/models/count/generate", &body);
    let (status, said) = generate(json!({ "text": "a", "count": 1 }));
    assert_eq!((status, &said["token"]), (200, &json!("a")), "{said}");
    let wrong = |got: &str| {
        (500, format!("generate: must have one answer, got {got} (generate_stream takes all)"))
    };
    let asked = |count: i64| error(&generate(json!({ "text": "a", "count": count })));
    assert_eq!([asked(2), asked(0)], ["several", "none"].map(wrong));
    assert_eq!(asked(FOREVER), wrong("several"), "it does not wait for the others");
    let (status, said) = error(&generate(json!({ "text": "a" })));
    assert_eq!((status, &*said), (400, "must have the 2 inputs text, count, got 1"));
    let (status, said) = error(&generate(json!({ "text": ["a", "b"], "count": 1 })));
    assert_eq!((status, &*said), (400, "tensor \"text\": must have values for shape [1], got 2"));
    let whole = json!({ "inputs": [
        { "name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"] },
        { "name": "count", "datatype": "INT64", "shape": [1], "data": [1] },
    ] });
    let said = error(&post(&daemon, "/v2/models/count/infer", &whole));
    assert_eq!(said.0, 501, "{said:?}");
    let zeros = json!({ "input": vec![0.5; 3 * 32 * 32] });
    let (status, body) =
        post_bytes(&daemon, "/v2/models/tiny/generate", "", zeros.to_string().as_bytes());
    let said: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, said["logits"].as_array().map(Vec::len)), (200, Some(1000)));
    let long =
        format!("{{\"input\": [{}]}}", vec![format!("0.5{}", "0".repeat(30)); 3072].join(","));
    assert!(long.len() > 64 << 10);
    for path in ["generate", "generate_stream"] {
        let path = format!("/v2/models/tiny/{path}");
        assert_eq!(post_bytes(&daemon, &path, "", long.as_bytes()).0, 200, "as long as for infer");
    }
}

#[test]
fn generate_has_each_number_as_infer_has_it() {
    let daemon = with_echo("process-numbers", "", "");
    let said = |body: &str| {
        let (status, said) = post_bytes(&daemon, "/v2/models/echo/generate", "", body.as_bytes());
        assert_eq!(status, 200, "{said:?}");
        String::from_utf8(said).unwrap()
    };
    let head = r#"{"model_name":"echo","model_version":"1","y":"#;
    assert_eq!(said(r#"{"x": [NaN, -Infinity, 0.1]}"#), format!("{head}[NaN,-Infinity,0.1]}}"));
    assert_eq!(said(r#"{"x": 0.1}"#), format!("{head}0.1}}"));
    assert_eq!(said(r#"{"x": []}"#), format!("{head}[]}}"));
}

#[test]
fn process_hears_that_the_client_of_a_stream_is_gone() {
    let daemon = with_count("process-gone");
    let mut stream = begin(&daemon, &json!({ "text": "a", "count": FOREVER }));
    stream.read_exact(&mut [0; 512]).unwrap();
    drop(stream);
    let cancelled = daemon.folder().join("models/count/1/cancelled");
    within(SOON, "its cancellation", || cancelled.exists());
    assert_eq!(events(&daemon, &json!({ "text": "a", "count": 2 })).len(), 2, "it goes on");
}

/// The request before it in its sequence goes on.
#[test]
fn request_that_waits_in_its_sequence_ends_with_its_client() {
    let daemon = with_patient_count("process-gone-waiting", "max_sequences = 8");
    let sequence = json!({ "sequence_id": 7, "sequence_start": true });
    let body = json!({ "text": "a", "count": FOREVER, "parameters": sequence });
    let open = || daemon.metric("reef_open_requests");
    let mut first = begin(&daemon, &body);
    first.read_exact(&mut [0; 512]).unwrap();
    // It reads on: a slow reader would be in the way of the second one, and end.
    let reader = std::thread::spawn(move || std::io::copy(&mut first, &mut std::io::sink()));
    let second = begin(&daemon, &body);
    within(SOON, "the second one waits", || open() == 2.0);
    drop(second);
    within(SOON, "its end", || open() == 1.0);
    drop(daemon);
    let _ended_or_lost = reader.join().unwrap();
}

/// It counts once, also while the client waits for its first part.
#[test]
fn answer_in_parts_is_one_open_request() {
    let folder = Daemon::place("process-one-slot");
    put(folder.path(), "count", include_str!("streams.py"), "", "");
    let flags = [TRUSTED, "models.load=[\"count\"]", "limits.open_requests=1"];
    let daemon = Daemon::start_in(folder, &flags);
    let body = json!({ "text": "a", "count": 2 });
    assert_eq!(events(&daemon, &body).len(), 2);
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
    let whole = post(&daemon, "/v2/models/count/generate", &json!({ "text": "a", "count": 1 }));
    assert_eq!(whole.0, 200, "{whole:?}");
    let mut endless = begin(&daemon, &json!({ "text": "a", "count": FOREVER }));
    endless.read_exact(&mut [0; 512]).unwrap();
    let said = error(&post(&daemon, "/v2/models/count/generate_stream", &body));
    assert_eq!(said, (429, "open requests must be at most 1".into()), "it lasts with its parts");
}

/// It reads nothing, and no timeout of its connection ends that: as if it took a few bytes now and
/// then.
#[test]
fn slow_reader_of_a_stream_does_not_hold_the_process() {
    let daemon = with_patient_count("process-slow-reader", "");
    let body = json!({ "text": "a".repeat(10_000), "count": 1_000_000_000_u64 }).to_string();
    let mut slow = TcpStream::connect(&daemon.http).unwrap();
    slow.set_read_timeout(Some(5 * SOON)).unwrap();
    let head = "POST /v2/models/count/generate_stream HTTP/1.1\r\nhost: localhost\r\n";
    let length = body.len();
    write!(slow, "{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    slow.read_exact(&mut [0; 512]).unwrap();
    let other = events(&daemon, &json!({ "text": "b", "count": 2 }));
    assert_eq!(other.len(), 2, "the process goes on");
    assert!(daemon.folder().join("models/count/1/cancelled").exists(), "it has heard of it");
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    let last = rest.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
    let last: Value = serde_json::from_str(last.expect("an event")).expect("JSON");
    let said = last["error"].as_str().unwrap_or_default();
    assert!(said.starts_with("stream: a client must read at least 64 KiB a second"), "{last}");
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

/// A request by gRPC. With a mark its last answer is an empty one.
fn grpc_request(id: &str, count: i64, is_marked: bool) -> ModelInferRequest {
    let input = |name: &str, datatype: &str| InferInputTensor {
        name: name.into(),
        datatype: datatype.into(),
        shape: vec![1],
        ..Default::default()
    };
    let marked = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    let mark = ("triton_enable_empty_final_response".to_owned(), marked);
    ModelInferRequest {
        model_name: "count".into(),
        id: id.into(),
        parameters: is_marked.then_some(mark).into_iter().collect(),
        inputs: vec![input("text", "BYTES"), input("count", "INT64")],
        raw_input_contents: vec![
            b"\x01\0\0\0a".to_vec().into(),
            count.to_le_bytes().to_vec().into(),
        ],
        ..Default::default()
    }
}

#[test]
fn process_hears_that_the_client_of_a_grpc_stream_is_gone() {
    let daemon = with_count("process-gone-grpc");
    let mut grpc = Grpc::connect(daemon.folder());
    let first = grpc.first_answer(grpc_request("a", FOREVER, false)).unwrap().expect("a part");
    assert_eq!(first.error_message, "");
    grpc.live().unwrap(); // the connection stays, and passes the cancellation on
    let cancelled = daemon.folder().join("models/count/1/cancelled");
    within(SOON, "its cancellation", || cancelled.exists());
    assert_eq!(grpc.stream(vec![grpc_request("b", 2, false)]).unwrap().len(), 2, "it goes on");
    within(SOON, "no open request", || daemon.metric("reef_open_requests") == 0.0);
}

#[test]
fn grpc_stream_has_all_parts_of_each_request() {
    let daemon = with_count("process-decoupled");
    let mut grpc = Grpc::connect(daemon.folder());
    let asked =
        vec![grpc_request("a", 2, false), grpc_request("b", 3, true), grpc_request("c", 1, false)];
    let said = grpc.stream(asked).unwrap();
    let ids: Vec<&str> = said.iter().map(|one| &*one.infer_response.as_ref().unwrap().id).collect();
    assert_eq!(ids, ["a", "a", "b", "b", "b", "b", "c"]);
    assert!(said.iter().all(|one| one.error_message.is_empty()), "{said:?}");
    let last = said[5].infer_response.as_ref().unwrap();
    assert!(last.outputs.is_empty());
    let mark = &last.parameters["triton_final_response"].parameter_choice;
    assert_eq!(*mark, Some(ParameterChoice::BoolParam(true)));
}
