//! Networks with a program that answers where their file is not read.

use super::{RAW, TRUSTED, ask, children, error, numbers, post, put};
use crate::daemon::Daemon;
use crate::handmade::{file, node, value};
use crate::{SOON, within};
use serde_json::{Value, json};
use std::path::Path;

/// An operator that is not read.
const UNKNOWN: &str = "ImageDecoder";

/// Puts the model `either` there: a program that returns its input, and a file with this operator.
fn put_either(folder: &Path, operator: &str) {
    put(folder, "either", RAW, "", "");
    let toml = folder.join("models/either/model.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(toml, text.replace("engine = \"process\"", "engine = \"auto\"")).unwrap();
    put_file(folder, operator);
}

/// Puts a file with this operator into the only version of `either`.
fn put_file(folder: &Path, operator: &str) {
    let graph = [node(operator, &["x"], "y", &[]), value(11, "x", &[2]), value(12, "y", &[2])];
    std::fs::write(folder.join("models/either/1/model.onnx"), file(17, &graph)).unwrap();
}

fn load(daemon: &Daemon) -> (u16, String) {
    error(&post(daemon, "/v2/repository/models/either/load", &json!({})))
}

/// The platform in the metadata of `either`.
fn platform(daemon: &Daemon) -> String {
    let said = daemon.get("/v2/models/either");
    let body = said.split_once("\r\n\r\n").expect("a body").1;
    let said: Value = serde_json::from_str(body).expect("JSON");
    said["platform"].as_str().expect("a text").to_owned()
}

fn check_engine(daemon: &Daemon, want: &str, engine: &str) {
    assert_eq!(platform(daemon), want);
    let ready = daemon.get("/v2/models/either/ready");
    assert!(ready.contains(&format!("\"platform\":\"{want}\"")), "{ready}");
    let of = format!("model=\"either\",version=\"1\",engine=\"{engine}\"");
    assert_eq!(daemon.metric(&format!("reef_model_engine{{{of}}}")), 1.0);
}

#[test]
fn engine_auto_follows_the_file_at_each_load() {
    let folder = Daemon::place("process-auto");
    put_either(folder.path(), UNKNOWN);
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"either\"]"]);
    check_engine(&daemon, "reef_process", "process");
    assert_eq!(numbers(&ask(&daemon, "either", "")), [1.5, -2.0]);

    put_file(daemon.folder(), "Relu");
    assert_eq!(load(&daemon).0, 200);
    check_engine(&daemon, "reef", "reef");
    assert_eq!(numbers(&ask(&daemon, "either", "")), [1.5, 0.0]);
    within(SOON, "no process", || children(&daemon).is_empty());

    put_file(daemon.folder(), UNKNOWN);
    daemon.signal("HUP");
    within(SOON, "the program", || platform(&daemon) == "reef_process");
    assert_eq!(numbers(&ask(&daemon, "either", "")), [1.5, -2.0]);
}

#[test]
fn engine_auto_starts_no_program_for_a_broken_file() {
    let folder = Daemon::place("process-auto-broken");
    put_either(folder.path(), "Relu");
    let daemon = Daemon::start_in(folder, &[TRUSTED, "models.load=[\"either\"]"]);
    std::fs::write(daemon.folder().join("models/either/1/model.onnx"), "broken").unwrap();
    let (status, said) = load(&daemon);
    assert!(status == 400 && said.starts_with("model either/1: "), "{status} {said}");
    assert!(said.contains("model.onnx: no ONNX file"), "{said}");
    check_engine(&daemon, "reef", "reef"); // as before
    assert!(children(&daemon).is_empty());
}

#[test]
fn engine_auto_without_a_program_names_the_key() {
    let folder = Daemon::place("process-auto-unnamed");
    put_either(folder.path(), UNKNOWN);
    let toml = folder.path().join("models/either/model.toml");
    std::fs::write(toml, "engine = \"auto\"\n").unwrap();
    let daemon = Daemon::start_in(folder, &[]);
    let (status, said) = load(&daemon);
    let want = "; or name a program in process.command of model.toml";
    assert!(status == 400 && said.contains(UNKNOWN) && said.ends_with(want), "{status} {said}");
}

/// A program that is not started now may be needed for the next file.
#[test]
fn program_of_engine_auto_needs_the_operators_trust() {
    let folder = Daemon::place("process-auto-trust");
    put_either(folder.path(), "Relu");
    let daemon = Daemon::start_in(folder, &[]);
    let (status, said) = load(&daemon);
    assert!(status == 403 && said.contains("models.processes = true"), "{status} {said}");
}
