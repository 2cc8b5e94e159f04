//! Rights of clients without a grant: over TCP on loopback, any user of the machine and any web
//! page.

use crate::daemon::Daemon;
use crate::wire::{Grpc, Http, VALUES, infer_request, json, request, stating};
use crate::{SOON, options, within};
use reef_serve::{Class, Client, Error, Options, Rate};
use std::time::Duration;

fn post(path: &str, headers: &str) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    format!("{head}{headers}content-length: 0\r\n\r\n").into()
}

#[test]
fn unauthenticated_peers_run_best_effort_work_only() {
    let daemon = Daemon::start("rights", &["rights.others={}"]);
    let unload = "/v2/repository/models/tiny/unload";
    for (request, want) in [
        (post(unload, ""), "may not load, unload or trace"),
        (post("/v2/repository/models/other/load", ""), "may not load, unload or trace"),
        (
            post("/v2/models/tiny/infer", "origin: http://evil.example\r\n"),
            "web pages must not send requests",
        ),
        (
            post("/v2/models/tiny/infer", "content-type: text/plain\r\n"),
            "set Content-Type: application/json",
        ),
    ] {
        let said = daemon.say(&request);
        assert!(said.starts_with("HTTP/1.1 403") && said.contains(want), "{said}");
    }
    let said = daemon.get("/reef/trace?seconds=0.01");
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    let files = "POST /v2/repository/models/other/load HTTP/1.1\r\nhost: localhost\r\n";
    let said = daemon.say(format!("{files}content-length: 1000000\r\n\r\n").as_bytes());
    assert!(said.starts_with("HTTP/1.1 403"), "before its files arrive: {said}");
    let mut sent = format!("{files}content-length: 8000000\r\n\r\n").into_bytes();
    sent.resize(sent.len() + 8_000_000, b' ');
    // The daemon listens for a while only, in which a busy machine may not send all.
    within(SOON, "it may send all of them and hears why not", || {
        daemon.sent(&sent).is_ok_and(|said| said.starts_with("HTTP/1.1 403"))
    });
    for path in ["/v2/trace/setting", "/v2/models/tiny/trace/setting", "/v2/logging"] {
        assert!(daemon.get(path).starts_with("HTTP/1.1 200"), "all may read {path}");
        assert!(daemon.say(&post(path, "")).starts_with("HTTP/1.1 403"), "{path}");
    }
    let rebound = b"GET /v2 HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert!(daemon.say(rebound).starts_with("HTTP/1.1 403"));
    assert!(daemon.get("/v2/models/tiny/ready").starts_with("HTTP/1.1 200"), "it is still there");

    // A tunnel to the Unix socket, as the page is shown by, makes a browser the daemon's user.
    let rebound = "host: evil.example:8000\r\norigin: http://evil.example:8000\r\n";
    for headers in ["host: localhost\r\norigin: http://evil.example\r\n", rebound] {
        let call = format!("POST {unload} HTTP/1.1\r\n{headers}content-length: 0\r\n\r\n");
        let mut page = Http::connect(daemon.folder()).unwrap();
        assert_eq!(page.ask(call.as_bytes()).unwrap().0, 403, "{headers}");
    }
    let mut owner = Http::connect(daemon.folder()).unwrap();
    assert_eq!(owner.ask(&post(unload, "")).unwrap().0, 200, "the daemon's own user may");
    assert!(daemon.get("/v2/models/tiny/ready").starts_with("HTTP/1.1 404"));
}

#[test]
fn rights_change_for_who_is_connected_and_for_who_comes() {
    let folder = Daemon::place("rights-reload");
    let file = folder.path().join("reef.toml");
    let write = |rt: bool| {
        let text = format!("[rights.owner]\nrt = {rt}\ncontrol = true\n[limits]\nqueue = 65\n");
        std::fs::write(&file, text).unwrap();
    };
    write(true);
    let daemon = Daemon::start_in(folder, &[]);
    let place = options(daemon.folder(), Some(Class::RealTime));
    let mut client = Client::connect("tiny", &place).unwrap();
    let input = vec![0.5; client.input_len()];
    client.infer(&input).unwrap();
    write(false);
    daemon.signal("HUP");
    within(
        SOON,
        "a connected client loses the right",
        || matches!(client.infer(&input), Err(Error::Denied(why)) if why.contains("real time")),
    );
    assert!(matches!(Client::connect("tiny", &place), Err(Error::Denied(_))));
    std::fs::write(&file, "[rights.owner]\nrt = 1\n").unwrap();
    daemon.signal("HUP"); // what is wrong changes nothing, and ends nothing
    write(true);
    daemon.signal("HUP");
    within(SOON, "and gets it again", || client.infer(&input).is_ok());
}

/// On each endpoint: a stated budget is held while its client is connected, and no client gets more
/// than is left.
#[test]
fn clients_state_a_budget_and_get_it_if_it_fits() {
    let daemon = Daemon::start("stated", &["rt.reserve=0.1"]);
    let millis = Duration::from_millis;
    let big = Rate::new(millis(10), millis(6)).unwrap();
    let local =
        |rate| Options { rate: Some(rate), ..options(daemon.folder(), Some(Class::RealTime)) };
    let mut first = Client::connect("tiny", &local(big)).unwrap();
    assert!(first.has_budget() && first.class() == Class::RealTime);
    first.infer(&vec![0.5; first.input_len()]).unwrap();
    let why = "a budget of 6ms in 10ms is 60.0 % of the device and must be at most the 30.0 % left of the 90.0 % that all clients may claim";
    let refused = |error: Error| assert_eq!(error, Error::Exhausted(why.into()));
    refused(Client::connect("tiny", &local(big)).unwrap_err());

    let mut grpc = Grpc::connect(daemon.folder());
    let over_grpc = stating(infer_request("tiny", Class::RealTime), 10_000, 6_000);
    let said = grpc.infer(over_grpc.clone()).unwrap_err();
    assert_eq!((said.code(), said.message()), (tonic::Code::ResourceExhausted, why));
    let text = json(Class::RealTime, 4 * VALUES);
    let text = text.replacen(
        "\"priority\":",
        "\"reef_period_us\":10000,\"reef_budget_us\":6000,\"priority\":",
        1,
    );
    let over_http = request(Some(text.len()), &[text.as_bytes(), &[0; 4 * VALUES]].concat());
    let mut http = Http::connect(daemon.folder()).unwrap();
    let (status, said) = http.ask(&over_http).unwrap();
    assert!(status == 429 && String::from_utf8_lossy(&said).contains(why), "{status}: {said:?}");

    drop(first); // and another way in gets it, once it has gone
    within(SOON, "over gRPC", || grpc.infer(over_grpc.clone()).is_ok());
    refused(Client::connect("tiny", &local(big)).unwrap_err());
    drop(grpc);
    within(SOON, "over HTTP", || http.ask(&over_http).unwrap().0 == 200);
    refused(Client::connect("tiny", &local(big)).unwrap_err());
    drop(http);
    within(SOON, "locally again", || Client::connect("tiny", &local(big)).is_ok());
    let be = Options { rate: Some(big), ..options(daemon.folder(), Some(Class::BestEffort)) };
    assert!(matches!(Client::connect("tiny", &be), Err(Error::Invalid(_))));
}
