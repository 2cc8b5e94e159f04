//! First registrars of the system's shared memory: as long as the memory exists, no other tenant
//! can register it.
//!
//! All tenants over TCP name memory of one user, the daemon's, so its permissions do not separate
//! them. An ended registration still counts, because its owner's data stays in the memory until the
//! memory is removed.

use crate::error::{Error, Result};
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::{Life, Peer};
use crate::net::identity::principal::Principal;
use crate::requests::shared_memory::{FileId, names};
use crate::tensor::short;

/// Owner of a region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Principal(Principal),
    Connection(ClientId),
}

impl Owner {
    pub(super) fn of(peer: &Peer) -> Self {
        match &peer.principal {
            Principal::Address(_) => Self::Connection(peer.id),
            principal => Self::Principal(principal.clone()),
        }
    }
}

/// Memory by its first registrar.
#[derive(Debug, Default)]
pub(super) struct Registrars(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    owner: Owner,
    key: String,
    memory: FileId,
    /// State of the connection that owns it; `None` for a principal, which outlives its
    /// connections.
    life: Option<Life>,
}

impl Entry {
    fn is_open(&self) -> bool {
        self.life.as_ref().is_none_or(Life::is_open)
    }
}

impl Registrars {
    /// Notes that `peer` registers the memory that `key` names. Forgets the oldest unused entry of
    /// the same owner above `max`.
    ///
    /// # Errors
    ///
    /// `Denied` if another owner was first. A user on a Unix socket is always admitted, because the
    /// memory is known to be its own.
    pub(super) fn enter(
        &mut self,
        peer: &Peer,
        key: &str,
        memory: FileId,
        max: usize,
        is_used: impl Fn(FileId) -> bool,
    ) -> Result<()> {
        let owner = Owner::of(peer);
        self.0.retain(Entry::is_open);
        if let Some(at) = self.0.iter().position(|entry| entry.memory == memory) {
            let entry = &self.0[at];
            if entry.owner == owner || peer.principal.is_local() {
                return Ok(());
            }
            if names(&entry.key, memory) {
                let text = format!("shared memory {:?}: belongs to another tenant", short(key));
                return Err(Error::Denied(text));
            }
            self.0.remove(at);
        }
        self.make_room(&owner, max, is_used);
        let life = matches!(owner, Owner::Connection(_)).then(|| peer.life.clone());
        self.0.push(Entry { owner, key: key.into(), memory, life });
        Ok(())
    }

    fn make_room(&mut self, owner: &Owner, max: usize, is_used: impl Fn(FileId) -> bool) {
        if self.0.iter().filter(|entry| entry.owner == *owner).count() < max {
            return;
        }
        self.0.retain(|entry| entry.owner != *owner || names(&entry.key, entry.memory));
        let own = |entry: &Entry| entry.owner == *owner;
        if self.0.iter().filter(|entry| own(entry)).count() >= max
            && let Some(at) = self.0.iter().position(|entry| own(entry) && !is_used(entry.memory))
        {
            self.0.remove(at);
        }
    }
}
