//! A server's end of a session in another process: what it has sent and received.

use super::endpoint::{Endpoint, Handler, Side};
use super::inbox::InboxState;
use super::outbox::OutboxState;
use super::server::{Server, Session};
use crate::codec;
use crate::error::{Error, Result};
use crate::exchange::sync::lock;
use crate::moved::{Key, Moved};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// State of an end, without a connection.
#[derive(Debug, Serialize, Deserialize)]
struct SessionState {
    outbox: OutboxState,
    inbox: InboxState,
}

/// A session without a connection. Its client, if it comes back, waits until this is dropped: then
/// the session goes on.
pub struct Held {
    server: Server,
    session: Arc<Session>,
    name: [u8; 16],
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Held {
    /// Returns the name of the session.
    pub fn name(&self) -> [u8; 16] {
        self.name
    }

    /// Returns the client's end of the last connection: [`Link::peer`](crate::Link::peer).
    pub fn peer(&self) -> String {
        self.session.endpoint.peer()
    }

    /// Returns the state of this end, for [`Server::adopt`] in another process. Nothing may be
    /// sent meanwhile.
    ///
    /// # Errors
    ///
    /// `Invalid` for what the format cannot express.
    pub fn state(&self) -> Result<Vec<u8>> {
        let endpoint = &self.session.endpoint;
        let inbox = lock(endpoint.inbox()).state();
        let outbox = endpoint.outbox_state();
        codec::write(&SessionState { outbox, inbox })
    }

    /// Tells the client that the session goes on at another server, once it has come back. Returns
    /// whether it was told. Blocks for `redirect_timeout` at most: this server may end then. A
    /// client that comes later is told as well.
    pub fn redirect(&self, moved: &Moved) -> bool {
        self.server.note_moved(self.name, moved.clone());
        self.session.redirect(moved, self.server.options().redirect_timeout)
    }

    /// Ends the session here.
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
    /// Ends the session, whose client has not come.
    pub fn end(self, why: Error) {
        self.server.forget(self.name, &self.session);
        self.session.endpoint.end(why);
        self.session.endpoint.close();
    }

    /// Serves the session until it is over, and returns why.
    pub fn run(self) -> Error {
        self.server.serve_session(&self.session, self.name)
    }
}

impl Server {
    /// Takes the connection of a session away. `None` if there is no such session, or it is held.
    pub fn hold(&self, name: [u8; 16]) -> Option<Held> {
        self.hold_session(name, self.session(name)?)
    }

    /// As [`hold`](Self::hold), of the session of this end.
    pub fn hold_end(&self, endpoint: &Endpoint) -> Option<Held> {
        let (name, session) = self.session_of(endpoint)?;
        self.hold_session(name, session)
    }

    fn hold_session(&self, name: [u8; 16], session: Arc<Session>) -> Option<Held> {
        if !session.begin_hold() {
            return None;
        }
        drop(session.disconnect_while(|| true));
        Some(Held { server: self.clone(), session, name })
    }

    /// Begins a session with the state that [`Held::state`] has returned in another process. Its
    /// client is served from now on, but for a thread: [`Adopted::run`]. A client that has the key
    /// needs no token: [`greet`](Self::greet).
    ///
    /// # Errors
    ///
    /// `Protocol` for another state; `Refused` if there are too many sessions, or this one.
    pub fn adopt(
        &self,
        name: [u8; 16],
        tenant: Option<&str>,
        key: Option<Key>,
        state: &[u8],
        handler: Box<dyn Handler>,
    ) -> Result<Adopted> {
        let state: SessionState = codec::read(state)?;
        state.outbox.check()?;
        state.inbox.check()?;
        let side = Side::Server { max_unread: self.options().max_unread };
        let endpoint = Arc::new(Endpoint::new(self.options().limits, side, handler));
        lock(endpoint.inbox()).restore(state.inbox);
        endpoint.restore_outbox(state.outbox);
        endpoint.begin();
        let session = Arc::new(Session::new(endpoint, tenant.map(Into::into), key, 0));
        self.insert_adopted(name, &session).map_err(Error::Refused)?;
        Ok(Adopted { server: self.clone(), session, name })
    }
}
