//! A place on the way that counts messages by their operations.

use reef_wire::{Address, Decoder};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

/// Messages to the server: number and bytes of each operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(Arc<Mutex<HashMap<u16, (usize, usize)>>>);

impl Counts {
    /// Number and bytes of the messages of an operation.
    pub(crate) fn of(&self, op: u16) -> (usize, usize) {
        self.0.lock().unwrap().get(&op).copied().unwrap_or_default()
    }
}

/// Starts a relay to a UNIX socket, and returns its own address. It serves one client.
pub(crate) fn relay(name: &str, server: &str) -> (String, Counts) {
    let own = super::socket(name);
    let listener = UnixListener::bind(own.strip_prefix("unix:").unwrap()).unwrap();
    let Address::Unix(path) = server.parse().unwrap() else { panic!("{server}: no UNIX socket") };
    let counts = Counts::default();
    let counted = counts.clone();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = UnixStream::connect(path).unwrap();
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        count(client, server, &counted);
    });
    (own, counts)
}

fn count(mut from: UnixStream, mut to: UnixStream, counts: &Counts) {
    let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 64 << 10]);
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            let space = decoder.space();
            let part = space.len().min(rest.len());
            space[..part].copy_from_slice(&rest[..part]);
            decoder.filled(part);
            rest = &rest[part..];
            while let Some(frame) = decoder.next().unwrap() {
                let mut counts = counts.0.lock().unwrap();
                let of = counts.entry(frame.op).or_default();
                *of = (of.0 + 1, of.1 + 16 + frame.body.len());
            }
        }
        to.write_all(&buffer[..len]).unwrap();
    }
    let _ = to.shutdown(Shutdown::Both);
}
