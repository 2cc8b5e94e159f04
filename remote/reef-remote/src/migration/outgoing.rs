//! Connection to a server at which a session is made.

use reef_wire::{Client, ClientOptions, Endpoint, Error, Handler, Message, Result};

/// Bytes of a state in one message.
const STATE_PIECE_LEN: usize = 4 << 20;

/// Receiver of a server that says nothing by itself.
struct Quiet;

impl Handler for Quiet {
    fn handle(&mut self, message: &Message<'_>, _: &Endpoint) -> Result<()> {
        Err(Error::Protocol(format!("operation {}: cannot come here", message.op)))
    }
}

/// Connection by which a session goes to another server. Nothing runs there when it is dropped
/// before the last message.
#[derive(Debug)]
pub struct Outgoing {
    client: Client,
    sent: u64,
}

impl Outgoing {
    /// Begins a session there, with options of [`Target::options`](super::Target::options).
    ///
    /// # Errors
    ///
    /// There is no such server, or it refuses.
    pub fn open(options: ClientOptions) -> Result<Self> {
        Ok(Self { client: Client::open(options, Box::new(Quiet))?, sent: 0 })
    }

    /// Returns the answer to the request.
    pub fn facts(&self) -> &[u8] {
        self.client.facts()
    }

    /// Returns true if the session there is over.
    pub fn has_ended(&self) -> bool {
        self.client.ended().is_some()
    }

    /// Returns the bytes that were sent since the count began.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Begins to count the bytes that are sent.
    pub fn restart_count(&mut self) {
        self.sent = 0;
    }

    /// Sends a message without a reply.
    ///
    /// # Errors
    ///
    /// Why the session there has ended.
    pub fn post(&mut self, op: u16, parts: &[&[u8]]) -> Result<()> {
        self.sent += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.client.post(op, 0, parts).map(|_| ())
    }

    /// Sends a state in pieces, each of them after the same head.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`post`](Self::post).
    pub fn post_state(&mut self, op: u16, head: &[u8], state: &[u8]) -> Result<()> {
        state.chunks(STATE_PIECE_LEN).try_for_each(|piece| self.post(op, &[head, piece]))
    }

    /// Sends a message, and waits until it is done.
    ///
    /// # Errors
    ///
    /// `Remote` with the other server's reason; as [`post`](Self::post).
    pub fn call(&self, op: u16, body: &[u8]) -> Result<()> {
        self.client.call(op, 0, &[body]).map(|_| ())
    }
}
