//! The token that clients over TCP have to show.

use crate::daemon::Daemon;
use crate::slow::connect_and_ask;
use crate::wire::{Grpc, Http};
use crate::{Folder, SOON, within};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

/// A daemon that wants a token, and the folder that has it.
pub(crate) fn daemon(test: &str, flags: &[&str]) -> (Daemon, Folder) {
    let files = Folder::new(&format!("{test}-files"));
    let token = files.path().join("token");
    std::fs::write(&token, "0123456789abcdef").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = format!("listen.token_file={}", token.display());
    (Daemon::start(test, &[flags, &[&token]].concat()), files)
}

#[test]
fn http_over_tcp_wants_the_token_on_each_path() {
    let (daemon, _files) = daemon("token-http", &[]);
    let say = |method: &str, path: &str, authorization: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        daemon.say(format!("{head}{authorization}content-length: 0\r\n\r\n").as_bytes())
    };
    let right = "authorization: Bearer 0123456789abcdef\r\n";
    for (method, path) in [
        ("GET", "/v2"),
        ("GET", "/metrics"),
        ("GET", "/reef/trace?seconds=0.01"),
        ("POST", "/v2/models/tiny/infer"),
        ("POST", "/v2/repository/models/tiny/unload"),
    ] {
        for wrong in ["", "authorization: Bearer 0123456789abcdeF\r\n"] {
            let said = say(method, path, wrong);
            assert!(said.starts_with("HTTP/1.1 401"), "{path}, {wrong:?}: {said}");
        }
        let said = say(method, path, right);
        assert!(!said.starts_with("HTTP/1.1 401") && said.starts_with("HTTP"), "{path}: {said}");
    }
    let mut unix = Http::connect(daemon.folder()).unwrap();
    assert_eq!(unix.ask(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap().0, 200);
}

/// Most clients read nothing before they have sent all of their request.
#[test]
fn long_request_without_the_token_hears_why() {
    let (daemon, _files) = daemon("token-long", &[]);
    let body = "x".repeat(8 << 20);
    let head = "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    // The daemon listens for a while only, in which a busy machine may not send all.
    within(SOON, "it may send all of it and hears why not", || {
        daemon.sent(request.as_bytes()).is_ok_and(|said| said.starts_with("HTTP/1.1 401"))
    });
}

/// Requests without the token are answered and win no time.
#[test]
fn grpc_clients_without_the_token_are_sent_away() {
    let (daemon, _files) = daemon("token-grpc", &["times.idle_ms=1000"]);
    let mut unix = connect_and_ask(daemon.folder());
    let mut tcp = Grpc::connect_to(&daemon.grpc);
    let mut refused = || tcp.live().unwrap_err().code() == tonic::Code::Unauthenticated;
    within(SOON, "it hears why, before its time is over", &mut refused);
    let left = || {
        tcp.rest(Duration::from_millis(20));
        let mut http = Http::connect(daemon.folder()).unwrap(); // needs no token
        let said = http.ask(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let (_, text) = said.unwrap_or_default(); // it may be too late as well
        String::from_utf8(text).unwrap().contains("reef_clients{path=\"grpc\"} 1\n")
    };
    within(SOON, "it is sent away", left);
    unix.live().unwrap();
}

/// It lists the calls to clients that may ask for metadata. The stock client uses the version
/// before.
#[test]
fn reflection_wants_the_token_as_metadata_does() {
    let (daemon, _files) = daemon("token-reflection", &["listen.open_probes=true"]);
    let services = Grpc::connect(daemon.folder()).services().unwrap();
    for want in ["inference.GRPCInferenceService", "grpc.health.v1.Health"] {
        assert!(services.iter().any(|service| service == want), "{want} in {services:?}");
    }
    let said = Grpc::connect_to(&daemon.grpc).services().unwrap_err();
    assert_eq!(said.code(), tonic::Code::Unauthenticated, "{said}");
}

/// One refused request now and then would keep a place for ever.
#[test]
fn refused_connections_are_closed() {
    let (daemon, _files) = daemon("token-closed", &[]);
    let mut http = TcpStream::connect(&daemon.http).unwrap();
    http.set_read_timeout(Some(SOON)).unwrap();
    http.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut said = String::new();
    http.read_to_string(&mut said).unwrap(); // up to its end
    assert!(said.contains("connection: close"), "{said}");
    let mut grpc = Grpc::connect_to(&daemon.grpc);
    grpc.live().unwrap_err();
    let right = "authorization: Bearer 0123456789abcdef\r\n";
    let metrics = || {
        grpc.rest(Duration::from_millis(20));
        let head = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        daemon.say(format!("{head}{right}\r\n").as_bytes())
    };
    let gone = || metrics().contains("reef_clients{path=\"grpc\"} 0\n");
    within(SOON, "long before idle_ms", gone);
}

#[test]
fn probes_can_be_open() {
    for (open, status) in [("true", "HTTP/1.1 200"), ("false", "HTTP/1.1 401")] {
        let flag = format!("listen.open_probes={open}");
        let (daemon, _files) = daemon(&format!("token-probes-{open}"), &[&flag]);
        let said = daemon.get("/v2/health/ready");
        assert!(said.starts_with(status), "{open}: {said}");
        let said = daemon.get("/v2");
        assert!(
            said.starts_with("HTTP/1.1 401") && said.contains("www-authenticate: Bearer"),
            "{said}"
        );
        if open == "true" {
            let grpc = Grpc::connect_to(&daemon.grpc);
            grpc.health("").expect("of the daemon");
            let said = grpc.health("tiny").expect_err("models are for those with a token");
            assert_eq!(said.code(), tonic::Code::Unauthenticated);
        }
    }
}

/// A token that was exchanged, and models, are there after SIGHUP, which ends nothing.
#[test]
fn hangup_reads_tokens_anew_and_ends_nothing() {
    let (daemon, files) = daemon("token-hangup", &[]);
    let ask = |token: &str| {
        let head = "GET /v2/models/tiny/ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        daemon.say(format!("{head}authorization: Bearer {token}\r\n\r\n").as_bytes())
    };
    assert!(ask("0123456789abcdef").starts_with("HTTP/1.1 200"));
    let hangup = || {
        let pid = daemon.pid().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    };
    std::fs::write(files.path().join("token"), "short").unwrap();
    hangup(); // which is refused: the old one stays
    // sleep: time in which a fault would show; none fails a right daemon
    std::thread::sleep(Duration::from_millis(500));
    assert!(ask("0123456789abcdef").starts_with("HTTP/1.1 200"));
    std::fs::write(files.path().join("token"), "fedcba9876543210").unwrap();
    hangup();
    within(SOON, "the new token", || ask("fedcba9876543210").starts_with("HTTP/1.1 200"));
    assert!(ask("0123456789abcdef").starts_with("HTTP/1.1 401"));
}
