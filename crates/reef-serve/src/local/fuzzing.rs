//! Clients that send and write a fuzzer's bytes.

use super::fd_passing::{receive, send};
use super::handshake::{CLIENT_HELLO_LEN, ClientHello, SERVER_HELLO_LEN, ServerHello};
use super::segment::{FIRST, Segment};
use crate::name::ModelName;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Decodes both messages from `bytes`, with and without a valid beginning.
pub(crate) fn messages(bytes: &[u8]) {
    let hello =
        ClientHello { model: ModelName::new("tiny").expect("a name"), class: None, rate: None }
            .to_bytes();
    for begin in [0, 8, 16] {
        let mut ours = [0; CLIENT_HELLO_LEN];
        ours[..begin].copy_from_slice(&hello[..begin]);
        fill(&mut ours[begin..], bytes);
        if let Ok(read) = ClientHello::from_bytes(&ours) {
            assert_eq!(
                ClientHello::from_bytes(&read.to_bytes()),
                Ok(read),
                "written as it was read"
            );
        }
        let mut theirs = [0; SERVER_HELLO_LEN];
        theirs[..begin.min(8)].copy_from_slice(&hello[..begin.min(8)]);
        fill(&mut theirs[begin.min(8)..], bytes);
        let _ = ServerHello::from_bytes(&theirs); // or an error
    }
}

/// Connects, and writes the fuzzer's values. With an odd first byte the hello is the fuzzer's too.
pub(crate) fn client(socket: &Path, bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let Ok(stream) = UnixStream::connect(socket) else { return };
    let mut hello =
        ClientHello { model: ModelName::new("tiny").expect("a name"), class: None, rate: None }
            .to_bytes();
    if first & 1 == 1 {
        fill(&mut hello, rest);
    }
    let mut answer = [0; SERVER_HELLO_LEN];
    if send(&stream, &hello, None).is_err() {
        return;
    }
    let Ok(Some(fd)) = receive(&stream, &mut answer) else { return };
    let Ok(ServerHello::Accepted { layout, .. }) = ServerHello::from_bytes(&answer) else { return };
    let segment = Segment::open(fd, layout).expect("a daemon's memory is whole");
    rest.chunks_exact(6).take(64).for_each(|write| scribble(&segment, write));
    segment.answers().sleep(FIRST, Duration::from_micros(200)); // time for the daemon to read it
}

/// One write: a location and a number.
fn scribble(segment: &Segment, write: &[u8]) {
    let number = u32::from_le_bytes([write[2], write[3], write[4], write[5]]);
    let slot = segment.slot(u32::from(write[1]));
    match write[0] % 8 {
        0 => slot.kind.store(number, Relaxed),
        1 => slot.timeout.store(u64::from(number) << (write[1] % 33), Relaxed),
        2 => slot.code.store(number, Relaxed),
        3 => slot.length.store(number, Relaxed),
        4 => segment.requests().publish(FIRST.wrapping_add(u32::from(write[1]))),
        5 => slot.buffer.store(number, Relaxed),
        6 => segment.requests().publish(number),
        _ => segment.answers().publish(number),
    }
}

fn fill(to: &mut [u8], from: &[u8]) {
    let length = to.len().min(from.len());
    to[..length].copy_from_slice(&from[..length]);
}
