//! A server with workers on the fake driver, and the client's library.

#[allow(dead_code)] // not all tests need it
pub(crate) mod memory;
#[allow(dead_code)] // not all tests need it
pub(crate) mod relay;

use crate::common::{Driver, FAKE, library};
use reef_remote_worker::{WorkerOptions, Workers};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Operation of a reply's frame.
#[allow(dead_code)] // not all tests need it
const REPLY: u16 = 7;

/// The client's library.
pub(crate) const CLIENT: &str = "libreef_remote_cuda.so";

/// Starts a server on an address, and returns where it listens. It lasts as long as this process.
#[allow(dead_code)] // not all tests need it
pub(crate) fn serve(address: &str) -> String {
    serve_with(address, |_| ())
}

/// As [`serve`], for clients whose connections break: on a busy machine they may come back late.
#[allow(dead_code)] // not all tests need it
pub(crate) fn serve_torn(address: &str) -> String {
    serve_with(address, wait_for_torn_clients)
}

/// Keeps sessions of clients that come back late.
#[allow(dead_code)] // not all tests need it
pub(crate) fn wait_for_torn_clients(options: &mut WorkerOptions) {
    options.closed_timeout = Duration::from_secs(60);
}

/// As [`serve`], with other options.
pub(crate) fn serve_with(address: &str, change: impl FnOnce(&mut WorkerOptions)) -> String {
    let mut options = WorkerOptions::new(env!("CARGO_BIN_EXE_reef-remote-worker").into());
    options.driver = Some(library(FAKE));
    change(&mut options);
    let workers = Workers::bind(&address.parse().unwrap(), options).unwrap();
    let address = workers.address();
    std::thread::spawn(move || workers.run());
    address
}

/// A path for a UNIX socket of this test's.
#[allow(dead_code)] // not all tests need it
pub(crate) fn socket(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("reef-b0-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    format!("unix:{}", path.display())
}

/// A copy of the client's library, which has a session of its own.
#[allow(dead_code)] // not all tests need it
pub(crate) fn client(name: &str) -> Driver {
    let copy = std::env::temp_dir().join(format!("reef-b0-{name}-{}.so", std::process::id()));
    std::fs::copy(library(CLIENT), &copy).unwrap();
    let driver = Driver::open(&copy);
    std::fs::remove_file(copy).unwrap(); // the open library keeps it
    driver
}

/// The client's library under the driver's name, in a folder for `LD_LIBRARY_PATH`.
#[allow(dead_code)] // not all tests need it
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reef-b0-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join("libcuda.so.1");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(library(CLIENT), link).unwrap();
    folder
}

/// A socket before a server's, which counts the replies that pass.
#[allow(dead_code)] // not all tests need it
pub(crate) struct Relay {
    address: String,
    replies: Arc<AtomicUsize>,
}

#[allow(dead_code)] // as above
impl Relay {
    /// Passes one connection on to the UNIX socket of a server.
    pub(crate) fn start(server: &str, name: &str) -> Self {
        let address = socket(name);
        let listener = UnixListener::bind(address.strip_prefix("unix:").unwrap()).unwrap();
        let (replies, server) = (Arc::new(AtomicUsize::new(0)), server.to_owned());
        let count = replies.clone();
        std::thread::spawn(move || {
            let (mut near, _) = listener.accept().unwrap();
            let mut far = UnixStream::connect(server.strip_prefix("unix:").unwrap()).unwrap();
            let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let mut header = [0; 16];
            let mut body = Vec::new();
            while far.read_exact(&mut header).is_ok() {
                body.resize(u32::from_le_bytes(header[..4].try_into().unwrap()) as usize, 0);
                body.resize(body.len().next_multiple_of(8), 0);
                far.read_exact(&mut body).unwrap();
                let op = u16::from_le_bytes(header[4..6].try_into().unwrap());
                count.fetch_add(usize::from(op == REPLY), Ordering::SeqCst);
                if near.write_all(&header).and_then(|()| near.write_all(&body)).is_err() {
                    return;
                }
            }
        });
        Self { address, replies }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn replies(&self) -> usize {
        self.replies.load(Ordering::SeqCst)
    }
}

/// Processes that a process has started.
#[allow(dead_code)] // not all tests need it
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        // A thread may have ended meanwhile.
        let text = std::fs::read_to_string(task.unwrap().path().join("children"));
        all.extend(
            text.unwrap_or_default().split_whitespace().map(|pid| pid.parse::<u32>().unwrap()),
        );
    }
    all
}
