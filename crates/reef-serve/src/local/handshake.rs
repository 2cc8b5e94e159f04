//! Handshake over the socket; everything else goes through shared memory.
//!
//! Messages have fixed lengths, are little-endian and contain no pointers. An unexpected message
//! ends the connection.

use super::segment::Layout;
use crate::class::Class;
use crate::error::{Error, Result};
use crate::name::ModelName;
use reef::Rate;
use std::time::Duration;

/// First bytes of both messages, with the version of the protocol.
const MAGIC: [u8; 8] = *b"reeflcl3";

/// Length of a [`ClientHello`] in bytes.
pub(super) const CLIENT_HELLO_LEN: usize = 96;

/// Length of a [`ServerHello`] in bytes.
pub(super) const SERVER_HELLO_LEN: usize = 256;

/// Text for a client whose session ended because its model was reloaded.
pub(super) const RELOADED: &str = "the model was reloaded";

/// Message with a client's request for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub(super) model: ModelName,
    /// `None` for the daemon's default.
    pub(super) class: Option<Class>,
    /// Rate that it states.
    pub(super) rate: Option<Rate>,
}

impl ClientHello {
    pub(super) fn to_bytes(&self) -> [u8; CLIENT_HELLO_LEN] {
        let mut bytes = [0; CLIENT_HELLO_LEN];
        let name = self.model.as_str().as_bytes();
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = match self.class {
            None => 0,
            Some(Class::RealTime) => 1,
            Some(Class::BestEffort) => 2,
        };
        bytes[9] = name.len() as u8;
        bytes[16..16 + name.len()].copy_from_slice(name);
        let rate = self.rate.map(|rate| [rate.period(), rate.budget()].map(|time| time.as_nanos()));
        let [period, budget] = rate.unwrap_or_default().map(|nanos| (nanos as u64).to_le_bytes());
        bytes[80..88].copy_from_slice(&period);
        bytes[88..].copy_from_slice(&budget);
        bytes
    }

    /// Decodes a message.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(super) fn from_bytes(bytes: &[u8; CLIENT_HELLO_LEN]) -> Result<Self> {
        check_magic(bytes)?;
        let class = match bytes[8] {
            0 => None,
            1 => Some(Class::RealTime),
            2 => Some(Class::BestEffort),
            n => return Err(Error::Invalid(format!("class {n} (have: 0 to 2)"))),
        };
        let name = bytes[16..80].get(..bytes[9] as usize);
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or_else(|| Error::Invalid("must have a model name".into()))?;
        let nanos = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let rate = match [nanos(80), nanos(88)] {
            [0, 0] => None,
            times => {
                let [period, budget] = times.map(Duration::from_nanos);
                Some(Rate::new(period, budget)?)
            }
        };
        Ok(Self { model: ModelName::new(name)?, class, rate })
    }
}

/// Answer of the daemon. `Accepted` comes with a file descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerHello {
    /// Number of the client, layout of the memory, and admission of its rate.
    Accepted { id: u32, class: Class, has_budget: bool, layout: Layout },
    /// The client is refused.
    Refused(Error),
}

impl ServerHello {
    pub(super) fn to_bytes(&self) -> [u8; SERVER_HELLO_LEN] {
        let mut bytes = [0; SERVER_HELLO_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        match self {
            Self::Accepted { id, class, has_budget, layout } => {
                bytes[12..16].copy_from_slice(&id.to_le_bytes());
                bytes[16..20].copy_from_slice(&layout.slots.to_le_bytes());
                bytes[20] = *class as u8;
                bytes[21] = u8::from(*has_budget);
                bytes[24..32].copy_from_slice(&(layout.input as u64).to_le_bytes());
                bytes[32..40].copy_from_slice(&(layout.output as u64).to_le_bytes());
            }
            Self::Refused(error) => {
                let text = error.text();
                let length = text.floor_char_boundary(SERVER_HELLO_LEN - 16);
                bytes[8..10].copy_from_slice(&(code(error) as u16).to_le_bytes());
                bytes[10..12].copy_from_slice(&(length as u16).to_le_bytes());
                bytes[16..16 + length].copy_from_slice(&text.as_bytes()[..length]);
            }
        }
        bytes
    }

    /// Decodes a message.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(super) fn from_bytes(bytes: &[u8; SERVER_HELLO_LEN]) -> Result<Self> {
        check_magic(bytes)?;
        let u16 = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let refused = u32::from(u16(8));
        if refused != 0 {
            let text = bytes[16..].get(..u16(10) as usize).unwrap_or_default();
            return Ok(Self::Refused(error(refused, String::from_utf8_lossy(text).into_owned())));
        }
        let u32 = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let u64 = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let size = |at| usize::try_from(u64(at)).unwrap_or(usize::MAX);
        let layout = Layout { slots: u32(16), input: size(24), output: size(32) };
        layout.check()?;
        let class = if bytes[20] == 0 { Class::RealTime } else { Class::BestEffort };
        Ok(Self::Accepted { id: u32(12), class, has_budget: bytes[21] != 0, layout })
    }
}

fn check_magic(bytes: &[u8]) -> Result<()> {
    if bytes[..8] == MAGIC {
        return Ok(());
    }
    Err(Error::Invalid("must be the local protocol of this version".into()))
}

/// Returns an error's number, from 1.
pub(super) fn code(error: &Error) -> u32 {
    match error {
        Error::NotFound(_) => 1,
        Error::Invalid(_) | Error::Unsupported(_) => 2,
        Error::Exists(_) => 3,
        Error::Exhausted(_) => 4,
        Error::Deadline(_) => 5,
        Error::Unavailable(_) => 6,
        Error::Unimplemented(_) => 7,
        Error::Denied(_) => 8,
        Error::Failed(_) => 9,
        Error::TooLarge(_) => 10,
        Error::Unauthenticated(_) => 11,
        Error::NoSpace(_) => 12,
        Error::Program(_) => 13,
    }
}

/// Returns the error with this number and text.
pub(super) fn error(code: u32, text: String) -> Error {
    match code {
        1 => Error::NotFound(text),
        2 => Error::Invalid(text),
        3 => Error::Exists(text),
        4 => Error::Exhausted(text),
        5 => Error::Deadline(text),
        6 => Error::Unavailable(text),
        7 => Error::Unimplemented(text),
        8 => Error::Denied(text),
        10 => Error::TooLarge(text),
        11 => Error::Unauthenticated(text),
        12 => Error::NoSpace(text),
        13 => Error::Program(text),
        _ => Error::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hello_messages_round_trip() {
        let rate = Rate::new(Duration::from_secs(3600), Duration::from_nanos(1)).unwrap();
        for (class, rate) in
            [(None, None), (Some(Class::RealTime), Some(rate)), (Some(Class::BestEffort), None)]
        {
            let model = ModelName::new(&"x".repeat(64)).unwrap();
            let hello = ClientHello { model, class, rate };
            assert_eq!(ClientHello::from_bytes(&hello.to_bytes()), Ok(hello));
        }
        let layout = Layout { slots: 4, input: 602_112, output: 4000 };
        for class in Class::ALL {
            let has_budget = class == Class::RealTime;
            let accepted = ServerHello::Accepted { id: 7, class, has_budget, layout };
            assert_eq!(ServerHello::from_bytes(&accepted.to_bytes()), Ok(accepted));
        }
        for n in 1..=10 {
            let refused = ServerHello::Refused(error(n, "no".into()));
            assert_eq!(ServerHello::from_bytes(&refused.to_bytes()), Ok(refused));
        }
        let long = ServerHello::Refused(Error::Failed("ä".repeat(500)));
        assert!(ServerHello::from_bytes(&long.to_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn random_bytes_are_a_message_or_an_error(
            mut hello in prop::collection::vec(any::<u8>(), CLIENT_HELLO_LEN),
            mut answer in prop::collection::vec(any::<u8>(), SERVER_HELLO_LEN),
            magic: bool,
        ) {
            if magic {
                hello[..8].copy_from_slice(&MAGIC);
                answer[..8].copy_from_slice(&MAGIC);
            }
            if let Ok(read) = ClientHello::from_bytes(hello[..].try_into().unwrap()) {
                prop_assert_eq!(ClientHello::from_bytes(&read.to_bytes()), Ok(read));
            }
            let _ = ServerHello::from_bytes(answer[..].try_into().unwrap());
        }
    }
}
