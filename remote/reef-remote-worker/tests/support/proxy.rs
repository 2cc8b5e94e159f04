//! A line between client and server that breaks when it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes that a connection carries, of both directions together; `None`: all.
type Cuts = dyn Fn(usize) -> Option<u64> + Send + Sync;

/// Listening socket before a server.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    breaks: Arc<AtomicUsize>,
    now: Arc<Mutex<Vec<TcpStream>>>,
    /// Bytes of the client on the last connection.
    said: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    /// A proxy of a TCP server. `cuts` says after how many bytes connection number n breaks.
    pub(crate) fn start(
        server: &str,
        cuts: impl Fn(usize) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self {
            port,
            connections: Arc::default(),
            breaks: Arc::default(),
            now: Arc::default(),
            said: Arc::default(),
        };
        let (here, server) = (proxy.clone(), server.trim_start_matches("tls:").to_owned());
        let cuts: Arc<Cuts> = Arc::new(cuts);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let Ok(far) = TcpStream::connect(&server) else { continue };
                here.forward(near.unwrap(), far, &cuts);
            }
        });
        proxy
    }

    fn forward(&self, near: TcpStream, far: TcpStream, cuts: &Arc<Cuts>) {
        let number = self.connections.load(Ordering::Relaxed);
        let left = cuts(number).map_or(i64::MAX, |bytes| bytes as i64);
        let left = Arc::new(AtomicI64::new(left));
        *self.now.lock().unwrap() = [&near, &far].map(|end| end.try_clone().unwrap()).into();
        self.said.lock().unwrap().clear();
        // Counted once it can be cut.
        self.connections.store(number + 1, Ordering::Release);
        for end in [&near, &far] {
            end.set_nodelay(true).unwrap();
        }
        let ways = [(near.try_clone(), far.try_clone(), true), (Ok(far), Ok(near), false)];
        for (from, to, is_up) in ways {
            let (from, to, left, here) = (from.unwrap(), to.unwrap(), left.clone(), self.clone());
            std::thread::spawn(move || here.copy(&from, &to, &left, is_up));
        }
    }

    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream, left: &AtomicI64, is_up: bool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let left = left.fetch_sub(count as i64, Ordering::Relaxed);
            let pass = count.min(left.max(0) as usize);
            if is_up {
                self.said.lock().unwrap().extend(&buffer[..pass]);
            }
            if to.write_all(&buffer[..pass]).is_err() {
                break;
            }
            if left <= count as i64 {
                self.breaks.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
        for end in [from, to] {
            let _ = end.shutdown(Shutdown::Both); // closed is fine
        }
    }

    /// Breaks the present connection.
    pub(crate) fn cut(&self) {
        for end in &*self.now.lock().unwrap() {
            let _ = end.shutdown(Shutdown::Both); // closed is fine
        }
    }

    /// Number of connections so far.
    #[allow(dead_code)] // not all tests need it
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Number of connections that broke after their bytes.
    #[allow(dead_code)] // as above
    pub(crate) fn breaks(&self) -> usize {
        self.breaks.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the client on the last connection, which begin with its hello.
    #[allow(dead_code)] // as above
    pub(crate) fn last_hello(&self) -> Vec<u8> {
        self.said.lock().unwrap().clone()
    }
}
