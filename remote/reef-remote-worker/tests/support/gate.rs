//! A UNIX socket before a server's, whose new connections wait while it is shut.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The socket. Cloning is cheap, and each clone is the same socket.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) address: String,
    is_shut: Arc<AtomicBool>,
    /// Both ends of the last connection.
    now: Arc<Mutex<Vec<UnixStream>>>,
}

fn path(address: &str) -> &str {
    address.strip_prefix("unix:").unwrap()
}

impl Gate {
    pub(crate) fn start(server: &str, name: &str) -> Self {
        let address = crate::support::socket(name);
        let listener = UnixListener::bind(path(&address)).unwrap();
        let gate = Self { address, is_shut: Arc::default(), now: Arc::default() };
        let (here, server) = (gate.clone(), server.to_owned());
        thread::spawn(move || {
            for near in listener.incoming() {
                let (here, server, near) = (here.clone(), server.clone(), near.unwrap());
                thread::spawn(move || here.forward(near, &server));
            }
        });
        gate
    }

    /// Ends the connection, and has those to come wait.
    pub(crate) fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
        for end in &*self.now.lock().unwrap() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn open(&self) {
        self.is_shut.store(false, Ordering::SeqCst);
    }

    fn forward(&self, near: UnixStream, server: &str) {
        while self.is_shut.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5)); // sleep: poll of a condition
        }
        let Ok(far) = UnixStream::connect(path(server)) else { return };
        *self.now.lock().unwrap() = [&near, &far].map(|end| end.try_clone().unwrap()).into();
        thread::scope(|scope| {
            for (from, to) in [(&near, &far), (&far, &near)] {
                scope.spawn(move || {
                    let (mut reader, mut writer) = (from, to);
                    let _ = io::copy(&mut reader, &mut writer); // until either end closes
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            }
        });
    }
}
