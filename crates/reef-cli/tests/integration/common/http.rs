//! A daemon that says what a test wants it to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Answers a request, given its first line and headers, with a status and a body. The number counts
/// requests from 0.
pub(crate) type Answer = fn(u64, &str) -> (u16, String);

/// Listens on a Unix socket until the test ends.
pub(crate) fn on_socket(path: &str, answer: Answer) {
    let listener = UnixListener::bind(path).expect("a free path");
    serve(move || listener.accept().map(|(stream, _)| stream), answer);
}

/// Listens on a TCP port until the test ends; returns its URL.
pub(crate) fn on_port(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    serve(move || listener.accept().map(|(stream, _)| stream), answer);
    url
}

fn serve<S: Read + Write>(
    accept: impl Fn() -> std::io::Result<S> + Send + 'static,
    answer: Answer,
) {
    let count = AtomicU64::new(0);
    thread::spawn(move || {
        while let Ok(stream) = accept() {
            let _ = reply(stream, |head| answer(count.fetch_add(1, Ordering::Relaxed), head));
        }
    });
}

fn reply<S: Read + Write>(
    stream: S,
    answer: impl Fn(&str) -> (u16, String),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let (status, body) = answer(&head);
    let length = body.len();
    write!(
        reader.get_mut(),
        "HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}
