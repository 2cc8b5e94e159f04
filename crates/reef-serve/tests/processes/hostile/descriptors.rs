//! More connections than the daemon has descriptors for.

use super::from_address;
use crate::daemon::Daemon;
use crate::wire::{Grpc, Http, infer_request, post};
use crate::{SOON, within};
use reef_serve::Class;
use std::io::{ErrorKind, Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};

/// Far more than the daemon may have open.
const CONNECTIONS: u32 = 450;

/// Longer than an answer takes on a busy machine.
const PROMPT: Duration = Duration::from_secs(30);

fn daemon(test: &str, limit: &str) -> Daemon {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
    command.arg(std::env::current_exe().unwrap());
    Daemon::start_by(command, Daemon::place(test), &["rights.others={}"])
}

#[test]
fn clients_that_are_in_are_served_when_descriptors_run_out() {
    let daemon = daemon("descriptors", "-n 256");
    let request = post(Class::BestEffort);
    // Over TCP it would be of the same user as the attack, whose part is full.
    let mut known = Http::connect(daemon.folder()).unwrap();
    let mut local = Http::connect(daemon.folder()).unwrap();
    assert_eq!([known.ask(&request).unwrap().0, local.ask(&request).unwrap().0], [200; 2]);
    let head =
        b"POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n";
    let attack: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut stream = from_address(number % 200 + 1, &daemon.http);
            let _ = stream.write_all(head); // it may be sent away
            stream
        })
        .collect();
    for _ in 0..20 {
        let begin = Instant::now();
        assert_eq!(known.ask(&request).unwrap().0, 200);
        assert_eq!(local.ask(&request).unwrap().0, 200);
        let mut comes = Http::connect(daemon.folder()).unwrap();
        assert_eq!(comes.ask(&request).unwrap().0, 200, "a local client that comes");
        assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
    }
    Grpc::connect(daemon.folder()).infer(infer_request("tiny", Class::BestEffort)).unwrap();
    let open = daemon.files().len();
    assert!(open < 240, "{open} of 256 descriptors");
    let mut waiting: Vec<_> = attack.iter().collect();
    within(PROMPT, "half of them are sent away", || {
        waiting.retain(|stream| {
            stream.set_nonblocking(true).unwrap();
            let read = Read::read(&mut &**stream, &mut [0; 64]);
            // Else it is closed, or was told.
            matches!(read, Err(e) if e.kind() == ErrorKind::WouldBlock)
        });
        waiting.len() <= attack.len() / 2
    });
    drop(attack);
    within(SOON, "an outsider that comes", || {
        let asked = Http::connect_to(&daemon.http).and_then(|mut http| http.ask(&request));
        asked.is_ok_and(|(status, _)| status == 200)
    });
}

#[test]
fn idle_clients_make_room_when_descriptors_are_few() {
    let daemon = daemon("few-descriptors", "-n 256");
    let request = post(Class::BestEffort);
    let come = || -> std::io::Result<Http> {
        let mut http = Http::connect(daemon.folder())?;
        http.ask(&request)?;
        Ok(http)
    };
    let idle: Vec<_> = (0..100).filter_map(|_| come().ok()).collect();
    assert!(idle.len() >= 16, "{} came", idle.len());
    // They make room once they count as idle.
    for _ in 0..10 {
        within(PROMPT, "a client of the same user", || come().is_ok());
    }
}

/// As most systems set it for a shell.
#[test]
fn soft_limit_of_descriptors_is_raised() {
    let daemon = daemon("soft", "-S -n 128");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{line}");
}
