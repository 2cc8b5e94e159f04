//! Sessions through shared memory, and peers that keep to no rule of it.

use crate::support::{ADD, Bench, ECHO, PUSH, sessions_end};
use reef_files::descriptors;
use reef_wire::{Client, Link};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

/// Bytes of both rings.
const LEN: u64 = 2 * ((1 << 20) + 256);

/// Begins a session over shared memory.
fn open(bench: &Bench) -> Client {
    let server = bench.server();
    let dial = move || {
        let (near, far) = UnixStream::pair().unwrap();
        let server = server.clone();
        thread::spawn(move || server.serve(Link::shared(far).unwrap()));
        Ok(Link::share(near).unwrap())
    };
    bench.open_with(|options| options.dial = Box::new(dial)).unwrap()
}

#[test]
fn session_in_shared_memory_delivers_each_message_once() {
    let bench = Bench::new(|_| None);
    let client = open(&bench);
    // Far more than a ring holds, in both directions at a time.
    let long: Vec<u8> = (0..5_000_000_u32).map(|at| (at * 31) as u8).collect();
    thread::scope(|scope| {
        let (client, long) = (&client, &long);
        for number in 0..3_u64 {
            scope.spawn(move || {
                for at in 0..2000 {
                    client.post(ADD, 0, &[&(number * 10_000 + at).to_le_bytes()]).unwrap();
                    client.post(PUSH, 0, &[&at.to_le_bytes()]).unwrap();
                    if at % 100 == 0 {
                        assert_eq!(
                            client.call(ECHO, 0, &[&at.to_le_bytes()]).unwrap(),
                            at.to_le_bytes()
                        );
                    }
                    if at % 1000 == 0 {
                        assert!(client.call(ECHO, 0, &[long]).unwrap() == *long);
                    }
                }
            });
        }
    });
    client.call(ECHO, 0, &[]).unwrap();
    let mut added = bench.added();
    added.sort_unstable();
    let all = (0..3).flat_map(|number| (0..2000).map(move |at| number * 10_000 + at));
    assert_eq!(added, all.collect::<Vec<u64>>());
    assert_eq!(bench.pushed().len(), 6000);
}

/// Calls with pauses in which both ends sleep.
#[test]
fn sleeping_ends_are_woken() {
    let bench = Bench::new(|_| None);
    let client = open(&bench);
    for at in 0..50_u64 {
        thread::sleep(Duration::from_micros(at * 37 % 900)); // sleep: any length is right
        assert_eq!(client.call(ECHO, 0, &[&at.to_le_bytes()]).unwrap(), at.to_le_bytes());
    }
}

#[test]
fn session_ends_with_its_client() {
    let bench = Bench::new(|_| None);
    let client = open(&bench);
    client.call(ECHO, 0, &[]).unwrap();
    assert_eq!(bench.server().len(), 1);
    drop(client);
    sessions_end(&bench.server());
}

fn offer(stream: &UnixStream, file: Option<BorrowedFd<'_>>) {
    descriptors::send(stream, &[0], file).unwrap();
}

fn memory(len: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

#[test]
fn memory_that_could_shrink_is_refused() {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let offered = |file: Option<OwnedFd>| {
        let (near, far) = UnixStream::pair().unwrap();
        offer(&near, file.as_ref().map(AsFd::as_fd));
        Link::shared(far).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(offered(Some(memory(LEN, all))), Ok(()));
    let said = offered(Some(memory(LEN, SealFlags::GROW))).unwrap_err();
    assert!(said.contains("shared memory"), "{said}");
    for len in [0, 100, LEN - 64, LEN + 4096] {
        assert!(offered(Some(memory(len, all))).unwrap_err().contains("shared memory"));
    }
    assert!(offered(None).unwrap_err().contains("sent none"));
    let (near, far) = UnixStream::pair().unwrap();
    drop(near);
    assert!(Link::shared(far).is_err());
}

/// Positions that can't be end the link with a reason, whatever they are.
#[test]
fn positions_of_a_hostile_peer_are_errors() {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    for (position, what) in [(0, "sent"), (128, "taken")] {
        let (mut near, far) = UnixStream::pair().unwrap();
        let file = memory(LEN, all);
        offer(&near, Some(file.as_fd()));
        let mut link = Link::shared(far).unwrap();
        // The peer sends by the first ring; this end's bytes are in the second.
        let at = position + if what == "taken" { LEN / 2 } else { 0 };
        std::fs::File::from(file).write_all_at(&0x8000_0000_u32.to_le_bytes(), at).unwrap();
        near.write_all(&[0]).unwrap();
        let said = match what {
            "sent" => link.receive.receive(&mut [0; 64]).unwrap_err(),
            _ => link.send.send(&[1; 64]).unwrap_err(),
        };
        assert!(said.to_string().contains(what), "{said}");
    }
}
