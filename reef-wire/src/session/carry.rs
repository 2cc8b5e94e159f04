//! A server's end of a session in another process: what it has sent and received.

use super::endpoint::{Endpoint, Handler, Side};
use super::inbox::CarriedInbox;
use super::outbox::CarriedOutbox;
use super::server::{Hold, Server, Session};
use crate::codec;
use crate::error::{Error, Result};
use crate::exchange::sync::lock;
use crate::moved::Moved;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// State of an end, without a connection.
#[derive(Debug, Serialize, Deserialize)]
struct Carried {
    outbox: CarriedOutbox,
    inbox: CarriedInbox,
}

/// A session without a connection. Its client, if it comes back, waits until this is dropped: then
/// the session goes on.
pub struct Held {
    session: Arc<Session>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Held {
    /// Returns the state of this end, for [`Server::adopt`] in another process. Nothing may be
    /// sent meanwhile.
    ///
    /// # Errors
    ///
    /// `Invalid` for what the format cannot express.
    pub fn carried(&self) -> Result<Vec<u8>> {
        let endpoint = &self.session.endpoint;
        let inbox = lock(endpoint.inbox()).carried();
        let outbox = endpoint.carried_outbox();
        codec::write(&Carried { outbox, inbox })
    }

    /// Ends the session here: it goes on at another server, which the client is told.
    pub fn moved(self, moved: Moved) {
        let end = Error::Ended(format!("the session has moved to {moved}"));
        self.session.set_hold(Hold::Moved(moved));
        self.session.endpoint.end(end);
        self.session.wake();
    }

    /// Ends the session.
    pub fn end(self, why: Error) {
        self.session.endpoint.end(why);
        self.session.wake();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.session.release();
    }
}

/// A session that came from another process, and has no connection yet.
pub struct Adopted {
    server: Server,
    session: Arc<Session>,
    name: [u8; 16],
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopted").finish_non_exhaustive()
    }
}

impl Adopted {
    /// Serves the session until it is over, and returns why.
    pub fn run(self) -> Error {
        self.server.serve_session(&self.session, self.name)
    }
}

impl Server {
    /// Takes the connection of a session away. `None` if there is no such session, or it is held.
    pub fn hold(&self, name: [u8; 16]) -> Option<Held> {
        let session = self.session(name)?;
        if !session.begin_hold() {
            return None;
        }
        let endpoint = &session.endpoint;
        endpoint.cut();
        endpoint.disconnect(&mut lock(endpoint.inbox()));
        Some(Held { session })
    }

    /// Begins a session with the state that [`Held::carried`] has returned in another process. Its
    /// client is served from now on, but for a thread: [`Adopted::run`].
    ///
    /// # Errors
    ///
    /// `Protocol` for another state; `Refused` if there are too many sessions, or this one.
    pub fn adopt(
        &self,
        name: [u8; 16],
        tenant: Option<&str>,
        carried: &[u8],
        handler: Box<dyn Handler>,
    ) -> Result<Adopted> {
        let carried: Carried = codec::read(carried)?;
        let side = Side::Server { max_unread: self.options().max_unread };
        let endpoint = Arc::new(Endpoint::new(self.options().limits, side, handler));
        lock(endpoint.inbox()).restore(carried.inbox);
        endpoint.restore_outbox(carried.outbox);
        endpoint.begin();
        let session = Arc::new(Session::new(endpoint, tenant.map(Into::into), 0));
        self.insert(name, &session).map_err(Error::Refused)?;
        Ok(Adopted { server: self.clone(), session, name })
    }
}
