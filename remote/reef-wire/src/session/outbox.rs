//! Frames that wait to be sent, and those that wait to be acknowledged.

use super::handshake::{OP_ACKNOWLEDGE, OP_CHUNK, OP_REPLY};
use crate::bulk::{self, CHUNK_LEN, MAX_INLINE_LEN, PayloadRef};
use crate::credit::Limits;
use crate::error::{Error, Result};
use crate::exchange::writer::Source;
use crate::frame::{self, FLAG_PAYLOAD, FLAG_UNCOUNTED, frame_len};
use crate::journal::{Batch, Journal, Progress};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Body of an acknowledgement: what has been consumed since the session began.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Acknowledgement {
    pub(super) frames: U64,
    pub(super) bytes: U64,
}

/// Bytes for a message that may still grow: see [`Endpoint::grow`](super::Endpoint::grow).
#[derive(Debug, Clone, Copy)]
pub struct Growth<'a> {
    /// Bytes in place of as many last ones of the open message.
    pub replace: &'a [u8],
    /// Bytes after those.
    pub more: &'a [&'a [u8]],
    /// Message of its own, if none is open.
    pub fresh: &'a [&'a [u8]],
}

/// Last frame of the pending ones, if it may grow.
#[derive(Debug, Clone, Copy)]
struct Open {
    op: u16,
    lane: u32,
    at: usize,
}

/// Frames and bytes of a session, over all of its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Traffic {
    /// Frames that this end has handled.
    pub received_frames: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Frames that this end has pushed.
    pub sent_frames: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// There is a connection.
    pub is_connected: bool,
    /// Connections that the session has had.
    pub connections: u64,
    /// Replies that this end has pushed: round trips of the peer.
    pub replies: u64,
}

/// State of an outbox, without a connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OutboxState {
    pending: Vec<u8>,
    /// Batches that may have to be sent again, and the numbers after their last frames.
    kept: Vec<(Vec<u8>, u64)>,
    pushed: Progress,
    acknowledged: Progress,
    consumed: Progress,
    next_ticket: u64,
}

impl OutboxState {
    /// Checks that its numbers can be those of an outbox.
    ///
    /// # Errors
    ///
    /// `Protocol` if not.
    pub(super) fn check(&self) -> Result<()> {
        let (pushed, acknowledged) = (self.pushed, self.acknowledged);
        let ends = self.kept.iter().map(|(_, end)| *end);
        let is_one = acknowledged.frames <= pushed.frames
            && acknowledged.bytes <= pushed.bytes
            && ends.clone().is_sorted()
            && ends.max().is_none_or(|end| end <= pushed.frames)
            && [pushed, self.consumed].iter().all(Progress::is_possible)
            && self.next_ticket < u64::MAX / 2;
        if is_one { Ok(()) } else { Err(Error::protocol("state: what was sent cannot be")) }
    }
}

#[derive(Debug)]
pub(super) struct Outbox {
    /// Frames that were not sent yet.
    pending: Vec<u8>,
    open: Option<Open>,
    journal: Journal,
    /// Batches to be sent before the pending frames: parts of payloads, and after a cut those that
    /// the peer may not have.
    closed: VecDeque<Arc<Batch>>,
    /// Bytes of them.
    closed_bytes: usize,
    pushed: Progress,
    acknowledged: Progress,
    /// Consumed frames of the peer, and those that the peer has been told of. After a cut these
    /// may be more: chunks of an incomplete payload have come.
    consumed: Progress,
    told: Progress,
    is_connected: bool,
    connections: u64,
    replies: u64,
    next_ticket: u64,
    limits: Limits,
}

/// Bytes of payloads that wait to be sent above which a client that has more sends them first. A
/// buffer that is still in a processor's cache is cheap to send, and the journal needs few buffers.
const MAX_UNSENT_LEN: usize = 4 << 20;

/// Size of a message: its number of frames, and their bytes.
pub(super) fn size(len: usize) -> Progress {
    if len <= MAX_INLINE_LEN {
        return Progress { frames: 1, bytes: frame_len(len) as u64 };
    }
    let header = size_of::<bulk::ChunkHeader>();
    let (whole, rest) = (len / CHUNK_LEN, len % CHUNK_LEN);
    let last = if rest > 0 { frame_len(header + rest) } else { 0 };
    let chunks = whole * frame_len(header + CHUNK_LEN) + last;
    let bytes = chunks + frame_len(size_of::<PayloadRef>());
    Progress { frames: len.div_ceil(CHUNK_LEN) as u64 + 1, bytes: bytes as u64 }
}

impl Outbox {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            pending: Vec::new(),
            open: None,
            journal: Journal::default(),
            closed: VecDeque::new(),
            closed_bytes: 0,
            pushed: Progress::default(),
            acknowledged: Progress::default(),
            consumed: Progress::default(),
            told: Progress::default(),
            is_connected: false,
            connections: 0,
            replies: 0,
            next_ticket: 0,
            limits,
        }
    }

    /// Returns whether there is credit for a message of this size.
    pub(super) fn has_credit(&self, size: Progress) -> bool {
        self.limits.allow(self.outstanding(), size.frames, size.bytes)
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            received_frames: self.consumed.frames,
            received_bytes: self.consumed.bytes,
            sent_frames: self.pushed.frames,
            sent_bytes: self.pushed.bytes,
            is_connected: self.is_connected,
            connections: self.connections,
            replies: self.replies,
        }
    }

    /// Frames and bytes that were pushed and not acknowledged.
    pub(super) fn outstanding(&self) -> (u64, u64) {
        let (pushed, acknowledged) = (self.pushed, self.acknowledged);
        (pushed.frames - acknowledged.frames, pushed.bytes - acknowledged.bytes)
    }

    /// Returns the bytes that are kept for the peer, whatever bytes it acknowledges: a batch is
    /// kept until all of its frames are acknowledged.
    pub(super) fn kept_bytes(&self) -> u64 {
        (self.journal.bytes() + self.pending.len()) as u64
    }

    /// Appends a message whose body is the concatenation of `parts`, and returns its number.
    pub(super) fn push(&mut self, op: u16, flags: u16, lane: u32, parts: &[&[u8]]) -> u64 {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len <= MAX_INLINE_LEN {
            return self.append(op, flags, lane, parts);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        for (header, mut slices) in bulk::chunks(ticket, parts) {
            if self.pending.len() >= CHUNK_LEN {
                self.close_batch();
            }
            slices.insert(0, header.as_bytes());
            self.append(OP_CHUNK, 0, lane, &slices);
        }
        let reference = PayloadRef { ticket: U64::new(ticket), len: U64::new(len as u64) };
        self.append(op, flags | FLAG_PAYLOAD, lane, &[reference.as_bytes()])
    }

    /// Makes the pending frames a batch of their own. A payload has one for each chunk, so buffers
    /// of one size are used again, and the first chunk is sent while others come.
    fn close_batch(&mut self) {
        self.open = None;
        let next = self.journal.buffer(self.pending.len());
        let bytes = std::mem::replace(&mut self.pending, next);
        self.closed_bytes += bytes.len();
        let batch = self.journal.keep(Batch { bytes, end: self.pushed.frames });
        self.closed.push_back(batch);
    }

    /// Returns whether so little waits to be sent that another payload may follow. Without a
    /// connection the credit alone decides.
    pub(super) fn has_room(&self) -> bool {
        !self.is_connected || self.closed_bytes <= MAX_UNSENT_LEN
    }

    /// Appends a message, which [`grow`](Self::grow) may add to until it is taken or another one
    /// follows.
    pub(super) fn push_open(&mut self, op: u16, lane: u32, parts: &[&[u8]]) -> u64 {
        let at = self.pending.len();
        let number = self.push(op, 0, lane, parts);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.open = (len <= MAX_INLINE_LEN).then_some(Open { op, lane, at });
        number
    }

    /// Lets the open message of this operation and lane grow. Returns false if there is none, or
    /// it would be too long, or the credit is used up.
    pub(super) fn grow(&mut self, op: u16, lane: u32, growth: &Growth<'_>) -> bool {
        let Some(open) = self.open.filter(|open| (open.op, open.lane) == (op, lane)) else {
            return false;
        };
        let more: usize = growth.more.iter().map(|part| part.len()).sum();
        let was = frame::body_len(&self.pending, open.at);
        let bytes = (frame_len(was + more) - frame_len(was)) as u64;
        if was + more > MAX_INLINE_LEN
            || growth.replace.len() > was
            || !self.has_credit(Progress { frames: 0, bytes })
        {
            return false;
        }
        frame::grow(&mut self.pending, open.at, growth.replace, growth.more);
        self.pushed.bytes += bytes;
        true
    }

    fn append(&mut self, op: u16, flags: u16, lane: u32, parts: &[&[u8]]) -> u64 {
        self.open = None;
        let (seq, before) = (self.pushed.frames, self.pending.len());
        frame::append(&mut self.pending, op, flags, seq as u32, lane, parts);
        self.pushed.frames += 1;
        self.replies += u64::from(op == OP_REPLY);
        self.pushed.bytes += (self.pending.len() - before) as u64;
        seq
    }

    /// Appends a frame that is sent once at most: after it the session is over. If batches wait,
    /// they are dropped, because one more batch is sent and no other.
    pub(super) fn push_last(&mut self, op: u16, text: &[u8]) {
        self.open = None;
        if !self.closed.is_empty() {
            self.closed.clear();
            self.closed_bytes = 0;
            self.pending.clear();
        }
        let text = &text[..text.len().min(1024)];
        frame::append(&mut self.pending, op, FLAG_UNCOUNTED, 0, 0, &[text]);
    }

    /// Records what the peer has consumed.
    pub(super) fn acknowledge(&mut self, progress: Progress) -> Result<()> {
        self.journal.acknowledge(progress.frames, self.pushed.frames)?;
        self.acknowledged.frames = self.acknowledged.frames.max(progress.frames);
        let bytes = progress.bytes.min(self.pushed.bytes);
        self.acknowledged.bytes = self.acknowledged.bytes.max(bytes);
        Ok(())
    }

    /// Records what was consumed here. Returns what the peer has been told of it, and whether it
    /// should be told though nothing else is to be sent.
    pub(super) fn consume(&mut self, consumed: Progress) -> (Progress, bool) {
        self.consumed = consumed;
        (self.told, self.acknowledgement_is_due())
    }

    fn acknowledgement_is_due(&self) -> bool {
        let frames = self.consumed.frames.saturating_sub(self.told.frames);
        let bytes = self.consumed.bytes.saturating_sub(self.told.bytes);
        self.limits.acknowledgement_is_due(frames, bytes)
    }

    /// Refuses what a peer says to have received if it has acknowledged more already.
    pub(super) fn check_received(&self, received: Progress) -> Result<()> {
        if received.frames < self.acknowledged.frames {
            let (must, got) = (self.acknowledged.frames, received.frames);
            let text =
                format!("the peer's end is an older one: must have {must} frames, got {got}");
            return Err(Error::Protocol(text));
        }
        Ok(())
    }

    /// Continues on another connection: the peer has `received` so much, and has been told that
    /// `told` has come here.
    pub(super) fn connect(&mut self, received: Progress, told: Progress) -> Result<()> {
        self.check_received(received)?;
        self.acknowledge(received)?;
        self.closed = self.journal.unacknowledged().into();
        self.closed_bytes = self.closed.iter().map(|batch| batch.bytes.len()).sum();
        self.told = told;
        self.is_connected = true;
        self.connections += 1;
        Ok(())
    }

    /// Returns its state.
    pub(super) fn state(&self) -> OutboxState {
        let kept = self.journal.unacknowledged().into_iter();
        OutboxState {
            pending: self.pending.clone(),
            kept: kept.map(|batch| (batch.bytes.clone(), batch.end)).collect(),
            pushed: self.pushed,
            acknowledged: self.acknowledged,
            consumed: self.consumed,
            next_ticket: self.next_ticket,
        }
    }

    /// Goes on with the state of another one.
    pub(super) fn restore(&mut self, state: OutboxState) {
        let OutboxState { pending, kept, pushed, acknowledged, consumed, next_ticket } = state;
        for (bytes, end) in kept {
            self.journal.keep(Batch { bytes, end });
        }
        self.pending = pending;
        (self.pushed, self.acknowledged, self.consumed) = (pushed, acknowledged, consumed);
        self.next_ticket = next_ticket;
    }

    /// Keeps all that is pushed until there is another connection.
    pub(super) fn disconnect(&mut self) {
        self.is_connected = false;
    }
}

impl Source for Outbox {
    type Batch = Arc<Batch>;

    fn take(&mut self) -> Option<Arc<Batch>> {
        if !self.is_ready() {
            return None;
        }
        if let Some(batch) = self.closed.pop_front() {
            self.closed_bytes -= batch.bytes.len();
            return Some(batch);
        }
        if self.told.frames < self.consumed.frames {
            self.told = self.consumed;
            let (frames, bytes) = (U64::new(self.told.frames), U64::new(self.told.bytes));
            let body = Acknowledgement { frames, bytes };
            let parts = [body.as_bytes()];
            frame::append(&mut self.pending, OP_ACKNOWLEDGE, FLAG_UNCOUNTED, 0, 0, &parts);
        }
        self.close_batch();
        self.closed_bytes = 0;
        self.closed.pop_front()
    }

    fn is_ready(&self) -> bool {
        let has_frames = !self.closed.is_empty() || !self.pending.is_empty();
        self.is_connected && (has_frames || self.acknowledgement_is_due())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_message_is_what_push_appends() {
        for len in [0, 1, 8, MAX_INLINE_LEN, MAX_INLINE_LEN + 1, CHUNK_LEN, CHUNK_LEN * 3 + 5] {
            let mut outbox = Outbox::new(Limits::default());
            outbox.push(16, 0, 0, &[&vec![1; len]]);
            assert_eq!(outbox.pushed, size(len), "{len} bytes");
            let waiting = outbox.pending.len() + outbox.closed_bytes;
            assert_eq!(outbox.pushed.bytes, waiting as u64);
        }
    }

    #[test]
    fn end_is_the_next_batch_although_a_payload_waits() {
        let mut outbox = Outbox::new(Limits::default());
        outbox.connect(Progress::default(), Progress::default()).unwrap();
        outbox.push(16, 0, 0, &[&vec![1; 3 * CHUNK_LEN]]);
        assert_eq!(outbox.take().unwrap().end, 1, "the first chunk");
        outbox.push_last(9, b"why");
        assert_eq!(bodies(&outbox.take().unwrap().bytes), [(9, b"why".to_vec())]);
        assert!(outbox.take().is_none());
    }

    #[test]
    fn frames_pushed_without_connection_are_sent_once_there_is_one() {
        let mut outbox = Outbox::new(Limits::default());
        outbox.push(16, 0, 0, &[b"a"]);
        assert!(outbox.take().is_none());
        outbox.connect(Progress::default(), Progress::default()).unwrap();
        assert_eq!(outbox.take().unwrap().end, 1);
        outbox.push(16, 0, 0, &[b"b"]);
        outbox.disconnect();
        outbox.connect(Progress::default(), Progress::default()).unwrap();
        let ends: Vec<u64> = std::iter::from_fn(|| outbox.take()).map(|batch| batch.end).collect();
        assert_eq!(ends, [1, 2], "the first again, then the second");
        assert!(outbox.connect(Progress { frames: 3, bytes: 0 }, Progress::default()).is_err());
    }

    /// Lets a message grow, or pushes one. Returns whether it has grown.
    fn grow(outbox: &mut Outbox, lane: u32, replace: &[u8], more: &[u8], fresh: &[u8]) -> bool {
        let has_grown = outbox.grow(40, lane, &Growth { replace, more: &[more], fresh: &[] });
        if !has_grown {
            outbox.push_open(40, lane, &[fresh]);
        }
        has_grown
    }

    fn bodies(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut decoder = frame::Decoder::default();
        decoder.space()[..bytes.len()].copy_from_slice(bytes);
        decoder.filled(bytes.len());
        let next = || decoder.next().unwrap().map(|frame| (frame.op, frame.body.to_vec()));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn message_grows_until_it_is_taken_or_another_one_follows() {
        let mut outbox = Outbox::new(Limits::default());
        outbox.connect(Progress::default(), Progress::default()).unwrap();
        assert!(!grow(&mut outbox, 1, b"", b"", b"abc"));
        assert!(grow(&mut outbox, 1, b"", b"defghij", b""));
        assert!(grow(&mut outbox, 1, b"J", b"", b""));
        assert!(!grow(&mut outbox, 2, b"", b"", b"another lane"));
        assert!(!grow(&mut outbox, 1, b"J", b"", b"k"));
        outbox.push(41, 0, 1, &[b"another message"]);
        assert!(!grow(&mut outbox, 1, b"J", b"", b"l"));
        assert_eq!((outbox.pushed.frames, outbox.pushed.bytes), (5, outbox.pending.len() as u64));
        let batch = outbox.take().unwrap();
        let expected: [(u16, &[u8]); 5] = [
            (40, b"abcdefghiJ"),
            (40, b"another lane"),
            (40, b"k"),
            (41, b"another message"),
            (40, b"l"),
        ];
        assert_eq!(bodies(&batch.bytes), expected.map(|(op, body)| (op, body.to_vec())));
        assert!(!grow(&mut outbox, 1, b"", b"m", b"it is taken"));
        assert_eq!(bodies(&outbox.take().unwrap().bytes), [(40, b"it is taken".to_vec())]);
    }

    #[test]
    fn message_grows_within_a_frame_and_the_credit() {
        let mut outbox = Outbox::new(Limits { frames: 8, bytes: 300 });
        assert!(!grow(&mut outbox, 1, b"", b"", &[0; 200]));
        assert!(grow(&mut outbox, 1, b"", &[1; 80], b""));
        assert!(!grow(&mut outbox, 1, b"", &[1; 16], b""), "no credit");
        let mut outbox = Outbox::new(Limits::default());
        assert!(!grow(&mut outbox, 1, b"", b"", &vec![0; MAX_INLINE_LEN - 1]));
        assert!(grow(&mut outbox, 1, b"", b"x", b""));
        assert!(!grow(&mut outbox, 1, b"", b"x", &vec![0; MAX_INLINE_LEN + 1]));
        assert!(!grow(&mut outbox, 1, b"", b"x", b"y"), "chunks do not grow");
        assert!(!grow(&mut outbox, 1, &[0; 2], b"", b"y"), "it is shorter");
    }

    #[test]
    fn chunks_told_at_a_handshake_are_not_taken_back() {
        let mut outbox = Outbox::new(Limits { frames: 8, bytes: 1 << 20 });
        outbox.connect(Progress::default(), Progress { frames: 3, bytes: 300 }).unwrap();
        assert!(!outbox.is_ready());
        let (told, is_due) = outbox.consume(Progress { frames: 1, bytes: 16 });
        assert_eq!((told.frames, is_due), (3, false));
        outbox.push(16, 0, 0, &[]);
        assert_eq!(outbox.take().unwrap().bytes.len(), 16, "a frame alone");
        assert!(outbox.consume(Progress { frames: 6, bytes: 600 }).1);
    }

    #[test]
    fn acknowledgement_travels_with_frames_or_when_due() {
        let mut outbox = Outbox::new(Limits { frames: 8, bytes: 1 << 20 });
        outbox.connect(Progress::default(), Progress::default()).unwrap();
        outbox.consume(Progress { frames: 1, bytes: 16 });
        assert!(outbox.take().is_none());
        outbox.push(16, 0, 0, &[]);
        assert_eq!(outbox.take().unwrap().bytes.len(), 16 + 32, "a frame and an acknowledgement");
        assert!(outbox.consume(Progress { frames: 3, bytes: 48 }).1);
        assert_eq!(outbox.take().unwrap().bytes.len(), 32);
        assert!(outbox.take().is_none());
    }
}
