//! Sessions of Rust programs in the list of sessions.

use super::tenants::accounts::Account;
use crate::migration::session::Migrate;
use crate::observe::sessions::{Facts, Registration, SessionCounts, Sessions, Watched};
use parking_lot::Mutex;
use reef_wire::{Endpoint, Error, Handler, Message, Result};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Handler of a session that is in the list as long as it handles messages.
pub(super) struct ListEntry {
    handler: Box<dyn Handler>,
    session: Arc<Session>,
    _place: Registration,
}

/// Session as the list knows it. It keeps neither its end nor its account.
#[derive(Debug)]
struct Session {
    endpoint: Mutex<Weak<Endpoint>>,
    account: Weak<Account>,
    migration: Arc<dyn Migrate>,
}

impl ListEntry {
    pub(super) fn new(
        handler: Box<dyn Handler>,
        migration: Arc<dyn Migrate>,
        sessions: &Sessions,
        facts: Facts,
        account: &Arc<Account>,
    ) -> Self {
        let account = Arc::downgrade(account);
        let session = Arc::new(Session { endpoint: Mutex::default(), account, migration });
        let place = sessions.begin(facts, session.clone());
        Self { handler, session, _place: place }
    }
}

impl Handler for ListEntry {
    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> Result<()> {
        self.handler.handle(message, endpoint)
    }

    fn begun(&mut self, endpoint: &Arc<Endpoint>) {
        *self.session.endpoint.lock() = Arc::downgrade(endpoint);
        self.handler.begun(endpoint);
    }

    fn ended(&mut self, why: &Error) {
        self.handler.ended(why);
    }
}

impl Session {
    fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.lock().upgrade()
    }
}

impl Watched for Session {
    fn counts(&self, _: Option<Instant>) -> SessionCounts {
        let memory_bytes = self.account.upgrade().map_or(0, |account| account.memory());
        let Some(endpoint) = self.endpoint() else { return SessionCounts::default() };
        let (peer, traffic) = (endpoint.peer(), endpoint.traffic());
        SessionCounts { peer, memory_bytes, traffic, ..SessionCounts::default() }
    }

    fn migration(&self) -> Option<Arc<dyn Migrate>> {
        Some(self.migration.clone())
    }

    fn end(&self, why: &str) {
        if let Some(endpoint) = self.endpoint() {
            endpoint.end(Error::Ended(why.into()));
        }
    }
}
