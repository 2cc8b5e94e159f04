//! Requests whose bodies don't end, from many addresses: others are served meanwhile.

use super::from_address;
use crate::daemon::Daemon;
use crate::wire::{Grpc, Http, infer_request, post};
use crate::{SOON, within};
use reef_serve::Class;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// As many as there are slots over TCP; `ADDRESSES` different addresses.
const ATTACKERS: u32 = 256;
const ADDRESSES: u32 = 250;

/// Half a request, of a client that may have been served before.
fn half(daemon: &Daemon, number: u32, is_served: bool) -> std::io::Result<TcpStream> {
    let mut stream = from_address(number % ADDRESSES + 1, &daemon.http);
    if is_served {
        stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        stream.set_read_timeout(Some(SOON))?;
        stream.read_exact(&mut [0; 12])?;
    }
    let head =
        "POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n";
    stream.write_all(format!("{head}\r\n{{").as_bytes())?;
    Ok(stream)
}

/// All of them that are not sent away at once.
fn attack(daemon: &Daemon, is_served: bool, mut between: impl FnMut()) -> Vec<TcpStream> {
    let half = |number| {
        (number % 16 == 0).then(&mut between);
        half(daemon, number, is_served).ok()
    };
    (0..ATTACKERS).filter_map(half).collect()
}

/// Clients by the Unix sockets, one over TCP that was there before, and one that comes.
fn others_are_served(test: &str, is_served: bool) {
    let daemon = Daemon::start(test, &["rights.others={}"]);
    let mut known = Http::connect_to(&daemon.http).unwrap();
    let request = post(Class::BestEffort);
    assert_eq!(known.ask(&request).unwrap().0, 200);
    // One that says nothing for half a second, as on a busy machine, gives way and comes again.
    let mut is_served_still = || {
        let is_answered = matches!(known.ask(&request), Ok((200, _)));
        if !is_answered {
            known = Http::connect_to(&daemon.http).unwrap();
        }
        is_answered
    };
    let _attack = attack(&daemon, is_served, || {
        within(SOON, "a known client", &mut is_served_still);
    });
    // sleep: the daemon reads from attackers; however many there are, others are served
    std::thread::sleep(Duration::from_millis(700));
    let mut unix = Http::connect(daemon.folder()).unwrap();
    assert_eq!(unix.ask(&request).unwrap().0, 200);
    Grpc::connect(daemon.folder()).infer(infer_request("tiny", Class::BestEffort)).unwrap();
    within(SOON, "a known client", is_served_still);
    let comes = || {
        let newcomer = Http::connect_to(&daemon.http);
        newcomer.and_then(|mut http| http.ask(&request)).is_ok_and(|(status, _)| status == 200)
    };
    within(SOON, "a client that comes", comes);
}

#[test]
fn bodies_without_an_end_keep_no_place_of_others() {
    others_are_served("half-bodies", false);
}

#[test]
fn bodies_without_an_end_of_served_clients_keep_none() {
    others_are_served("half-bodies-served", true);
}

/// The local client is the only one that comes.
#[test]
fn bodies_without_an_end_keep_no_local_client_out() {
    let settings = ["rights.others={}", "limits.open_requests=64"];
    let daemon = Daemon::start("half-bodies-local", &settings);
    let _attack = attack(&daemon, false, || ());
    // sleep: the daemon reads from attackers; however many there are, others are served
    std::thread::sleep(Duration::from_millis(700));
    let mut unix = Http::connect(daemon.folder()).unwrap();
    assert_eq!(unix.ask(&post(Class::BestEffort)).unwrap().0, 200);
}
