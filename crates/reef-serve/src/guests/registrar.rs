//! Socket at which containers' processes register, in Alnair's protocol.

use super::containers::{Containers, MAX_REQUEST_CHARS};
use crate::tenants::user_slots::{UserSlot, UserSlots};
use reef_files::SocketFile;
use reef_guest::slots::SlotShares;
use reef_guest::unix_peer::{Peer, process_fd};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that a client has for the whole registration.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of clients at a time, and of one user; others are disconnected.
const MAX_CLIENTS: usize = 32;
const MAX_CLIENTS_OF_USER: usize = 16;

/// Listens until it is dropped.
#[derive(Debug)]
pub(super) struct Registrar {
    name: SocketFile,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Registrar {
    /// Listens at this path, which no other process may serve.
    ///
    /// # Errors
    ///
    /// The socket cannot be created there, or another process listens.
    pub(super) fn open(path: &Path, containers: Containers) -> io::Result<Self> {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let (listener, name) = reef_files::bind(path)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_over_too = is_over.clone();
        let run = move || serve(&listener, &Arc::new(containers), &is_over_too);
        let thread = thread::Builder::new().name("reef-containers".into()).spawn(run)?;
        Ok(Self { name, is_over, thread: Some(thread) })
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        if UnixStream::connect(self.name.path()).is_ok() {
            let _ = self.thread.take().map(JoinHandle::join); // a panic has been printed
        }
    }
}

fn serve(listener: &UnixListener, containers: &Arc<Containers>, is_over: &AtomicBool) {
    let shares = SlotShares::with_owner(MAX_CLIENTS, MAX_CLIENTS_OF_USER);
    let slots = UserSlots::new(shares);
    for client in listener.incoming() {
        if is_over.load(SeqCst) {
            return;
        }
        let Ok(client) = client else {
            thread::sleep(Duration::from_millis(10)); // no file descriptor is free
            continue;
        };
        let Some(slot) = enter(&client, &slots) else { continue };
        let of = containers.clone();
        let answer = move || {
            let _slot = slot;
            let _ = answer(client, &of); // the client may be gone
        };
        let _ = thread::Builder::new().spawn(answer); // without a thread the client is disconnected
    }
}

/// Takes a slot for a client, which keeps it for at most [`CLIENT_TIMEOUT`].
fn enter(client: &UnixStream, slots: &UserSlots) -> Option<UserSlot> {
    slots.enter(Peer::of(client).ok()?.uid).ok()
}

/// Answers one client. A timeout or an overlong line is an error.
fn answer(mut client: UnixStream, containers: &Containers) -> io::Result<()> {
    let (until, pid) = (Instant::now() + CLIENT_TIMEOUT, Peer::of(&client)?.process()?);
    let line = line(&mut client, until)?;
    process_fd(&client)?; // it lives, so that the number is its own
    let answer = match String::from_utf8(line) {
        Ok(line) if line.len() < MAX_REQUEST_CHARS => containers.answer(pid, &line),
        Ok(_) => format!("a line must have at most {MAX_REQUEST_CHARS} bytes"),
        Err(_) => "a line must be valid UTF-8".into(),
    };
    client.set_write_timeout(Some(remaining(until)?))?;
    client.write_all(answer.as_bytes())
}

/// Reads its first line of at most [`MAX_REQUEST_CHARS`] bytes, however slowly it arrives before
/// the timeout.
fn line(client: &mut UnixStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut line, mut part) = (Vec::new(), [0; 2 * MAX_REQUEST_CHARS]);
    loop {
        client.set_read_timeout(Some(remaining(until)?))?;
        let bytes = client.read(&mut part)?;
        line.extend_from_slice(&part[..bytes]);
        let end = line.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        if bytes == 0 || end.is_some() || line.len() >= MAX_REQUEST_CHARS {
            line.truncate(end.unwrap_or(line.len()).min(MAX_REQUEST_CHARS));
            return Ok(line);
        }
    }
}

fn remaining(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::super::containers::tests::System;
    use super::*;

    fn ask(path: &Path, request: &[u8]) -> String {
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(request).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn process_registers_under_its_peer_number() {
        let pid = std::process::id();
        let system = System::new("socket", &[(pid, "0::/pods/c0ffee\n")]);
        let path = system.0.join("run/alnair.sock");
        let registrar = Registrar::open(&path, system.containers()).unwrap();
        assert_eq!(ask(&path, b"/kubepods/c0ffee abcde\n"), "ok");
        assert_eq!(system.read("root/abcde/cgroup.procs"), format!("{pid}\n"));
        assert_eq!(ask(&path, b"\xff\xfe abcde\n"), "a line must be valid UTF-8");
        assert_eq!(ask(&path, b"/kubepods/c0ffee abcde\nmore"), "ok");
        assert_eq!(ask(&path, &[b'x'; 5000]), "a line must have at most 4096 bytes");
        let error = Registrar::open(&path, system.containers()).unwrap_err().to_string();
        assert_eq!(error, "another process listens there");
        let silent = UnixStream::connect(&path).unwrap();
        assert_eq!(ask(&path, b"/ abcde\n"), "ok", "while another one sends nothing");
        drop((silent, registrar));
        assert!(!path.exists());
    }

    #[test]
    fn place_is_free_after_a_panic_of_its_thread() {
        let slots = UserSlots::new(SlotShares::with_owner(8, 4));
        let (client, _other) = UnixStream::pair().unwrap();
        let slot = enter(&client, &slots).unwrap();
        assert_eq!(slots.taken(), 1);
        let panics = move || -> u32 {
            let _slot = slot;
            panic!("on purpose")
        };
        assert!(thread::spawn(panics).join().is_err());
        assert_eq!(slots.taken(), 0);
    }

    /// The timeout is for the whole line, also if a byte arrives now and then.
    #[test]
    fn timeout_is_for_the_whole_line() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let until = Instant::now() + Duration::from_millis(50);
        let said = thread::spawn(move || line(&mut server, until));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !said.is_finished() && Instant::now() < deadline {
            let _ = client.write_all(b"x"); // it may be gone
            thread::sleep(Duration::from_millis(5)); // sleep: pace of the bytes
        }
        assert!(said.is_finished(), "it reads for as long as bytes arrive");
        said.join().unwrap().unwrap_err();
    }
}
