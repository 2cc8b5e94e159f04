//! The receiving side: bytes to frames, frames to messages, each once.

use super::handshake::{OP_ACKNOWLEDGE, OP_CHUNK, OP_END, OP_REPLY};
use super::outbox::Acknowledgement;
use crate::bulk::{self, Assembly};
use crate::credit::Limits;
use crate::error::{Error, Result, printable_bytes};
use crate::frame::{Decoder, FIRST_OP, FLAG_PAYLOAD, FLAG_REPLY, FLAG_UNCOUNTED, Frame, frame_len};
use crate::journal::{Arrivals, Progress};
use crate::transport::link::ReceiveHalf;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use std::{fmt, io};
use zerocopy::FromBytes;

/// A message of the peer.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Operation.
    pub op: u16,
    /// Queue that it belongs to.
    pub lane: u32,
    /// Number of its frame in the session.
    pub number: u64,
    /// The peer waits for [`Endpoint::reply`](crate::Endpoint::reply) with this number.
    pub wants_reply: bool,
    /// Content.
    pub body: &'a [u8],
}

/// Destination of what is received.
pub(super) trait Sink {
    /// Returns what the peer may have outstanding.
    fn limits(&self) -> Limits;

    /// Records what the peer has consumed.
    fn acknowledge(&self, progress: Progress) -> Result<()>;

    /// Records what was consumed, and returns what the peer has been told of it.
    fn consume(&self, consumed: Progress) -> Progress;

    /// Takes a reply.
    fn deliver(&self, body: &[u8]) -> Result<()>;

    /// Handles any other message.
    fn handle(&self, message: &Message<'_>) -> Result<()>;
}

/// State of an inbox, without a link.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InboxState {
    received: Progress,
    consumed: Progress,
    /// Incomplete payloads.
    parts: Vec<(u64, Vec<u8>)>,
}

impl InboxState {
    /// Checks that its numbers can be those of an inbox.
    ///
    /// # Errors
    ///
    /// `Protocol` if not.
    pub(super) fn check(&self) -> Result<()> {
        let (received, consumed) = (self.received, self.consumed);
        let is_one = received.is_possible()
            && consumed.frames <= received.frames
            && consumed.bytes <= received.bytes
            && self.parts.len() <= bulk::MAX_PAYLOADS;
        if is_one { Ok(()) } else { Err(Error::protocol("state: what was received cannot be")) }
    }
}

pub(super) struct Inbox {
    receive: Option<Box<dyn ReceiveHalf>>,
    decoder: Decoder,
    /// The decoder has bytes that a handshake has read, and no frame of them was handled yet.
    has_unread: bool,
    arrivals: Arrivals,
    received_bytes: u64,
    /// The peer closed the link.
    is_closed: bool,
    /// Frames that were handled: all before the first chunk of an incomplete payload.
    consumed: Progress,
    assembly: Assembly,
    /// Number and bytes of the frame of the chunk that the assembly has open.
    open: (u32, usize),
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("received", &self.received()).finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            receive: None,
            decoder: Decoder::default(),
            has_unread: false,
            arrivals: Arrivals::default(),
            received_bytes: 0,
            is_closed: false,
            consumed: Progress::default(),
            assembly: Assembly::default(),
            open: (0, 0),
        }
    }

    /// Frames of the peer that have come.
    pub(super) fn received(&self) -> Progress {
        Progress { frames: self.arrivals.next(), bytes: self.received_bytes }
    }

    /// Returns its state.
    pub(super) fn state(&self) -> InboxState {
        let (received, parts) = (self.received(), self.assembly.parts());
        InboxState { received, consumed: self.consumed, parts }
    }

    /// Goes on with the state of another one.
    pub(super) fn restore(&mut self, state: InboxState) {
        let InboxState { received, consumed, parts } = state;
        (self.arrivals, self.received_bytes) = (Arrivals::at(received.frames), received.bytes);
        self.consumed = consumed;
        self.assembly.restore(parts);
    }

    /// Continues with a link, of which `decoder` may have read some bytes already.
    pub(super) fn connect(&mut self, receive: Box<dyn ReceiveHalf>, decoder: Decoder) {
        self.has_unread = !decoder.is_empty();
        (self.receive, self.decoder, self.is_closed) = (Some(receive), decoder, false);
    }

    /// Returns whether the peer closed the link.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Drops the link: it is broken.
    pub(super) fn disconnect(&mut self) {
        self.receive = None;
        self.has_unread = false;
        self.decoder.clear();
        self.assembly.disconnect();
    }

    /// Waits until there are bytes (true) or a wake came.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        if self.has_unread {
            return Ok(true);
        }
        let receive = self.receive.as_mut().ok_or_else(Error::not_connected)?;
        receive.wait(timeout).map_err(|e| Error::io("wait", &e))
    }

    /// Receives once, and handles all whole frames.
    pub(super) fn read(&mut self, sink: &impl Sink) -> Result<()> {
        // Bytes that a handshake has read beyond its own frames come first.
        if std::mem::take(&mut self.has_unread) {
            self.handle_frames(sink)?;
        } else {
            let receive = self.receive.as_mut().ok_or_else(Error::not_connected)?;
            let space = self.assembly.space();
            let is_chunk = space.is_some();
            let count = receive.receive(space.unwrap_or_else(|| self.decoder.space()));
            self.is_closed = count.as_ref().is_err_and(is_closed);
            let count = count.map_err(|e| Error::io("receive", &e))?;
            if !is_chunk {
                self.decoder.filled(count);
                self.handle_frames(sink)?;
            } else if self.assembly.filled(count)? {
                self.arrivals.accept(self.open.0)?;
                self.received_bytes += self.open.1 as u64;
            }
        }
        let told = sink.consume(self.consumed);
        let received = self.received();
        let limits = sink.limits();
        limits.check(received.frames - told.frames, received.bytes - told.bytes)
    }

    fn handle_frames(&mut self, sink: &impl Sink) -> Result<()> {
        while let Some(frame) = self.decoder.next()? {
            if frame.flags & FLAG_UNCOUNTED != 0 {
                handle_uncounted(&frame, sink)?;
                continue;
            }
            let Some(number) = self.arrivals.accept(frame.seq)? else { continue };
            self.received_bytes += frame_len(frame.body.len()) as u64;
            if frame.op == OP_CHUNK {
                self.assembly.begin(frame.body, frame.body.len(), sink.limits().message())?;
            } else if frame.flags & FLAG_PAYLOAD != 0 {
                let body = self.assembly.take(frame.body)?;
                handle(&Frame { body: body.bytes(), ..frame }, number, sink)?;
                self.assembly.give_back(body);
            } else {
                self.assembly.count_other();
                handle(&frame, number, sink)?;
            }
            if self.assembly.is_empty() {
                let (frames, bytes) = (self.arrivals.next(), self.received_bytes);
                self.consumed = Progress { frames, bytes };
            }
        }
        self.open_chunk(sink.limits().message())
    }

    /// Lets the rest of a chunk go where it belongs, if the front of one is there.
    fn open_chunk(&mut self, max: u64) -> Result<()> {
        let Some((frame, len)) = self.decoder.partial() else { return Ok(()) };
        let is_chunk = (frame.op, frame.flags) == (OP_CHUNK, 0) && self.arrivals.is_next(frame.seq);
        if !is_chunk || !bulk::may_open(frame.body, len) {
            return Ok(());
        }
        self.open = (frame.seq, frame_len(len));
        self.assembly.begin(frame.body, len, max)?;
        self.decoder.clear();
        Ok(())
    }
}

/// Returns whether an error says that the peer closed its end.
pub(super) fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn handle_uncounted(frame: &Frame<'_>, sink: &impl Sink) -> Result<()> {
    match frame.op {
        OP_ACKNOWLEDGE => {
            let body = Acknowledgement::ref_from_bytes(frame.body)
                .map_err(|_| Error::protocol("acknowledgement: its length is wrong"))?;
            sink.acknowledge(Progress { frames: body.frames.get(), bytes: body.bytes.get() })
        }
        OP_END => Err(Error::Ended(printable_bytes(frame.body))),
        op => Err(Error::Protocol(format!("operation {op}: cannot come in a session"))),
    }
}

fn handle(frame: &Frame<'_>, number: u64, sink: &impl Sink) -> Result<()> {
    match frame.op {
        OP_REPLY => sink.deliver(frame.body),
        op if op < FIRST_OP => {
            Err(Error::Protocol(format!("operation {op}: cannot come in a session")))
        }
        op => {
            let wants_reply = frame.flags & FLAG_REPLY != 0;
            sink.handle(&Message { op, lane: frame.lane, number, wants_reply, body: frame.body })
        }
    }
}
