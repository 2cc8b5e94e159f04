//! One end of a session, shared by all of its threads.

use super::handshake::{OP_END, OP_REPLY};
use super::inbox::{Inbox, Message, Sink, is_closed};
use super::outbox::{self, Growth, Outbox, OutboxState, Traffic};
use crate::credit::Limits;
use crate::error::{Error, Result, printable_bytes};
use crate::exchange::reader::Turns;
use crate::exchange::sync::lock;
use crate::exchange::writer::Writer;
use crate::frame::{Decoder, FLAG_REPLY};
use crate::journal::{Batch, Progress};
use crate::transport::link::{Control, Link, SendHalf};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Time that the end of a session waits for another thread's send.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Receiver of the peer's messages.
pub trait Handler: Send {
    /// Handles one message. Messages come in order, one at a time, each once. Called by the thread
    /// that reads, so it must not [call](Endpoint::call) the peer.
    ///
    /// # Errors
    ///
    /// An error ends the session. Its text is what the peer is told.
    fn handle(&mut self, message: &Message<'_>, endpoint: &Endpoint) -> Result<()>;

    /// Takes the end of the new session, by which other threads may push. Called once, before the
    /// first message.
    fn begun(&mut self, _endpoint: &Arc<Endpoint>) {}

    /// The connection is gone for good, or the session is over. No message follows.
    fn ended(&mut self, _why: &Error) {}
}

/// Front of the body of a reply.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyHeader {
    /// Number of the request.
    request: U64,
    /// 0, or the code of an error whose text follows.
    code: U32,
    reserved: U32,
}

/// One end of a session. All methods may be called from any thread.
pub struct Endpoint {
    writer: Writer<Outbox>,
    turns: Turns,
    inbox: Mutex<Inbox>,
    /// Used by the thread that holds the inbox; taken out when the session is over.
    handler: Mutex<Option<Box<dyn Handler>>>,
    /// Used by the thread that the writer lets send.
    sender: Mutex<Option<Box<dyn SendHalf>>>,
    control: Mutex<Option<Arc<dyn Control>>>,
    /// The other end of the last connection.
    peer: Mutex<String>,
    /// Requests whose callers wait, and replies that callers have not taken yet.
    replies: Mutex<HashMap<u64, Option<Result<Vec<u8>>>>>,
    end: OnceLock<Error>,
    /// This end cut the connection.
    is_cut: AtomicBool,
    limits: Limits,
    side: Side,
}

/// Function that makes a broken connection anew.
type Reconnect = dyn Fn(&Endpoint, &mut Inbox) -> Result<()> + Send + Sync;

/// Difference between the two ends.
pub(super) enum Side {
    /// Waits for credit, and makes a broken connection anew. The caller holds the inbox.
    Client(Box<Reconnect>),
    /// Never waits. `max_unread` is the upper bound of bytes that the peer leaves unread.
    Server { max_unread: u64 },
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(super) fn new(limits: Limits, side: Side, handler: Box<dyn Handler>) -> Self {
        Self {
            writer: Writer::new(Outbox::new(limits)),
            turns: Turns::default(),
            inbox: Mutex::new(Inbox::new()),
            handler: Mutex::new(Some(handler)),
            sender: Mutex::new(None),
            control: Mutex::new(None),
            peer: Mutex::default(),
            replies: Mutex::new(HashMap::new()),
            end: OnceLock::new(),
            is_cut: AtomicBool::new(false),
            limits,
            side,
        }
    }

    /// Sends a message, and returns the number of its frame. Doesn't wait for the peer, unless the
    /// credit is used up, or a client has a long message while more than 4 MiB wait to be sent.
    ///
    /// The body is the concatenation of `parts`, of at most [`Limits::message`] bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` for a longer body; why the session has ended.
    pub fn post(&self, op: u16, lane: u32, parts: &[&[u8]]) -> Result<u64> {
        let size = self.size(parts)?;
        self.with_credit(size, || {
            self.writer
                .push(|outbox| self.may_push(outbox, size).then(|| outbox.push(op, 0, lane, parts)))
        })
    }

    /// Sends a message as [`post`](Self::post) does, without waking the thread that sends it:
    /// [`flush`](Self::flush) follows, or a later message takes it along.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`post`](Self::post).
    pub fn push(&self, op: u16, lane: u32, parts: &[&[u8]]) -> Result<u64> {
        let size = self.size(parts)?;
        self.with_credit(size, || {
            self.writer
                .with(|outbox| self.may_push(outbox, size).then(|| outbox.push(op, 0, lane, parts)))
        })
    }

    /// Adds to the last message if it has this operation and lane, came by this function, and was
    /// not sent yet. Otherwise sends another one, as [`post`](Self::post) does. Returns whether
    /// the last one has grown.
    ///
    /// So a burst of small additions is one message, or a few if the sending thread is fast.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`post`](Self::post).
    pub fn grow(&self, op: u16, lane: u32, growth: &Growth<'_>) -> Result<bool> {
        let size = self.size(growth.fresh)?;
        self.with_credit(size, || {
            self.writer.push(|outbox| {
                if outbox.grow(op, lane, growth) {
                    return Some(true);
                }
                let is_free = self.may_push(outbox, size);
                is_free.then(|| outbox.push_open(op, lane, growth.fresh)).map(|_| false)
            })
        })
    }

    /// Sends what was pushed, on the caller's thread.
    pub fn flush(&self) {
        self.writer.flush(|batch| self.send(&batch));
    }

    /// Sends a message, and waits for the reply.
    ///
    /// # Errors
    ///
    /// `Remote` with the peer's code and text; as [`post`](Self::post).
    pub fn call(&self, op: u16, lane: u32, parts: &[&[u8]]) -> Result<Vec<u8>> {
        let size = self.size(parts)?;
        self.make_room(size);
        self.enter();
        let number = loop {
            let pushed = self.writer.with(|outbox| self.push_call(outbox, size, op, lane, parts));
            if let Some(number) = pushed {
                break number;
            }
            self.flush();
            self.turns.wait(|| self.credit_or_end(size), || self.read_turn());
            self.enter();
            if let Some(end) = self.end.get() {
                self.turns.wait(|| Some(()), || ());
                return Err(end.clone());
            }
        };
        self.reply_to(number)
    }

    /// Sends a message as [`post`](Self::post) does, and returns the number for
    /// [`finish_call`](Self::finish_call), which must follow: the reply is kept for it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`post`](Self::post).
    pub fn begin_call(&self, op: u16, lane: u32, parts: &[&[u8]]) -> Result<u64> {
        let size = self.size(parts)?;
        self.with_credit(size, || {
            self.writer.push(|outbox| self.push_call(outbox, size, op, lane, parts))
        })
    }

    /// Waits for the reply to a message of [`begin_call`](Self::begin_call), once.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`call`](Self::call).
    pub fn finish_call(&self, number: u64) -> Result<Vec<u8>> {
        self.enter();
        self.reply_to(number)
    }

    fn push_call(
        &self,
        outbox: &mut Outbox,
        size: Progress,
        op: u16,
        lane: u32,
        parts: &[&[u8]],
    ) -> Option<u64> {
        self.may_push(outbox, size).then(|| {
            let number = outbox.push(op, FLAG_REPLY, lane, parts);
            lock(&self.replies).insert(number, None);
            number
        })
    }

    /// Sends what was pushed and reads until the reply is there. The caller has entered.
    fn reply_to(&self, number: u64) -> Result<Vec<u8>> {
        self.flush();
        let reply = self.turns.wait(
            || {
                let mut replies = lock(&self.replies);
                let reply = replies.get_mut(&number).and_then(Option::take);
                reply.or_else(|| self.end.get().map(|end| Err(end.clone())))
            },
            || self.read_turn(),
        );
        lock(&self.replies).remove(&number);
        reply
    }

    /// Answers a message that wants a reply. Doesn't wake the thread that sends it:
    /// [`flush`](Self::flush) follows, as it does after each handled message.
    ///
    /// # Errors
    ///
    /// Why the session has ended.
    pub fn reply(&self, request: u64, result: Result<&[&[u8]], (u32, &str)>) -> Result<()> {
        let (code, text);
        let (code, parts): (u32, &[&[u8]]) = match result {
            Ok(parts) => (0, parts),
            Err(error) => {
                (code, text) = (error.0, [error.1.as_bytes()]);
                (code.max(1), &text)
            }
        };
        let (request, code) = (U64::new(request), U32::new(code));
        let header = ReplyHeader { request, code, reserved: U32::new(0) };
        let mut all: Vec<&[u8]> = Vec::with_capacity(parts.len() + 1);
        all.push(header.as_bytes());
        all.extend_from_slice(parts);
        self.push(OP_REPLY, 0, &all).map(|_| ())
    }

    /// Ends the session, and tells the peer why. What was pushed before is lost unless it was sent.
    /// Waits for a thread that is sending, for a second at most: it may wait for a peer that reads
    /// nothing.
    pub fn end(&self, why: Error) {
        let text = match &why {
            Error::Ended(text) => text.clone(),
            other => other.to_string(),
        };
        if self.end.set(why).is_ok() {
            self.writer.with(|outbox| outbox.push_last(OP_END, text.as_bytes()));
            self.writer.flush_within(END_TIMEOUT, |batch| self.send(&batch));
            self.cut();
        }
        self.writer.stop();
        self.turns.stop();
        self.wake();
    }

    /// Returns what has gone to and fro.
    pub fn traffic(&self) -> Traffic {
        self.writer.with(|outbox| outbox.traffic())
    }

    /// Returns the other end of the last connection, for people: see [`Link::peer`].
    pub fn peer(&self) -> String {
        lock(&self.peer).clone()
    }

    /// Returns why the session is over, if it is.
    pub fn ended(&self) -> Option<&Error> {
        self.end.get()
    }

    /// Breaks the connection. The session continues on another one.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.shut_down();
    }

    fn shut_down(&self) {
        if let Some(control) = &*lock(&self.control) {
            control.cut();
        }
    }

    fn check(&self) -> Result<()> {
        self.end.get().map_or(Ok(()), |end| Err(end.clone()))
    }

    fn size(&self, parts: &[&[u8]]) -> Result<Progress> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let (size, max) = (outbox::size(len), self.limits.message());
        if size.bytes > max && matches!(self.side, Side::Client(_)) {
            return Err(Error::Invalid(format!(
                "message: must have at most {max} bytes, got {len}"
            )));
        }
        Ok(size)
    }

    /// True if a message may be pushed now. A peer that leaves too much unread ends the session.
    fn may_push(&self, outbox: &Outbox, size: Progress) -> bool {
        match self.side {
            Side::Client(_) => self.end.get().is_some() || outbox.has_credit(size),
            Side::Server { max_unread } => {
                let (frames, bytes) = (outbox.outstanding().0, outbox.kept_bytes());
                if bytes > max_unread {
                    let text = format!(
                        "the client leaves {bytes} bytes in {frames} frames unread, at most {max_unread}"
                    );
                    if self.end.set(Error::Ended(text)).is_ok() {
                        self.cut();
                    }
                }
                true
            }
        }
    }

    /// A client that sends payloads faster than they go sends them itself before it adds one.
    fn make_room(&self, size: Progress) {
        if size.frames > 1 && matches!(self.side, Side::Client(_)) {
            self.writer.make_room(Outbox::has_room, |batch| self.send(&batch));
        }
    }

    /// Pushes as soon as there is credit, and returns what `push` does then.
    fn with_credit<T>(&self, size: Progress, mut push: impl FnMut() -> Option<T>) -> Result<T> {
        self.make_room(size);
        loop {
            match push() {
                Some(pushed) => return self.check().map(|()| pushed),
                None => self.await_credit(size)?,
            }
        }
    }

    fn await_credit(&self, size: Progress) -> Result<()> {
        self.enter();
        self.flush();
        self.turns.wait(|| self.credit_or_end(size), || self.read_turn());
        self.check()
    }

    fn credit_or_end(&self, size: Progress) -> Option<()> {
        let has_credit = self.writer.with(|outbox| outbox.has_credit(size));
        (has_credit || self.end.get().is_some()).then_some(())
    }

    fn enter(&self) {
        self.turns.enter(|| self.wake());
    }

    fn wake(&self) {
        if let Some(control) = &*lock(&self.control) {
            control.wake();
        }
    }

    /// Reads once, as the thread whose turn it is.
    pub(super) fn read_turn(&self) {
        let mut inbox = lock(&self.inbox);
        let result = inbox.read(self);
        self.settle(&mut inbox, result);
    }

    /// Reads once, or returns when another thread wants to.
    fn read_interruptibly(&self) {
        let mut inbox = lock(&self.inbox);
        match inbox.wait(None) {
            Ok(false) => {}
            Ok(true) => {
                let result = inbox.read(self);
                self.settle(&mut inbox, result);
            }
            Err(error) => self.settle(&mut inbox, Err(error)),
        }
    }

    /// Makes a broken connection anew, or ends the session.
    fn settle(&self, inbox: &mut Inbox, result: Result<()>) {
        let result = match (result, &self.side) {
            (Err(Error::Broken(why)), Side::Client(reconnect)) if self.end.get().is_none() => {
                self.disconnect(inbox);
                reconnect(self, inbox).map_err(|e| match e {
                    Error::Broken(last) | Error::Absent(last) => {
                        Error::Ended(format!("{why}; then {last}"))
                    }
                    other => other,
                })
            }
            (result, _) => result,
        };
        if let Err(error) = result {
            self.end(error);
        }
    }

    /// Body of the client's background thread: reads while no caller does. `pause` follows calls.
    pub(super) fn run_reader(&self, pause: impl FnMut()) {
        self.turns.run(|| self.read_interruptibly(), pause);
    }

    /// Body of the thread that sends what others push.
    pub(super) fn run_writer(&self) {
        self.writer.run(|batch| self.send(&batch));
    }

    /// Body of a server's session: reads and answers until the connection breaks or the session
    /// ends, and returns why.
    pub(super) fn serve(&self) -> Error {
        loop {
            let result = lock(&self.inbox).read(self);
            self.flush();
            if let Some(end) = self.end.get() {
                return end.clone();
            }
            if let Err(error) = result {
                return error;
            }
        }
    }

    /// Returns whether the peer closed the connection, as the system does for a process that has
    /// ended.
    pub(super) fn is_closed_by_peer(&self) -> bool {
        !self.is_cut.load(Ordering::Relaxed) && lock(&self.inbox).is_closed()
    }

    /// Gives up the connection; what is pushed waits for the next one.
    pub(super) fn disconnect(&self, inbox: &mut Inbox) {
        self.cut();
        inbox.disconnect();
        self.writer.with(Outbox::disconnect);
    }

    /// Refuses what a peer says to have received if it has acknowledged more already.
    pub(super) fn check_received(&self, received: Progress) -> Result<()> {
        self.writer.with(|outbox| outbox.check_received(received))
    }

    /// Continues on a fresh link, whose handshake told `received` by the peer and `told` to it.
    pub(super) fn connect(
        &self,
        inbox: &mut Inbox,
        link: Link,
        decoder: Decoder,
        received: Progress,
        told: Progress,
    ) -> Result<()> {
        let Link { send, receive, control, peer, .. } = link;
        *lock(&self.peer) = peer;
        self.writer.run_alone(|| {
            *lock(&self.control) = Some(control);
            self.is_cut.store(false, Ordering::Relaxed);
            *lock(&self.sender) = Some(send);
            self.writer.with(|outbox| outbox.connect(received, told))
        })?;
        inbox.connect(receive, decoder);
        Ok(())
    }

    /// Returns the state of what it has sent.
    pub(super) fn outbox_state(&self) -> OutboxState {
        self.writer.with(|outbox| outbox.state())
    }

    /// Goes on with the state of another end.
    pub(super) fn restore_outbox(&self, state: OutboxState) {
        self.writer.with(|outbox| outbox.restore(state));
    }

    pub(super) fn inbox(&self) -> &Mutex<Inbox> {
        &self.inbox
    }

    fn send(&self, batch: &Batch) {
        let mut sender = lock(&self.sender);
        let Some(half) = &mut *sender else { return };
        if let Err(error) = half.send(&batch.bytes) {
            *sender = None;
            self.writer.with(Outbox::disconnect);
            // The reader sees it.
            if is_closed(&error) { self.shut_down() } else { self.cut() }
        }
    }

    /// Tells the handler that the session has begun.
    pub(super) fn begin(self: &Arc<Self>) {
        if let Some(handler) = &mut *lock(&self.handler) {
            handler.begun(self);
        }
    }

    /// Tells the handler that the session is over, once.
    pub(super) fn close(&self) {
        lock(&self.inbox).disconnect();
        let handler = lock(&self.handler).take();
        if let (Some(mut handler), Some(end)) = (handler, self.end.get()) {
            handler.ended(end);
        }
    }
}

impl Sink for Endpoint {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn acknowledge(&self, progress: Progress) -> Result<()> {
        self.writer.with(|outbox| outbox.acknowledge(progress))
    }

    fn consume(&self, consumed: Progress) -> Progress {
        let (told, is_due) = self.writer.with(|outbox| outbox.consume(consumed));
        if is_due {
            self.writer.push(|_| ());
        }
        told
    }

    fn deliver(&self, body: &[u8]) -> Result<()> {
        let (header, payload) = ReplyHeader::ref_from_prefix(body)
            .map_err(|_| Error::protocol("reply: it is too short"))?;
        let result = match header.code.get() {
            0 => Ok(payload.to_vec()),
            code => Err(Error::Remote { code, text: printable_bytes(payload) }),
        };
        match lock(&self.replies).get_mut(&header.request.get()) {
            Some(slot @ None) => *slot = Some(result),
            _ => return Err(Error::protocol("reply: there is no such request")),
        }
        Ok(())
    }

    fn handle(&self, message: &Message<'_>) -> Result<()> {
        match &mut *lock(&self.handler) {
            Some(handler) => handler.handle(message, self),
            None => Err(Error::not_connected()),
        }
    }
}

/// Time for which a client's background thread leaves the reading to callers after a call.
pub(super) const CALLS_INTERVAL: Duration = Duration::from_micros(500);
