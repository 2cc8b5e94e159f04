//! The socket at which containers' processes register, as Alnair's do.

use super::containers::{Containers, MOST_REQUEST};
use reef_guest::unix_peer::Peer;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a client may take in all.
const PATIENCE: Duration = Duration::from_secs(2);
/// Clients that are answered at a time; others are turned away.
const MOST_CLIENTS: usize = 32;

/// Listens for as long as it lives.
#[derive(Debug)]
pub(super) struct Registrar {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Registrar {
    /// Listens at this path, at which no other daemon may.
    ///
    /// # Errors
    ///
    /// The socket can't be made there, or another process listens.
    pub(super) fn open(path: &Path, containers: Containers) -> io::Result<Self> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
        }
        let _ = std::fs::remove_file(path); // of a daemon that was killed
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let listener = UnixListener::bind(path)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let run = move || serve(&listener, &Arc::new(containers), &over);
        let thread = thread::Builder::new().name("reef-containers".into()).spawn(run)?;
        Ok(Self { path: path.to_owned(), is_over, thread: Some(thread) })
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        if UnixStream::connect(&self.path).is_ok() {
            let _ = self.thread.take().map(JoinHandle::join); // a panic has been printed
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, containers: &Arc<Containers>, is_over: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        if is_over.load(SeqCst) {
            return;
        }
        let Ok(client) = client else {
            thread::sleep(Duration::from_millis(10)); // no file descriptor is free
            continue;
        };
        if clients.fetch_add(1, SeqCst) >= MOST_CLIENTS {
            clients.fetch_sub(1, SeqCst);
            continue;
        }
        let (of, count) = (containers.clone(), clients.clone());
        let answer = move || {
            let _ = answer(client, &of); // who doesn't listen needn't know
            count.fetch_sub(1, SeqCst);
        };
        if thread::Builder::new().spawn(answer).is_err() {
            clients.fetch_sub(1, SeqCst);
        }
    }
}

/// Answers one client. One that says nothing for long, or too much, is told so.
fn answer(mut client: UnixStream, containers: &Containers) -> io::Result<()> {
    let (until, pid) = (Instant::now() + PATIENCE, Peer::of(&client)?.process()?);
    let line = line(&mut client, until)?;
    let answer = match String::from_utf8(line) {
        Ok(line) if line.len() < MOST_REQUEST => containers.answer(pid, &line),
        Ok(_) => format!("a line of more than {MOST_REQUEST} bytes"),
        Err(_) => "not a text".into(),
    };
    client.set_write_timeout(Some(left(until)?))?;
    client.write_all(answer.as_bytes())
}

/// Its first line, of [`MOST_REQUEST`] bytes at most, however slowly it comes until then.
fn line(client: &mut UnixStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut line, mut part) = (Vec::new(), [0; 2 * MOST_REQUEST]);
    loop {
        client.set_read_timeout(Some(left(until)?))?;
        let bytes = client.read(&mut part)?;
        line.extend_from_slice(&part[..bytes]);
        let end = line.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        if bytes == 0 || end.is_some() || line.len() >= MOST_REQUEST {
            line.truncate(end.unwrap_or(line.len()).min(MOST_REQUEST));
            return Ok(line);
        }
    }
}

fn left(until: Instant) -> io::Result<Duration> {
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
    fn a_process_registers_under_the_number_that_the_system_gives() {
        let pid = std::process::id();
        let system = System::new("socket", &[(pid, "0::/pods/c0ffee\n")]);
        let path = system.0.join("run/alnair.sock");
        let registrar = Registrar::open(&path, system.containers()).unwrap();
        assert_eq!(ask(&path, b"/kubepods/c0ffee abcde\n"), "ok");
        assert_eq!(system.read("root/abcde/cgroup.procs"), format!("{pid}\n"));
        assert_eq!(ask(&path, b"\xff\xfe abcde\n"), "not a text");
        assert_eq!(ask(&path, b"/kubepods/c0ffee abcde\nmore"), "ok");
        assert_eq!(ask(&path, &[b'x'; 5000]), "a line of more than 4096 bytes");
        let error = Registrar::open(&path, system.containers()).unwrap_err().to_string();
        assert_eq!(error, "another process listens there");
        let silent = UnixStream::connect(&path).unwrap();
        assert_eq!(ask(&path, b"/ abcde\n"), "ok", "beside one that says nothing");
        drop((silent, registrar));
        assert!(!path.exists());
    }

    /// Whoever says a byte now and then has no more time than others.
    #[test]
    fn time_is_for_the_whole_line() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let until = Instant::now() + Duration::from_millis(50);
        let said = thread::spawn(move || line(&mut server, until));
        let patient = Instant::now() + Duration::from_secs(60);
        while !said.is_finished() && Instant::now() < patient {
            let _ = client.write_all(b"x"); // it may be gone
            thread::sleep(Duration::from_millis(5));
        }
        assert!(said.is_finished(), "it listens for as long as something comes");
        said.join().unwrap().unwrap_err();
    }
}
