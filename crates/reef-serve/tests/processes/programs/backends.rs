//! Other programs as models: those of Triton's Python backend, and one of C++.

use super::batches::ask_together;
use super::{TRUSTED, ask, error, numbers, post, python};
use crate::Folder;
use crate::daemon::Daemon;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const CONFIG: &str = r#"
name: "scale" backend: "python" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "version" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
parameters { key: "factor" value { string_value: "2.5" } }
parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env" } }
"#;

/// Puts the model `scale` there, with an interpreter that has the package.
fn put_triton(folder: &Path, config: &str) {
    let model = folder.join("models/scale");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reef-python/python");
    for folder in ["1", "env/bin"] {
        std::fs::create_dir_all(model.join(folder)).unwrap();
    }
    std::fs::write(model.join("config.pbtxt"), config).unwrap();
    std::fs::write(model.join("1/model.py"), include_str!("triton_model.py")).unwrap();
    let interpreter = model.join("env/bin/python3");
    let text = format!("#!/bin/sh\nPYTHONPATH={package:?} exec {} -S \"$@\"\n", python());
    // Another process writes it: children of other tests would keep a file of ours open for a
    // moment, and what is open for writing is not executed.
    let write = ["-c", "printf %s \"$1\" >\"$0\""];
    let mut shell = Command::new("sh");
    let status = shell.args(write).arg(&interpreter).arg(text).status();
    assert!(status.unwrap().success());
    std::fs::set_permissions(&interpreter, PermissionsExt::from_mode(0o755)).unwrap();
}

fn scale(daemon: &Daemon, id: &str) -> (u16, Value) {
    let body = json!({ "id": id, "inputs": [
        { "name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1.0, 2.0]] },
    ] });
    post(daemon, "/v2/models/scale/infer", &body)
}

#[test]
fn model_of_tritons_python_backend_runs_unchanged() {
    let folder = Daemon::place("process-triton");
    put_triton(folder.path(), CONFIG);
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"scale\"]"]);
    let (status, said) = scale(&daemon, "");
    assert_eq!(status, 200, "{said}");
    let want = json!([
        { "name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.5, 5.0] },
        { "name": "version", "datatype": "BYTES", "shape": [1, 1], "data": ["1"] },
    ]);
    assert_eq!(said["outputs"], want);
    assert_eq!(error(&scale(&daemon, "wrong")), (400, "not this one".into()));
    assert_eq!(error(&scale(&daemon, "fails")), (500, "no luck".into()));
    let none = "RuntimeError: execute must return one response for each request, got 0 for 1";
    assert_eq!(error(&scale(&daemon, "none")), (500, none.into()));
    let (status, said) = post(&daemon, "/v2/repository/models/scale/unload", &json!({}));
    assert_eq!(status, 200, "{said}");
    assert!(daemon.folder().join("models/scale/finalized").exists());
}

/// Starts a daemon with the model `scale` and `dynamic_batching`.
fn with_batches(test: &str) -> Daemon {
    let folder = Daemon::place(test);
    put_triton(folder.path(), &format!("{CONFIG}dynamic_batching {{ }}"));
    Daemon::start_in(folder, &[TRUSTED, "models.load=[\"scale\"]"])
}

/// The second request has too many rows for the batch of the first one; the third one fits.
#[test]
fn batch_of_tritons_backend_has_its_maximum_of_rows() {
    let daemon = with_batches("process-triton-rows");
    let body = |id: &str, rows: usize| {
        json!({ "id": id, "inputs": [
            { "name": "x", "datatype": "FP32", "shape": [rows, 2], "data": vec![[1.0; 2]; rows] },
        ] })
    };
    let bodies = [3, 2, 1].map(|rows| body("count", rows));
    let said = ask_together(&daemon, "scale", &body("hold", 1), &bodies);
    for ((status, said), (rows, requests)) in said.iter().zip([(3, 2.0), (2, 1.0), (1, 2.0)]) {
        let data = &said["outputs"][0]["data"];
        assert_eq!((*status, data), (200, &json!(vec![requests; 2 * rows])), "{said}");
    }
}

/// Its configuration has the rows as Triton has them: `max_batch_size`, and tensors without them.
#[test]
fn configuration_of_tritons_backend_has_its_batches() {
    let daemon = with_batches("process-triton-batches");
    let said = daemon.get("/v2/models/scale/config");
    let said: Value = serde_json::from_str(said.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&said["max_batch_size"], &said["input"][0]["dims"]), (&json!(4), &json!([2])));
}

/// The model sees the number of its sequence, and flags that are 1 for the start and 2 for the end.
#[test]
fn model_of_tritons_backend_has_sequences() {
    let folder = Daemon::place("process-triton-sequences");
    put_triton(folder.path(), &format!("{CONFIG}sequence_batching {{ direct {{ }} }}"));
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"scale\"]"]);
    let step = |flags: Value| {
        let mut parameters = json!({ "sequence_id": 77 });
        for flag in flags.as_array().unwrap() {
            parameters[flag.as_str().unwrap()] = json!(true);
        }
        let body = json!({ "id": "sequence", "parameters": parameters, "inputs": [
            { "name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1.0, 2.0]] },
        ] });
        let (status, said) = post(&daemon, "/v2/models/scale/infer", &body);
        assert_eq!(status, 200, "{said}");
        said["outputs"][0]["data"].clone()
    };
    assert_eq!(step(json!(["sequence_start"])), json!([1.0, 1.0]));
    assert_eq!(step(json!([])), json!([1.0, 0.0]));
    assert_eq!(step(json!(["sequence_end"])), json!([1.0, 2.0]));
    assert_eq!(step(json!(["sequence_start", "sequence_end"])), json!([1.0, 3.0]));
    let said = error(&scale(&daemon, ""));
    assert_eq!(said.1, "parameter sequence_id: must be given, as scale/1 has sequences");
}

#[test]
fn parts_of_tritons_backend_that_are_not_there_are_refused() {
    let folder = Daemon::place("process-triton-refused");
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    let load = |parameters: Value| {
        error(&post(
            &daemon,
            "/v2/repository/models/scale/load",
            &json!({ "parameters": parameters }),
        ))
    };
    for (more, want) in [
        (
            "model_transaction_policy { decoupled: true }",
            "model_transaction_policy of backend python is not implemented",
        ),
        (
            "sequence_batching { control_input [ { name: \"START\" } ] }",
            "configuration: sequence_batching.control_input is not implemented",
        ),
    ] {
        put_triton(daemon.folder(), &format!("{CONFIG}{more}"));
        let (status, said) = load(json!({}));
        assert!(status >= 400 && said.contains(want), "{more}: {status} {said}");
    }
    let packed = CONFIG.replace("/env", "/env.tar.gz");
    put_triton(daemon.folder(), &packed);
    let (_, said) = load(json!({}));
    assert!(said.contains("must be a folder with bin/python3, got"), "{said}");
    put_triton(daemon.folder(), CONFIG);
    let (status, said) = load(json!({ "config": "{ \"backend\": \"python\" }" }));
    assert!(status == 403 && said.contains("a client cannot name a program"), "{status} {said}");
}

/// Its command does not name `model.py`, and its interpreter is in folders of its own.
#[test]
fn program_of_tritons_backend_belongs_to_its_owner() {
    let folder = Daemon::place("process-triton-owner");
    put_triton(folder.path(), CONFIG);
    let daemon = Daemon::start_in(folder, &[TRUSTED]);
    for (path, mode) in [("1/model.py", 0o666), ("config.pbtxt", 0o664), ("env/bin", 0o777)] {
        let at = daemon.folder().join("models/scale").join(path);
        let before = at.metadata().unwrap().permissions();
        std::fs::set_permissions(&at, PermissionsExt::from_mode(mode)).unwrap();
        let said = post(&daemon, "/v2/repository/models/scale/load", &json!({}));
        let (status, said) = error(&said);
        let want = format!("must be writable by its owner only, got mode {mode:o}");
        assert!(status == 403 && said.ends_with(&want), "{path}: {status} {said}");
        std::fs::set_permissions(&at, before).unwrap();
    }
}

/// The client in C++ of the repository, as the documentation has it.
#[test]
fn program_of_another_language_answers() {
    let folder = Daemon::place("process-native");
    let version = folder.path().join("models/scale/1");
    std::fs::create_dir_all(&version).unwrap();
    if !is_compiled(&folder) {
        return reef_conformance::skip("no C++ compiler");
    }
    let text = "engine = \"process\"\nprocess.command = [\"./scale\"]\n";
    std::fs::write(folder.path().join("models/scale/model.toml"), text).unwrap();
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"scale\"]"]);
    for _ in 0..3 {
        assert_eq!(numbers(&ask(&daemon, "scale", "any")), [3.0, -4.0]);
    }
    let empty =
        json!({ "inputs": [{ "name": "x", "datatype": "FP32", "shape": [0], "data": [] }] });
    let (status, said) = post(&daemon, "/v2/models/scale/infer", &empty);
    assert_eq!((status, &said["outputs"][0]["shape"]), (200, &json!([0])), "{said}");
}

fn is_compiled(folder: &Folder) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/process/scale.cpp");
    let program = folder.path().join("models/scale/1/scale");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program).arg(source);
    match compiler.status() {
        Ok(status) => {
            assert!(status.success(), "the example must compile");
            true
        }
        Err(_) => false,
    }
}
