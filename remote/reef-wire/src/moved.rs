//! Place of a session that is at another server.

use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Secret of one session that has moved. Its client proves to the new server that it has it, where
/// its token may be none of that server's.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Makes one up. `None` if the system has no random numbers.
    pub fn make() -> Option<Self> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok().map(|()| Self(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Place of a session that is at another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Address of the server. Empty while no server has the session: its client tries again.
    pub address: String,
    /// Secret of the session.
    pub key: Key,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.address {
            "" => f.write_str("no server yet"),
            address => f.write_str(address),
        }
    }
}
