//! The page at `/`, as a browser meets it.

use crate::daemon::Daemon;
use crate::token;
use crate::wire::{Way, inference};
use crate::{SOON, within};
use reef_serve::Class;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

const PATHS: [&str; 4] = ["/", "/reef/page.css", "/reef/page.js", "/reef/page/events"];

fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n").into()
}

/// A stream of events whose head has been read, and whether its last chunk has come.
struct Events(BufReader<TcpStream>, bool);

impl Events {
    /// Opens a stream; returns the line of its status if it is refused.
    fn open(daemon: &Daemon) -> Result<Self, String> {
        let mut stream = TcpStream::connect(&daemon.http).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(&get(PATHS[3], "host: localhost\r\n")).unwrap();
        let mut events = Self(BufReader::new(stream), false);
        let status = events.line().unwrap();
        while events.line().unwrap() != "" {}
        if status.starts_with("HTTP/1.1 200") { Ok(events) } else { Err(status) }
    }

    /// Returns the next line, `None` at the end.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).unwrap();
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// Returns the next event's text, `None` at the end.
    fn event(&mut self) -> Option<String> {
        loop {
            let line = self.line()?;
            self.1 |= line == "0";
            if let Some(text) = line.strip_prefix("data: ") {
                return Some(text.into());
            }
        }
    }
}

#[test]
fn page_shows_models_under_a_strict_policy() {
    let daemon = Daemon::start("page", &[]);
    for path in PATHS.into_iter().take(3) {
        let said = daemon.get(path);
        assert!(said.starts_with("HTTP/1.1 200"), "{path}: {said}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(said.contains(header), "{path}: {said}");
        }
        assert!(!said.contains("unsafe-inline"), "{path}: {said}");
    }
    let sampled = || daemon.get("/").contains("<td>tiny</td><td>1</td>");
    within(SOON, "the model in the page as it is served", sampled);
    let said = daemon.say(b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 405"), "it is read-only: {said}");
    assert!(said.contains("{\"error\":\"method POST: must be one that the header Allow names\"}"));
    let head = "host: localhost\r\nconnection: close\r\n\r\n";
    let said = daemon.say(format!("DELETE /v1/models/tiny HTTP/1.1\r\n{head}").as_bytes());
    assert!(said.starts_with("HTTP/1.1 405") && said.contains("allow: GET,HEAD"), "{said}");
    assert!(said.contains("{\"error\":{\"message\":\"method DELETE: must be one"), "{said}");
}

#[test]
fn page_by_the_name_of_another_host_is_refused() {
    let daemon = Daemon::start("page-host", &[]);
    for path in PATHS {
        let said = daemon.say(&get(path, "host: evil.example\r\n"));
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("Host"), "{path}: {said}");
        let other = "host: localhost\r\norigin: http://evil.example\r\n";
        let said = daemon.say(&get(path, other));
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("Origin"), "{path}: {said}");
    }
}

#[test]
fn token_is_the_password_of_the_page_alone() {
    let (daemon, _files) = token::daemon("page-token", &[]);
    let basic = "host: localhost\r\nauthorization: Basic eDowMTIzNDU2Nzg5YWJjZGVm\r\n"; // x:token
    for path in PATHS.into_iter().take(3) {
        let said = daemon.get(path);
        assert!(said.starts_with("HTTP/1.1 401"), "{path}: {said}");
        assert!(said.contains("www-authenticate: Basic realm="), "{path}: {said}");
        let said = daemon.say(&get(path, basic));
        assert!(said.starts_with("HTTP/1.1 200"), "{path}: {said}");
    }
    for path in ["/v2", "/metrics", "/reef/devices"] {
        let said = daemon.say(&get(path, basic));
        assert!(said.starts_with("HTTP/1.1 401"), "{path}: {said}");
        assert!(said.contains("www-authenticate: Bearer"), "{path}: {said}");
    }
}

#[test]
fn stream_shows_work_and_ends_with_the_daemon() {
    let mut daemon = Daemon::start("page-stream", &[]);
    let mut events = Events::open(&daemon).unwrap();
    inference(Way::Http, Class::RealTime, daemon.folder())();
    let shows_request = || {
        let event = events.event().expect("it goes on");
        event.contains("<td class=\"rt\">rt</td>")
    };
    within(SOON, "the client of the request", shows_request);
    daemon.terminate();
    within(SOON, "the stream's end", || events.event().is_none());
    assert!(events.1, "it ends, and is not cut off");
    assert!(daemon.ends().success());
}

#[test]
fn one_client_has_a_bounded_number_of_streams() {
    let daemon = Daemon::start("page-streams", &[]);
    let mut open: Vec<_> = (0..8).map(|_| Events::open(&daemon).unwrap()).collect();
    let said = Events::open(&daemon).err().expect("too many");
    assert!(said.starts_with("HTTP/1.1 429"), "{said}");
    open.pop();
    within(SOON, "room after one has left", || Events::open(&daemon).is_ok());
    assert!(open.iter_mut().all(|events| events.event().is_some()));
}
