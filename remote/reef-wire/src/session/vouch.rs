//! The first words between a server and a client that does not have its token.
//!
//! ```text
//! server ──greeting──▶ voucher ──greeting──▶ client
//! server ◀──hello, proof── voucher ◀──hello── client
//! ```

use super::acceptor::MAX_HELLO_LEN;
use super::handshake::{
    HANDSHAKE_TIMEOUT, Hello, Nonce, OP_GREETING, OP_HELLO, Opening, Token, hear, hear_up_to, say,
};
use crate::codec;
use crate::error::{Error, Result};
use crate::frame::Decoder;
use crate::transport::link::Link;
use std::time::Instant;

/// Passes a server's greeting on to a client, and the client's hello to the server with the proof
/// of a token. The rest of both is theirs. `may` says whether the client may say this hello: it can
/// begin any session of the token's tenant by it.
///
/// # Errors
///
/// `Refused` by `may` or the server, with the reason; `Protocol`; `Broken`.
pub fn vouch(
    client: &mut Link,
    server: &mut Link,
    token: Option<&Token>,
    may: impl FnOnce(&Hello) -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + HANDSHAKE_TIMEOUT;
    let greeting = hear(server, &mut Decoder::default(), OP_GREETING, end)?;
    say(client, OP_GREETING, &[&greeting])?;
    let body = hear_up_to(client, &mut Decoder::default(), OP_HELLO, end, MAX_HELLO_LEN)?;
    let short = || Error::protocol("hello: its length is wrong");
    let (_, nonce) = greeting.split_at_checked(size_of::<Opening>()).ok_or_else(short)?;
    let (opening, hello) = body.split_at_checked(size_of::<Opening>()).ok_or_else(short)?;
    let nonce: Nonce = nonce.try_into().map_err(|_| short())?;
    let mut hello: Hello = codec::read(hello)?;
    may(&hello)?;
    hello.proof = token.map(|token| token.prove(&nonce, server.binding));
    say(server, OP_HELLO, &[opening, &codec::write(&hello)?])
}
