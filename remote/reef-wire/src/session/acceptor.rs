//! The first words of a server with a client, before there is a session.

use super::handshake::{
    HANDSHAKE_TIMEOUT, Hello, Nonce, OP_GREETING, OP_HELLO, OP_MOVED, OP_REFUSED, Opening, Token,
    hear_up_to, say,
};
use crate::codec;
use crate::error::{Error, Result};
use crate::frame::Decoder;
use crate::moved::Key;
use crate::moved::Moved;
use crate::transport::link::Link;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::time::Instant;
use zerocopy::IntoBytes;

/// Maximum number of bytes of a client's request.
const MAX_REQUEST_LEN: usize = 4096;
/// Maximum number of bytes of all that a client says before it is known.
pub(super) const MAX_HELLO_LEN: usize = 16 << 10;
/// Maximum number of characters of a client's name.
const MAX_PROGRAM_LEN: usize = 128;

/// Text for a client that names a session which is not there.
pub const NO_SESSION: &str = "there is no such session (any more)";

/// Text for a client without a token, where one is needed.
pub const NO_TOKEN: &str = "this server wants a token";

/// Text for a client whose token is none of the server's.
pub const WRONG_TOKEN: &str = "the token is not one of this server's";

/// Part of a server that has its secrets: it learns which clients may have a session.
///
/// The process of the sessions may be another one, which then has no secret but its sessions'
/// names: [`Server::serve_greeted`](crate::Server::serve_greeted).
pub struct Acceptor {
    schema: u64,
    tokens: Vec<Token>,
    random: SystemRandom,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// An acceptor for clients of this schema. With tokens a client must have one of them.
    pub fn new(schema: u64, tokens: Vec<Token>) -> Self {
        Self { schema, tokens, random: SystemRandom::new() }
    }

    /// Greets a client, and returns what it says if it may have a session. Another one is told why
    /// not. Blocks for 10 s at most.
    ///
    /// # Errors
    ///
    /// `Refused` with the reason; `Protocol`; `Broken`.
    pub fn greet(&self, link: &mut Link) -> Result<Hello> {
        self.greet_moved(link, |_| None)
    }

    /// As [`greet`](Self::greet), of a server that has sessions of other servers: `key_of` returns
    /// the key of one, by its name, and its tenant. A client that has it needs no token.
    ///
    /// # Errors
    ///
    /// Returns the errors of `greet`.
    pub fn greet_moved(
        &self,
        link: &mut Link,
        key_of: impl Fn([u8; 16]) -> Option<(Key, Option<String>)>,
    ) -> Result<Hello> {
        let heard = self.hear(link, key_of);
        if let Err(error) = &heard {
            let text = match error {
                Error::Refused(text) => text.clone(),
                other => other.to_string(),
            };
            refuse(link, &text);
        }
        heard
    }

    fn hear(
        &self,
        link: &mut Link,
        key_of: impl Fn([u8; 16]) -> Option<(Key, Option<String>)>,
    ) -> Result<Hello> {
        let (mut decoder, end) = (Decoder::default(), Instant::now() + HANDSHAKE_TIMEOUT);
        let nonce: Nonce = self.random()?;
        say(link, OP_GREETING, &[Opening::new(self.schema).as_bytes(), &nonce])?;
        let body = hear_up_to(link, &mut decoder, OP_HELLO, end, MAX_HELLO_LEN)?;
        let mut hello: Hello = codec::read(Opening::check(&body, self.schema)?)?;
        let has_key = |(key, _): &(Key, Option<String>)| {
            let token = Token::new(key.bytes());
            hello.proof.is_some_and(|proof| token.verifies(&proof, &nonce, link.binding))
        };
        let known = hello.session.and_then(key_of).filter(has_key);
        hello.tenant = match known {
            Some((_, tenant)) => tenant,
            None => self.tenant(&hello, &nonce, link)?,
        };
        hello.proof = None;
        if hello.request.len() > MAX_REQUEST_LEN {
            let len = hello.request.len();
            let text = format!("request: must have at most {MAX_REQUEST_LEN} bytes, got {len}");
            return Err(Error::Refused(text));
        }
        if hello.program.chars().nth(MAX_PROGRAM_LEN).is_some() {
            hello.program = hello.program.chars().take(MAX_PROGRAM_LEN).collect();
        }
        if !decoder.is_empty() {
            return Err(Error::protocol("the client must wait for the answer to its hello"));
        }
        Ok(hello)
    }

    /// Returns the name of the token that the client has.
    fn tenant(&self, hello: &Hello, nonce: &Nonce, link: &Link) -> Result<Option<String>> {
        if self.tokens.is_empty() {
            return Ok(None);
        }
        let refused = |text: &str| Error::Refused(text.into());
        let proof = hello.proof.ok_or_else(|| refused(NO_TOKEN))?;
        let is_it = |token: &&Token| token.verifies(&proof, nonce, link.binding);
        let found = self.tokens.iter().find(is_it);
        let token = found.ok_or_else(|| refused(WRONG_TOKEN))?;
        Ok(token.tenant().map(Into::into))
    }

    /// Makes up the name of a session, which no other peer can guess.
    ///
    /// # Errors
    ///
    /// `Invalid` if the system has no random numbers.
    pub fn name(&self) -> Result<[u8; 16]> {
        self.random()
    }

    fn random<const LEN: usize>(&self) -> Result<[u8; LEN]> {
        let mut bytes = [0; LEN];
        let filled = self.random.fill(&mut bytes);
        filled.map_err(|_| Error::Invalid("the system has no random numbers".into()))?;
        Ok(bytes)
    }
}

/// Tells a client that its session is at another server. Returns whether the connection took it:
/// then it may still break before the client has it.
pub fn redirect(link: &mut Link, moved: &Moved) -> bool {
    codec::write(moved).and_then(|bytes| say(link, OP_MOVED, &[&bytes])).is_ok()
}

/// Tells a client why it has no session, as far as the connection still carries it.
pub fn refuse(link: &mut Link, text: &str) {
    let _ = say(link, OP_REFUSED, &[text.as_bytes()]); // it may be gone
}

#[cfg(test)]
mod tests {
    use super::super::handshake::{OP_WELCOME, greet};
    use super::*;
    use crate::journal::Progress;
    use std::os::unix::net::UnixStream;
    use std::thread;

    /// Answer of a server with tokens to a client that names a session and has this secret.
    fn answer(session: [u8; 16], secret: Option<&[u8]>, key: &Key) -> Result<Option<String>> {
        let (near, far) = UnixStream::pair().unwrap();
        let token = secret.map(Token::new);
        let client = thread::spawn(move || {
            let (received, session) = (Progress::default(), Some(session));
            let (program, request) = (String::new(), Vec::new());
            let hello = Hello { program, request, session, received, proof: None, tenant: None };
            let mut link = Link::unix(near).unwrap();
            let _ = greet(&mut link, &mut Decoder::default(), 7, token.as_ref(), hello);
        });
        let acceptor = Acceptor::new(7, vec![Token::new(b"a token").of_tenant("alice")]);
        let mut link = Link::unix(far).unwrap();
        let key_of = |name| (name == [1; 16]).then(|| (key.clone(), Some("bob".to_owned())));
        let hello = acceptor.greet_moved(&mut link, key_of);
        let _ = say(&mut link, OP_WELCOME, &[]); // which is not one: the client ends
        client.join().unwrap();
        hello.map(|hello| hello.tenant().map(Into::into))
    }

    /// An unauthenticated peer takes no more memory than a hello needs, whatever its frame's header
    /// says.
    #[test]
    fn long_hello_is_refused_by_its_header() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut client = Link::unix(near).unwrap();
        let header = [(1_u32 << 20).to_le_bytes(), [OP_HELLO as u8, 0, 1, 0]].concat();
        client.send.send(&[&header[..], &[0; 8]].concat()).unwrap();
        let heard = Acceptor::new(7, Vec::new()).greet(&mut Link::unix(far).unwrap());
        let text = "hello: must have at most 16384 bytes, got 1048576";
        assert_eq!(heard.unwrap_err(), Error::protocol(text));
    }

    #[test]
    fn key_of_a_moved_session_is_good_for_that_session() {
        let [key, other] = [(); 2].map(|()| Key::make().unwrap());
        let refused = Err(Error::Refused("the token is not one of this server's".into()));
        assert_eq!(answer([1; 16], Some(key.bytes()), &key), Ok(Some("bob".into())));
        assert_eq!(answer([2; 16], Some(key.bytes()), &key), refused, "another session");
        assert_eq!(answer([1; 16], Some(other.bytes()), &key), refused, "another key");
        assert_eq!(answer([1; 16], Some(b"a token"), &key), Ok(Some("alice".into())));
        let none = Err(Error::Refused("this server wants a token".into()));
        assert_eq!(answer([1; 16], None, &key), none);
    }
}
