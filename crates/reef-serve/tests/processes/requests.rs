//! Counts and classes of requests of the standard protocol, over gRPC and HTTP.

use crate::daemon::Daemon;
use crate::handmade::{file, node, open};
use crate::wire::{Grpc, Http, VALUES, infer_request, json, request};
use crate::{SOON, options, within};
use flate2::Compression;
use flate2::write::GzEncoder;
use reef_serve::{Class, Client, Error};
use std::io::Write;
use std::path::Path;
use std::thread;

/// Why a request over gRPC is refused.
fn refused_over_grpc(folder: &Path) -> String {
    let said = Grpc::connect(folder).infer(infer_request("tiny", Class::BestEffort));
    said.expect_err("no answer").message().into()
}

/// Sends a request over HTTP that is refused.
fn refused_over_http(folder: &Path) -> String {
    let text = json(Class::BestEffort, 4 * VALUES);
    let body = [text.as_bytes(), &[0; 4 * VALUES]].concat();
    let mut http = Http::connect(folder).expect("it listens");
    let (status, said) = http.ask(&request(Some(text.len()), &body)).expect("an answer");
    assert_ne!(status, 200);
    String::from_utf8(said).expect("JSON")
}

#[test]
fn an_open_request_keeps_its_place_until_it_is_answered() {
    let endless = "scheduler=rt-only"; // best-effort requests end with their time
    let flags = ["limits.open_requests=1", endless, "times.request_ms=2000"];
    let daemon = Daemon::start("open", &flags);
    for ask in [refused_over_grpc, refused_over_http] {
        // On a busy machine the first may have had its time before the second comes, or before a
        // worker begins with it.
        let late = |said: &str| said.contains("timed out after 2");
        within(SOON, "two at a time", || {
            let said: [String; 2] = thread::scope(|scope| {
                let both = [(); 2].map(|()| scope.spawn(|| ask(daemon.folder())));
                both.map(|one| one.join().unwrap())
            });
            let refused = |said: &str| said.contains("open requests must be at most 1");
            assert!(said.iter().all(|said| late(said) || refused(said)), "{said:?}");
            said.iter().any(|said| late(said)) && said.iter().any(|said| refused(said))
        });
        within(SOON, "a place", || daemon.metric("reef_open_requests") == 0.0);
    }
}

/// The header says the class of requests that name no priority.
#[test]
fn a_connection_may_say_its_class() {
    let daemon = Daemon::start("class", &[]);
    let served = |class: &str| {
        let name = "reef_requests_served_total";
        let line = format!("{name}{{model=\"tiny\",version=\"1\",class=\"{class}\"}} ");
        let text = daemon.get("/metrics");
        text.lines().find_map(|l| l.strip_prefix(&line)?.parse().ok()).unwrap_or(0u64)
    };
    let mut grpc = Grpc::connect(daemon.folder());
    let mut plain = infer_request("tiny", Class::BestEffort);
    plain.parameters.clear();
    grpc.infer_as("rt", plain.clone()).unwrap();
    assert_eq!([served("rt"), served("be")], [1, 0], "gRPC");
    grpc.infer(plain).unwrap();
    assert_eq!([served("rt"), served("be")], [1, 1], "gRPC, by default");

    let text = json(Class::BestEffort, 4 * VALUES).replace("\"priority\":2", "\"priority\":0");
    let body = [text.as_bytes(), &[0; 4 * VALUES]].concat();
    let plain = String::from_utf8(request(Some(text.len()), &body)).unwrap();
    let classed = plain.replacen("host: localhost\r\n", "host: localhost\r\nreef-class: rt\r\n", 1);
    let mut http = Http::connect(daemon.folder()).unwrap();
    assert_eq!(http.ask(classed.as_bytes()).unwrap().0, 200);
    assert_eq!([served("rt"), served("be")], [2, 1], "HTTP");
    assert_eq!(http.ask(plain.as_bytes()).unwrap().0, 200);
    assert_eq!([served("rt"), served("be")], [2, 2], "HTTP, by default");
}

#[test]
fn network_on_demand_leaves_and_returns_for_requests() {
    let folder = Daemon::place("network-on-demand");
    let text = "network = \"resnet18\"\nsize = 32\nseed = 1\nresidency = \"on-demand\"\n\
                idle = \"1ms\"\n";
    std::fs::write(folder.path().join("models/tiny/model.toml"), text).unwrap();
    let daemon = Daemon::start_in(folder, &["device=cpu:0?units=1", "times.request_ms=600000"]);
    let of = "model=\"tiny\",version=\"1\",class=\"be\",instance=\"0\",device=\"cpu:0\"";
    let is = |state: &str| {
        let line = format!("reef_model_residency{{{of},state=\"{state}\"}} 1");
        daemon.get("/metrics").lines().any(|one| one == line)
    };
    let mut grpc = Grpc::connect(daemon.folder());
    for class in Class::ALL {
        within(SOON, "it leaves", || is("away"));
        grpc.infer(infer_request("tiny", class)).unwrap();
    }
    assert!(daemon.metric(&format!("reef_model_returns_total{{{of}}}")) >= 2.0);
    within(SOON, "its memory is free", || is("away") && daemon.metric("reef_memory_bytes") == 0.0);
    let mut client = Client::connect("tiny", &options(daemon.folder(), None)).unwrap();
    client.infer(&vec![0.5; client.input_len()]).unwrap();
    assert!(is("resident"), "a client of the local path keeps it there");
    drop(client);
    within(SOON, "it leaves again", || is("away"));
}

#[test]
fn clients_load_nothing_where_that_is_off() {
    let daemon = Daemon::start("on-demand", &["models.on_demand=false"]);
    let connect = |name: &str| Client::connect(name, &options(daemon.folder(), None));
    let said = connect("other").unwrap_err();
    assert_eq!(said, Error::NotFound("model other is not loaded".into()));
    connect("tiny").unwrap().ping().unwrap();
}

/// Requests whose time is over in the queue count as those do that an instance has begun.
#[test]
fn every_answer_is_counted_once() {
    let endless = "scheduler=rt-only"; // best-effort requests end with their time
    let daemon = Daemon::start("counted", &[endless, "times.request_ms=500", "limits.queue=3"]);
    for (ask, path) in
        [(refused_over_grpc as fn(&Path) -> String, "grpc"), (refused_over_http, "http")]
    {
        let said: Vec<String> = thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(daemon.folder()))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let late = said.iter().filter(|text| text.contains("timed out")).count();
        let refused = said.iter().filter(|text| text.contains("queue full")).count();
        assert!(late >= 3 && late + refused == 8, "{said:?}");
        for (outcome, count) in [("deadline", late), ("exhausted", refused)] {
            let name = format!("reef_answers_total{{path={path:?},outcome={outcome:?}}}");
            assert!(count == 0 || daemon.metric(&name) == count as f64, "{name}: {count}");
        }
    }
    let text = daemon.get("/metrics");
    let failed = |reason: &str| {
        let of = "model=\"tiny\",version=\"1\",class=\"be\"";
        let name = format!("reef_requests_failed_total{{{of},reason={reason:?}}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0usize)
    };
    assert_eq!(failed("deadline") + failed("exhausted"), 16, "{text}");
}

#[test]
fn a_request_whose_client_went_away_is_counted() {
    let daemon = Daemon::start("gone", &["scheduler=rt-only", "times.request_ms=60000"]);
    let text = json(Class::BestEffort, 4 * VALUES);
    let body = [text.as_bytes(), &[0; 4 * VALUES]].concat();
    let mut stream = std::net::TcpStream::connect(&daemon.http).unwrap();
    std::io::Write::write_all(&mut stream, &request(Some(text.len()), &body)).unwrap();
    within(SOON, "a request", || daemon.metric("reef_open_requests") == 1.0);
    drop(stream);
    let gone = "reef_answers_total{path=\"http\",outcome=\"gone\"} 1\n";
    within(SOON, "its end", || daemon.get("/metrics").contains(gone));
    let failed = "class=\"be\",reason=\"gone\"} 1\n";
    within(SOON, "its end at the model", || daemon.get("/metrics").contains(failed));
}

#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let daemon = Daemon::start("formats", &[]);
    let get = |accept: &str| {
        let head = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        daemon.say(format!("{head}accept: {accept}\r\n\r\n").as_bytes())
    };
    let plain = get("text/plain");
    assert!(plain.contains("content-type: text/plain; version=0.0.4"), "{plain}");
    assert!(plain.contains("# TYPE process_cpu_seconds_total counter") && !plain.contains("# EOF"));
    let open = get("application/openmetrics-text;version=1.0.0,text/plain;q=0.1");
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(
        open.contains("# TYPE process_cpu_seconds counter") && open.ends_with("# EOF\n"),
        "{open}"
    );
    for name in ["process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"] {
        assert!(daemon.metric(name) > 0.0, "{name}");
    }
    for path in ["/v2", "/v2/"] {
        let said = daemon.get(path);
        assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"reef\""), "{path}: {said}");
    }
}

/// gRPC's own health check knows the daemon and its models.
#[test]
fn health_is_asked_for_as_grpc_has_it() {
    let daemon = Daemon::start("grpc-health", &[]);
    let grpc = Grpc::connect(daemon.folder());
    for service in ["", "inference.GRPCInferenceService", "tiny"] {
        assert_eq!(grpc.health(service).expect("an answer"), 1, "{service:?} serves");
    }
    let said = grpc.health("none").expect_err("there is no such model");
    assert_eq!((said.code(), said.message()), (tonic::Code::NotFound, "model none is not loaded"));
}

/// The framework refuses them with a text.
#[test]
fn path_that_is_not_utf8_is_refused_in_json() {
    let daemon = Daemon::start("path-bytes", &[]);
    let text = "Invalid URL: Invalid UTF-8 in `model`";
    let said = daemon.get("/v2/models/%ff");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    assert!(said.ends_with(&format!("{{\"error\":\"{text}\"}}")), "{said}");
    let said = daemon.get("/v1/models/%ff");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    assert!(said.contains("{\"error\":{\"message\":\"Invalid URL: "), "{said}");
}

#[test]
fn index_of_a_wrong_kind_is_refused() {
    let daemon = Daemon::start("index", &[]);
    let body = "{\"ready\":1}";
    let head = "POST /v2/repository/index HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let length = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    let said = daemon.say(format!("{head}{length}\r\n\r\n{body}").as_bytes());
    assert!(said.ends_with("{\"error\":\"ready: must be true or false, got 1\"}"), "{said}");
}

/// As curl sends a file of numbers.
#[test]
fn body_without_json_is_the_only_input() {
    let daemon = Daemon::start("without-json", &[]);
    let ask = |body: &[u8]| {
        let mut http = Http::connect(daemon.folder()).expect("it listens");
        let (status, said) = http.ask(&request(Some(0), body)).expect("an answer");
        (status, String::from_utf8_lossy(&said).into_owned())
    };
    let (status, said) = ask(&[0x3f; 4 * VALUES]);
    assert!(status == 200 && said.contains("binary_data_size"), "{status} {said}");
    let (status, said) = ask(&[0x3f; 5]);
    let why = format!("tensor input: must have {} bytes, got 5", 4 * VALUES);
    assert!(status == 400 && said.contains(&why), "{status} {said}");
}

/// Eight images of 640 × 640 have 39 MB. No key of the configuration is set for them.
#[test]
fn request_of_tens_of_megabytes_is_answered() {
    let folder = Daemon::place("large-request");
    let version = folder.path().join("models/detector/1");
    std::fs::create_dir_all(&version).expect("a folder of its own");
    let parts = [
        node("GlobalAveragePool", &["images"], "y", &[]),
        open(11, "images", 1, &["n", "3", "h", "w"]),
        open(12, "y", 1, &["n", "3", "1", "1"]),
    ];
    std::fs::write(version.join("model.onnx"), file(17, &parts)).expect("a file of its own");
    let daemon = Daemon::start_in(folder, &["models.load=[\"detector\"]"]);
    let shape: [i64; 4] = [8, 3, 640, 640];
    let images = 1f32.to_le_bytes().repeat(8 * 3 * 640 * 640);
    let text = serde_json::json!({
        "inputs": [{ "name": "images", "datatype": "FP32", "shape": shape,
            "parameters": { "binary_data_size": images.len() } }],
    })
    .to_string();
    let head = format!(
        "POST /v2/models/detector/infer HTTP/1.1\r\nhost: localhost\r\n\
         inference-header-content-length: {}\r\ncontent-length: {}\r\n\r\n",
        text.len(),
        text.len() + images.len()
    );
    let mut http = Http::connect(daemon.folder()).expect("it listens");
    let asked = http.ask(&[head.as_bytes(), text.as_bytes(), &images].concat());
    let (status, said) = asked.expect("an answer");
    let said = String::from_utf8_lossy(&said);
    assert_eq!(status, 200, "{said}");
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let output = &said["outputs"][0];
    assert_eq!(output["shape"], serde_json::json!([8, 3, 1, 1]), "{said}");
    assert_eq!(output["data"].as_array().map(Vec::len), Some(24), "{said}");
    let is_one = |mean: &serde_json::Value| mean.as_f64().is_some_and(|x| (x - 1.0).abs() < 1e-3);
    assert!(output["data"].as_array().into_iter().flatten().all(is_one), "{said}");
    let mut asked = infer_request("detector", Class::BestEffort);
    asked.inputs[0].name = "images".into();
    asked.inputs[0].shape = shape.into();
    asked.raw_input_contents = vec![images.into()];
    let said = Grpc::connect(daemon.folder()).answer(asked).expect("an answer");
    assert_eq!(said.outputs[0].shape, [8, 3, 1, 1]);
}

/// A body by gzip is what is in it; one that becomes too much is refused.
#[test]
fn bodies_may_be_compressed() {
    let daemon = Daemon::start("compressed", &["limits.message_mib=1"]);
    let packed = |bytes: &[u8]| {
        let mut to = GzEncoder::new(Vec::new(), Compression::fast());
        to.write_all(bytes).expect("memory takes it");
        to.finish().expect("memory takes it")
    };
    let ask = |json: usize, body: &[u8], how: &str| {
        let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\n";
        let lengths = format!(
            "content-encoding: {how}\r\ninference-header-content-length: {json}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let mut http = Http::connect(daemon.folder()).expect("it listens");
        let request = [head.as_bytes(), lengths.as_bytes(), body].concat();
        let (status, said) = http.ask(&request).expect("an answer");
        (status, String::from_utf8_lossy(&said).into_owned())
    };
    let text = json(Class::BestEffort, 4 * VALUES);
    let body = packed(&[text.as_bytes(), &[0; 4 * VALUES]].concat());
    let (status, said) = ask(text.len(), &body, "gzip");
    assert_eq!(status, 200, "{said}");
    let (status, said) = ask(text.len(), &packed(&vec![b' '; 2 << 20]), "gzip");
    assert!(status == 413 && said.contains("1048576 bytes, decompressed"), "{status} {said}");
    let (status, said) = ask(text.len(), &body[..body.len() / 2], "gzip");
    assert!(status == 400 && said.contains("compressed body"), "{status} {said}");
    let (status, said) = ask(text.len(), &body, "br");
    assert!(status == 501 && said.contains("have: gzip, deflate"), "{status} {said}");
    let body = packed(format!("{{\"input\":[{}]}}", vec!["0.5"; VALUES].join(",")).as_bytes());
    let head = format!(
        "POST /v2/models/tiny/generate HTTP/1.1\r\nhost: localhost\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut http = Http::connect(daemon.folder()).expect("it listens");
    let (status, said) = http.ask(&[head.as_bytes(), &body].concat()).expect("an answer");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&said));
}

/// Digits make it long, and not its numbers.
#[test]
fn long_generate_request_is_charged_for_its_numbers() {
    let flags = ["limits.message_mib=1", "memory.connection_mib=2"];
    let daemon = Daemon::start("generate-charge", &flags);
    let number = format!("0.5{}", "0".repeat(100));
    let text = format!("{{\"input\":[{}]}}", vec![&*number; VALUES].join(","));
    let head = format!(
        "POST /v2/models/tiny/generate HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    let mut http = Http::connect(daemon.folder()).expect("it listens");
    let (status, said) = http.ask(format!("{head}{text}").as_bytes()).expect("an answer");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&said));
}
