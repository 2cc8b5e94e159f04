//! Messages of both ends before a session, or before it continues.
//!
//! ```text
//! server: Opening, nonce ──▶      ◀── client: Opening, Hello      server: Welcome or refusal ──▶
//! ```
//!
//! An opening has a fixed form, so that versions recognise each other and say what they got.

use crate::codec;
use crate::credit::Limits;
use crate::error::{Error, Result, printable_bytes};
use crate::frame::{self, Decoder, FLAG_UNCOUNTED, MAX_BODY_LEN};
use crate::journal::Progress;
use crate::moved::Moved;
use crate::transport::link::Link;
use ring::hmac;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Operations of the session itself.
pub(crate) const OP_GREETING: u16 = 1;
pub(crate) const OP_HELLO: u16 = 2;
pub(crate) const OP_WELCOME: u16 = 3;
pub(crate) const OP_REFUSED: u16 = 4;
pub(crate) const OP_ACKNOWLEDGE: u16 = 5;
pub(crate) const OP_CHUNK: u16 = 6;
pub(crate) const OP_REPLY: u16 = 7;
pub(crate) const OP_END: u16 = 8;
pub(crate) const OP_MOVED: u16 = 9;

const MAGIC: [u8; 8] = *b"REEFRMT1";

/// Version of frames and of the session; operations of users have the hash of their declarations.
const VERSION: u32 = 1;

/// Time within which the other end must say its part.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of bytes of the address of a session that has moved.
const MAX_ADDRESS_LEN: usize = 4096;

/// Number that a server makes up for each connection, so that no proof can be used twice.
pub(crate) type Nonce = [u8; 32];

/// First bytes of both ends.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Opening {
    magic: [u8; 8],
    version: U32,
    schema: U64,
}

impl Opening {
    pub(crate) fn new(schema: u64) -> Self {
        Self { magic: MAGIC, version: U32::new(VERSION), schema: U64::new(schema) }
    }

    /// Reads the peer's, and returns what follows.
    ///
    /// # Errors
    ///
    /// `Refused` names both versions or hashes; `Protocol` for other bytes.
    pub(crate) fn check(body: &[u8], schema: u64) -> Result<&[u8]> {
        let not_ours = || Error::protocol("the peer does not speak this protocol");
        let (theirs, rest) = Self::ref_from_prefix(body).map_err(|_| not_ours())?;
        if theirs.magic != MAGIC {
            return Err(not_ours());
        }
        let version = theirs.version.get();
        if version != VERSION {
            let text = format!("protocol version: must be {VERSION}, got {version}");
            return Err(Error::Refused(text));
        }
        let got = theirs.schema.get();
        if got != schema {
            let hashes = format!("schema: must be {schema:016x}, got {got:016x}");
            let why = "both ends must be of one release, and devices and programs have addresses of their own";
            return Err(Error::Refused(format!("{hashes}: {why}")));
        }
        Ok(rest)
    }
}

/// First message of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name of the client's program and process, for people.
    pub program: String,
    /// Request of the client, in the form that both programs agree on.
    pub request: Vec<u8>,
    /// Session to continue; `None` for a new one.
    pub(crate) session: Option<[u8; 16]>,
    /// Frames of the server that have come.
    pub(crate) received: Progress,
    /// Proof that the client has a token of the server.
    pub(crate) proof: Option<[u8; 32]>,
    /// Name of that token, as the server knows it.
    #[serde(skip)]
    pub(crate) tenant: Option<String>,
}

impl Hello {
    /// Returns the name of the session that the client continues; `None` for a new one.
    pub fn session(&self) -> Option<[u8; 16]> {
        self.session
    }

    /// Returns the name of the client's token, if the server has names for its tokens.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }
}

/// Answer of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) session: [u8; 16],
    pub(crate) received: Progress,
    pub(crate) limits: Limits,
    /// The answer to [`Hello::request`].
    pub(crate) facts: Vec<u8>,
}

/// A secret that client and server share. It is never sent: a client proves that it has it.
#[derive(Clone)]
pub struct Token {
    key: hmac::Key,
    tenant: Option<String>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A token of these bytes.
    pub fn new(secret: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), tenant: None }
    }

    /// Names the token, for a server that has several.
    #[must_use]
    pub fn of_tenant(self, name: &str) -> Self {
        Self { tenant: Some(name.into()), ..self }
    }

    pub(crate) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// HMAC-SHA-256 of what is of this connection alone.
    fn text(nonce: &Nonce, binding: Option<[u8; 32]>) -> Vec<u8> {
        [&nonce[..], &[u8::from(binding.is_some())], &binding.unwrap_or_default()].concat()
    }

    pub(crate) fn prove(&self, nonce: &Nonce, binding: Option<[u8; 32]>) -> [u8; 32] {
        let tag = hmac::sign(&self.key, &Self::text(nonce, binding));
        tag.as_ref().try_into().expect("a tag of SHA-256 has 32 bytes")
    }

    pub(crate) fn verifies(
        &self,
        proof: &[u8; 32],
        nonce: &Nonce,
        binding: Option<[u8; 32]>,
    ) -> bool {
        hmac::verify(&self.key, &Self::text(nonce, binding), proof).is_ok()
    }
}

/// Sends one frame outside of a session.
pub(crate) fn say(link: &mut Link, op: u16, parts: &[&[u8]]) -> Result<()> {
    let mut bytes = Vec::new();
    frame::append(&mut bytes, op, FLAG_UNCOUNTED, 0, 0, parts);
    link.send.send(&bytes).map_err(|e| Error::io("send", &e))
}

/// Waits for one frame outside of a session, which must have operation `op`.
///
/// Reads no byte of what follows: the peer says nothing more before it has an answer, except for
/// frames of a session after a welcome, which stay in the decoder.
///
/// # Errors
///
/// `Refused` with the peer's text; `Protocol`; `Broken`.
pub(crate) fn hear(
    link: &mut Link,
    decoder: &mut Decoder,
    op: u16,
    end: Instant,
) -> Result<Vec<u8>> {
    hear_up_to(link, decoder, op, end, MAX_BODY_LEN)
}

/// As [`hear`], for a frame of at most `most` bytes of body: of an unauthenticated peer.
///
/// # Errors
///
/// Returns the errors of [`hear`]; `Protocol` for a longer one, of which no more is read.
pub(crate) fn hear_up_to(
    link: &mut Link,
    decoder: &mut Decoder,
    op: u16,
    end: Instant,
    most: usize,
) -> Result<Vec<u8>> {
    loop {
        if let Some((_, len)) = decoder.partial()
            && len > most
        {
            let text = format!("hello: must have at most {most} bytes, got {len}");
            return Err(Error::Protocol(text));
        }
        if let Some(frame) = decoder.next()? {
            return match frame.op {
                got if got == op => Ok(frame.body.to_vec()),
                OP_REFUSED => Err(Error::Refused(printable_bytes(frame.body))),
                OP_MOVED => Err(Error::Moved(read_moved(frame.body)?)),
                got => Err(Error::Protocol(format!("operation: must be {op}, got {got}"))),
            };
        }
        let left = end.saturating_duration_since(Instant::now());
        let has_bytes = link.receive.wait(Some(left)).map_err(|e| Error::io("wait", &e))?;
        if has_bytes {
            let count =
                link.receive.receive(decoder.space()).map_err(|e| Error::io("receive", &e))?;
            decoder.filled(count);
        } else if left.is_zero() {
            let seconds = HANDSHAKE_TIMEOUT.as_secs();
            return Err(Error::Broken(format!("the peer said nothing for {seconds} s")));
        }
    }
}

/// Reads the place of a session, whose address errors show.
fn read_moved(body: &[u8]) -> Result<Moved> {
    let moved: Moved = codec::read(body)?;
    if moved.address.len() > MAX_ADDRESS_LEN || moved.address.contains(char::is_control) {
        return Err(Error::protocol("the address of a session that has moved cannot be one"));
    }
    Ok(moved)
}

/// The client's part, on a fresh link.
///
/// # Errors
///
/// `Refused` by either end; `Protocol`; `Broken`.
pub(crate) fn greet(
    link: &mut Link,
    decoder: &mut Decoder,
    schema: u64,
    token: Option<&Token>,
    mut hello: Hello,
) -> Result<Welcome> {
    let end = Instant::now() + HANDSHAKE_TIMEOUT;
    let greeting = hear(link, decoder, OP_GREETING, end)?;
    let nonce = Opening::check(&greeting, schema)?;
    let nonce = nonce.try_into().map_err(|_| Error::protocol("greeting: its length is wrong"))?;
    hello.proof = token.map(|token| token.prove(&nonce, link.binding));
    say(link, OP_HELLO, &[Opening::new(schema).as_bytes(), &codec::write(&hello)?])?;
    codec::read(&hear(link, decoder, OP_WELCOME, end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_holds_for_one_nonce_one_connection_and_one_token() {
        let (token, other) = (Token::new(b"secret"), Token::new(b"other"));
        let proof = token.prove(&[1; 32], Some([2; 32]));
        assert!(token.verifies(&proof, &[1; 32], Some([2; 32])));
        assert!(!token.verifies(&proof, &[3; 32], Some([2; 32])));
        assert!(!token.verifies(&proof, &[1; 32], Some([3; 32])));
        assert!(!token.verifies(&proof, &[1; 32], None));
        assert!(!other.verifies(&proof, &[1; 32], Some([2; 32])));
        assert!(!token.verifies(&token.prove(&[1; 32], None), &[1; 32], Some([0; 32])));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn address_with_control_characters_is_refused() {
        let key = crate::moved::Key::make().unwrap();
        let read = |address: String| {
            let moved = Moved { address, key: key.clone() };
            read_moved(&codec::write(&moved).unwrap()).map(|moved| moved.address)
        };
        assert_eq!(read("tls:host:1".into()), Ok("tls:host:1".into()));
        assert_eq!(read(String::new()), Ok(String::new()));
        for bad in ["host\u{1b}[2J:1".into(), "unix:/a\n".into(), "x".repeat(MAX_ADDRESS_LEN + 1)] {
            assert!(matches!(read(bad), Err(Error::Protocol(_))));
        }
    }

    #[test]
    fn other_versions_and_schemas_are_named() {
        let mut opening = Opening::new(7).as_bytes().to_vec();
        opening.push(9);
        assert_eq!(Opening::check(&opening, 7), Ok(&[9][..]));
        let said = Opening::check(&opening, 8).unwrap_err().to_string();
        assert!(said.contains("must be 0000000000000008, got 0000000000000007"), "{said}");
        assert!(said.ends_with("devices and programs have addresses of their own"), "{said}");
        opening[8] = 2;
        let said = Opening::check(&opening, 7).unwrap_err().to_string();
        assert!(said.contains("version: must be 1, got 2"), "{said}");
        opening[0] = 0;
        assert!(matches!(Opening::check(&opening, 7), Err(Error::Protocol(_))));
        assert!(Opening::check(b"GET / HTTP/1.1", 7).is_err());
    }
}
