//! The daemon's list of suspended programs, at its socket.

use crate::dra::tests::kubelet::until;
use crate::tests::node::FakeNode;
use reef_suspend::{Held, Process, Steps, Suspended};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// Bytes of a GiB.
pub(super) const GIB: u64 = 1 << 30;

/// A suspended program of a claim, as the daemon lists it.
pub(super) fn program(claim: &str, minor: u32, bytes: u64) -> Value {
    let device = FakeNode::uuid(minor).trim_start_matches("GPU-").replace('-', "");
    let of = Suspended {
        process: Process { pid: 7, start: 1 },
        name: "python".into(),
        held: vec![Held { device, bytes }],
        since: 0,
        steps: Steps::default(),
        for_memory: false,
        is_swapped: false,
        swapped: Vec::new(),
    };
    let mut listed = serde_json::to_value(of).unwrap();
    listed["limit_id"] = claim.into();
    listed
}

/// The list as a text.
pub(super) fn list(programs: &[Value]) -> String {
    json!({ "suspended": programs }).to_string()
}

#[derive(Debug, Default)]
struct Said {
    status: u16,
    body: Vec<u8>,
}

/// A daemon that says what it is told to.
pub(super) struct Daemon {
    said: Arc<Mutex<Said>>,
    asked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Daemon {
    /// Serves this list in the folder.
    pub(super) fn start(folder: &Path, programs: &[Value]) -> Self {
        let socket = folder.join("http.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (said, asked) = <(Arc<Mutex<Said>>, Arc<AtomicUsize>)>::default();
        let (to_say, counted) = (said.clone(), asked.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = answer(stream, &to_say, &counted).await; // it may hang up
            }
        });
        let daemon = Self { said, asked, task };
        daemon.list(programs);
        daemon
    }

    pub(super) fn list(&self, programs: &[Value]) {
        self.say(200, list(programs).as_bytes());
    }

    /// Says this from now on.
    pub(super) fn say(&self, status: u16, body: &[u8]) {
        let said = Said { status, body: body.to_vec() };
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// Waits until answers of now have had their effect.
    pub(super) async fn settle(&self) {
        let before = self.asked.load(Ordering::Relaxed);
        until("three answers", || self.asked.load(Ordering::Relaxed) > before + 3).await;
    }

    /// Ends it, and leaves its socket as a killed one does.
    pub(super) async fn end(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    mut stream: UnixStream,
    said: &Mutex<Said>,
    asked: &AtomicUsize,
) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let length = stream.read(&mut request).await?;
    let (status, body) = if request[..length].starts_with(b"GET /reef/suspended ") {
        asked.fetch_add(1, Ordering::Relaxed);
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        (said.status, said.body.clone())
    } else {
        (404, Vec::new())
    };
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.into_bytes(), body].concat()).await
}
