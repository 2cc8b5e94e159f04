//! Listener of the local path, and its clients' threads.

use super::admission::admit;
use crate::error::{Error, Result};
use crate::local::fd_passing::{POLL_INTERVAL, is_ready, send};
use crate::local::handshake::ServerHello;
use crate::net::access::Access;
use crate::net::identity::client_id::{ClientId, Protocol};
use crate::net::identity::principal::Principal;
use crate::net::quota::clients::Permits;
use crate::server::Server;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Listener for clients of the local path.
#[derive(Debug)]
pub(crate) struct Local {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Local {
    /// Accepts clients from a Unix socket.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub(crate) fn start(
        server: &Arc<Server>,
        listener: UnixListener,
        access: Access,
    ) -> Result<Self> {
        listener.set_nonblocking(true).map_err(|e| Error::system("O_NONBLOCK", e))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (server, stopped) = (server.clone(), stop.clone());
        let thread = thread::Builder::new().name("reef-local".into());
        let thread = thread.spawn(move || listen(&server, &listener, access, &stopped));
        let thread = thread.map_err(|e| Error::system("cannot start the thread for clients", e))?;
        Ok(Self { stop, thread })
    }

    /// Answers open requests and ends all clients. Blocks.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.join(); // a panic has already been printed
    }
}

fn listen(server: &Arc<Server>, listener: &UnixListener, access: Access, stop: &Arc<AtomicBool>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        threads.retain(|thread| !thread.is_finished());
        if !is_ready(listener, POLL_INTERVAL) {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(POLL_INTERVAL / 10); // the client is gone, or no descriptor is free
            continue;
        };
        let id = server.clients.number(Protocol::Local);
        match enter(server, &stream, access) {
            Ok((principal, permits)) => {
                threads.extend(start_thread(server, stream, id, principal, permits, stop));
            }
            Err(error) => refuse(&stream, id, error),
        }
    }
    for thread in threads {
        let _ = thread.join(); // a panic has already been printed
    }
}

/// Identifies a client and takes its slot, before a thread is started for it.
fn enter(server: &Server, stream: &UnixStream, access: Access) -> Result<(Principal, Permits)> {
    let peer = reef_guest::unix_peer::Peer::of(stream);
    let uid = peer.map_err(|e| Error::system("SO_PEERCRED", e))?.uid;
    access.admit(uid)?;
    let principal = Principal::User(uid);
    let permits = server.clients.enter_local(&principal)?;
    Ok((principal, permits))
}

fn start_thread(
    server: &Arc<Server>,
    stream: UnixStream,
    id: ClientId,
    principal: Principal,
    permits: Permits,
    stop: &Arc<AtomicBool>,
) -> std::io::Result<JoinHandle<()>> {
    let (server, stop) = (server.clone(), stop.clone());
    let thread = thread::Builder::new().name(format!("reef-client-{}", id.number));
    thread.spawn(move || {
        run_client(&server, &stream, id, principal, &stop);
        drop(permits); // after queue, memory and model
    })
}

/// Thread of one client.
fn run_client(
    server: &Server,
    stream: &UnixStream,
    id: ClientId,
    principal: Principal,
    stop: &AtomicBool,
) {
    let ended = admit(server, stream, id, principal, stop).and_then(|mut session| {
        tracing::info!(%id, model = %session.model.title(), class = %session.class, "client");
        session.serve().inspect(|()| session.send_reason(server))
    });
    match ended {
        Ok(()) => tracing::info!(%id, "client ended"),
        Err(error) => refuse(stream, id, error),
    }
}

/// Tells a client why it is refused. It is not a warning: any user that may connect could fill the
/// log.
fn refuse(stream: &UnixStream, id: ClientId, error: Error) {
    tracing::debug!(%id, %error, "client refused");
    let _ = send(stream, &ServerHello::Refused(error).to_bytes(), None); // it may be gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    /// Notes the level of each event.
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            self.0.lock().push(*event.metadata().level());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn refused_client_is_not_logged_by_default() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let levels = Arc::<Mutex<Vec<Level>>>::default();
        let id = ClientId { protocol: Protocol::Local, number: 1 };
        let error = Error::Exhausted("all are in use".into());
        let refuse = || refuse(&stream, id, error);
        tracing::subscriber::with_default(Levels(levels.clone()), refuse);
        let levels = levels.lock();
        assert!(levels.iter().all(|level| *level > Level::INFO), "{levels:?}");
    }
}
