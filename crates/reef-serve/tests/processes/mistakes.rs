//! Mistakes of clients: each is theirs in the answer, in words that say what to do.

use crate::daemon::Daemon;
use crate::wire::VALUES;
use std::process::Command;

fn post(daemon: &Daemon, path: &str, body: &str) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    daemon.say(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

/// An inference with these parameters, of the request and of its output.
fn infer(daemon: &Daemon, of_request: &str, of_output: &str) -> String {
    let data = vec!["0"; VALUES].join(",");
    let body = format!(
        r#"{{"parameters":{of_request},"inputs":[{{"name":"input","datatype":"FP32","shape":[1,3,32,32],"data":[{data}]}}],"outputs":[{{"name":"logits","parameters":{of_output}}}]}}"#
    );
    post(daemon, "/v2/models/tiny/infer", &body)
}

#[track_caller]
fn is(said: &str, status: u16, text: &str) {
    assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{status} expected: {said}");
    assert!(said.contains(text), "{text} expected: {said}");
}

#[test]
fn parameters_that_are_wrong_are_named_in_a_sentence() {
    let daemon = Daemon::start("parameters", &[]);
    is(&infer(&daemon, r#"{"priority":4294967295}"#, r#"{"classification":4294967295}"#), 200, "");
    let too_large = |n: u64| (n, format!("must be at most 4294967295, got {n}"));
    for (value, text) in [
        ("1099511627776", too_large(1 << 40).1),
        ("-1", "must be a non-negative integer, got ".into()),
        ("1.5", "must be a non-negative integer, got ".into()),
        ("\"high\"", "must be a non-negative integer, got \\\"high\\\"".into()),
    ] {
        let said = infer(&daemon, &format!("{{\"priority\":{value}}}"), "{}");
        is(&said, 400, &format!("parameter priority: {text}"));
        assert!(!said.contains("Other") && !said.contains("Text("), "{said}");
    }
    let (large, text) = too_large(1 << 62);
    let said = infer(&daemon, "{}", &format!("{{\"classification\":{large}}}"));
    is(&said, 400, &format!("parameter classification: {text}"));
}

/// As each tutorial has it. A page of another origin may have a browser send the same.
#[test]
fn form_is_refused_with_the_remedy() {
    let daemon = Daemon::start("form", &[]);
    let ask = |kind: &str| {
        let head =
            "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        daemon
            .say(format!("{head}content-type: {kind}\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes())
    };
    for form in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        is(
            &ask(form),
            403,
            "set Content-Type: application/json (curl: -H 'Content-Type: application/json')",
        );
    }
    is(&ask("application/json"), 400, "");
}

/// A load of `tiny` with a file of this name.
fn load(daemon: &Daemon, name: &str, bytes: usize) -> String {
    let content = "AAAA".repeat(bytes / 3);
    let body = format!(r#"{{"parameters":{{"config":"{{}}","file:{name}":"{content}"}}}}"#);
    post(daemon, "/v2/repository/models/tiny/load", &body)
}

#[test]
fn names_that_are_too_long_are_refused() {
    let daemon = Daemon::start("long-names", &[]);
    for name in [format!("1/{}", "x".repeat(256)), format!("1/{}", "x/".repeat(300))] {
        is(&load(&daemon, &name, 3), 400, "must have at most 512 bytes, and each part 255");
    }
    let long = "x".repeat(300);
    for path in ["load", "unload"] {
        is(&post(&daemon, &format!("/v2/repository/models/{long}/{path}"), ""), 400, "model name");
    }
    is(&post(&daemon, &format!("/v2/models/{long}/infer"), ""), 400, "");
    let region = "/v2/systemsharedmemory/region/x/register";
    is(&post(&daemon, region, &format!(r#"{{"key":"{long}","byte_size":1}}"#)), 400, "plain name");
}

/// The daemon's temporary folder is a file system of 64 KiB.
#[test]
fn full_disk_is_said_to_be_one() {
    let folder = Daemon::place("full");
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = format!("mount -t tmpfs -o size=64k none {}", small.display());
    let may = Command::new("unshare").args(["-rm", "sh", "-c", &mount]).status();
    if !may.is_ok_and(|status| status.success()) {
        return reef_conformance::skip("no file system can be mounted here");
    }
    let mut command = Command::new("unshare");
    command.args([
        "-rm",
        "sh",
        "-c",
        &format!("{mount} && TMPDIR={} exec \"$0\" \"$@\"", small.display()),
    ]);
    command.arg(std::env::current_exe().unwrap());
    let daemon = Daemon::start_by(command, folder, &[]);
    is(&load(&daemon, "1/model.onnx", 300_000), 507, "files of a load: No space left on device");
    is(&daemon.get("/v2/models/tiny/ready"), 200, "");
}
