//! Buffer of a stream's answers, which wait for a client that reads slowly.
//!
//! - **In**: parts of an answer, as they are made.
//! - **Out**: the parts, in their order, to the connection of the client.
//! - **Invariant**: the buffer has at most [`MAX_BYTES`], or one part. All but one part are charged
//!   to the client. A client with *debt* for [`MAX_DEBT`] has lost its stream.
//!
//! A full buffer stops whatever makes the parts. While others wait for that, the client is in debt:
//! the time counts in full, and each [`BYTES_PER_SECOND`] that the client takes pay for a second.
//! A part pays when it is taken, before the client reads it, so its seconds are allowed on top.

use crate::error::{Error, Result};
use crate::net::quota::charge::Charge;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Maximum bytes of the parts that wait for a client.
const MAX_BYTES: u64 = 1 << 20;

/// Time for which a client may let others wait.
const MAX_DEBT: Duration = Duration::from_secs(5);

/// Bytes that a client must take in a second while others wait.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Returns the two ends of a buffer, whose parts are charged to `charge`.
pub(crate) fn stream_buffer<T>(charge: Charge) -> (StreamSender<T>, StreamReceiver<T>) {
    let (waiting, bytes, is_closed) = (VecDeque::new(), 0, false);
    let (debt, reading) = (Duration::ZERO, Duration::ZERO);
    let state = Mutex::new(State { waiting, bytes, debt, reading, charge, is_closed });
    let shared = Arc::new(Shared { state, arrival: Notify::new() });
    (StreamSender(shared.clone()), StreamReceiver(shared))
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    arrival: Notify,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<WaitingPart<T>>,
    /// Bytes of all that wait.
    bytes: u64,
    debt: Duration,
    /// Time that the client may take for the part that it has taken last.
    reading: Duration,
    charge: Charge,
    /// True once one of the ends has gone, or the client has lost its stream.
    is_closed: bool,
}

/// A part that waits for the client.
#[derive(Debug)]
struct WaitingPart<T> {
    part: T,
    bytes: u64,
    /// Bytes that are charged for it.
    charged: u64,
}

impl<T> State<T> {
    /// Adds a part, unless the buffer is full.
    fn push(&mut self, part: T, bytes: u64) -> Result<(), SendError<T>> {
        if self.is_closed {
            return Err(SendError::Closed);
        }
        let is_only = self.waiting.is_empty();
        if !is_only && self.bytes.saturating_add(bytes) > MAX_BYTES {
            return Err(SendError::Full(part));
        }
        let charged = match self.charge.add(bytes) {
            Ok(()) => bytes,
            Err(_) if is_only => 0,
            Err(_) => return Err(SendError::Full(part)),
        };
        self.bytes = self.bytes.saturating_add(bytes);
        self.waiting.push_back(WaitingPart { part, bytes, charged });
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        let WaitingPart { part, bytes, charged } = self.waiting.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.charge.remove(charged);
        let paid = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND as f64);
        self.debt = self.debt.saturating_sub(paid);
        self.reading = paid;
        Some(part)
    }

    /// Ends the stream, and drops all that wait.
    fn clear(&mut self) {
        self.is_closed = true;
        self.waiting.clear();
        self.bytes = 0;
        self.charge.clear();
    }
}

/// Reason for which a part was not taken.
#[derive(Debug)]
pub(crate) enum SendError<T> {
    /// The buffer is full. The part comes back.
    Full(T),
    /// No client waits for it.
    Closed,
}

/// End of a buffer where parts are made. The stream ends when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamSender<T>(Arc<Shared<T>>);

impl<T> StreamSender<T> {
    /// Adds a part, which counts as `bytes`. Never blocks.
    ///
    /// # Errors
    ///
    /// The buffer is full, or the client has gone.
    pub(crate) fn try_send(&self, part: T, bytes: u64) -> Result<(), SendError<T>> {
        self.0.state.lock().push(part, bytes)?;
        self.0.arrival.notify_one();
        Ok(())
    }

    /// Notes that the buffer was full for this time, and others waited. A client that is too slow
    /// loses its stream, and the parts that wait for it.
    ///
    /// # Errors
    ///
    /// `Exhausted` if it has.
    pub(crate) fn note_wait(&self, time: Duration) -> Result<()> {
        let mut state = self.0.state.lock();
        state.debt = state.debt.saturating_add(time);
        if state.debt < MAX_DEBT.saturating_add(state.reading) {
            return Ok(());
        }
        state.clear();
        drop(state);
        self.0.arrival.notify_one();
        let (seconds, kib) = (MAX_DEBT.as_secs(), BYTES_PER_SECOND >> 10);
        Err(Error::Exhausted(format!(
            "stream: a client must read at least {kib} KiB a second while other requests wait, got less for {seconds} s: its other parts are dropped"
        )))
    }
}

impl<T> Drop for StreamSender<T> {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.arrival.notify_one();
    }
}

/// Next event of a stream.
enum Next<T> {
    Part(T),
    End,
    Wait,
}

/// End of a buffer that a client's connection reads from.
#[derive(Debug)]
pub(crate) struct StreamReceiver<T>(Arc<Shared<T>>);

impl<T> StreamReceiver<T> {
    /// Waits for the next part; `None` after the last one.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        loop {
            match self.next() {
                Next::Part(part) => return Some(part),
                Next::End => return None,
                Next::Wait => self.0.arrival.notified().await,
            }
        }
    }

    /// Takes the next part, if it is there.
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        self.0.state.lock().pop()
    }

    fn next(&self) -> Next<T> {
        let mut state = self.0.state.lock();
        match state.pop() {
            Some(part) => Next::Part(part),
            None if state.is_closed => Next::End,
            None => Next::Wait,
        }
    }
}

impl<T> Drop for StreamReceiver<T> {
    fn drop(&mut self) {
        self.0.state.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::identity::peer::Peer;
    use crate::net::quota::charge::Memory;

    /// Bytes of the parts of these tests: four fill the buffer.
    const PART: u64 = MAX_BYTES / 4;

    fn memory(max: u64) -> Memory {
        Memory::new(max, max, max, max, max)
    }

    fn is_full(sender: &StreamSender<u32>, part: u32) -> bool {
        matches!(sender.try_send(part, PART), Err(SendError::Full(back)) if back == part)
    }

    #[tokio::test]
    async fn parts_are_charged_until_they_are_taken() {
        let memory = memory(u64::MAX);
        let (sender, mut receiver) = stream_buffer(memory.charge(&Peer::UNKNOWN));
        for part in 0..4 {
            sender.try_send(part, PART).unwrap();
        }
        assert!(is_full(&sender, 4));
        assert_eq!(memory.taken(), MAX_BYTES);
        assert_eq!(receiver.recv().await, Some(0));
        assert_eq!(memory.taken(), 3 * PART);
        sender.try_send(4, PART).unwrap();
        drop(sender);
        for part in 1..5 {
            assert_eq!(receiver.recv().await, Some(part), "also after the end");
        }
        assert_eq!((receiver.recv().await, memory.taken()), (None, 0));
    }

    #[tokio::test]
    async fn only_part_needs_no_quota() {
        let memory = memory(PART - 1);
        let (sender, mut receiver) = stream_buffer(memory.charge(&Peer::UNKNOWN));
        for part in 0..3 {
            sender.try_send(part, PART).unwrap();
            assert!(is_full(&sender, 7), "the next one is charged");
            assert_eq!((receiver.recv().await, memory.taken()), (Some(part), 0));
        }
    }

    #[tokio::test]
    async fn client_that_lets_others_wait_loses_its_stream() {
        let memory = memory(u64::MAX);
        let (sender, mut receiver) = stream_buffer(memory.charge(&Peer::UNKNOWN));
        for part in 0..4 {
            sender.try_send(part, PART).unwrap();
        }
        sender.note_wait(MAX_DEBT - Duration::from_millis(1)).unwrap();
        let said = sender.note_wait(Duration::from_millis(1)).unwrap_err().to_string();
        assert!(said.starts_with("stream: a client must read at least 64 KiB a second"), "{said}");
        assert_eq!((receiver.recv().await, memory.taken()), (None, 0));
        assert!(matches!(sender.try_send(4, PART), Err(SendError::Closed)));
    }

    /// A part of 90 bytes now and then does not keep the stream.
    #[tokio::test]
    async fn bytes_that_a_client_takes_pay_for_its_time() {
        let second = Duration::from_secs(1);
        let of = |bytes: u64| {
            let (sender, mut receiver) = stream_buffer(memory(u64::MAX).charge(&Peer::UNKNOWN));
            (0..60).all(|part: u32| {
                sender.try_send(part, bytes).unwrap();
                sender.note_wait(second).is_ok() && receiver.try_recv() == Some(part)
            })
        };
        assert!(of(BYTES_PER_SECOND), "it is as fast as it must be");
        assert!(of(3 * BYTES_PER_SECOND), "faster");
        assert!(!of(90), "and slower");
    }

    /// It takes the next part once it has read this one.
    #[test]
    fn large_part_has_the_time_that_it_takes() {
        let (second, memory) = (Duration::from_secs(1), memory(u64::MAX));
        let (sender, mut receiver) = stream_buffer(memory.charge(&Peer::UNKNOWN));
        sender.try_send(0_u32, 60 * BYTES_PER_SECOND).unwrap();
        assert_eq!(receiver.try_recv(), Some(0));
        sender.try_send(1, PART).unwrap();
        sender.note_wait(59 * second + MAX_DEBT).unwrap();
        assert!(sender.note_wait(second).is_err(), "and no more");
    }

    #[test]
    fn client_that_has_gone_takes_no_part() {
        let memory = memory(u64::MAX);
        let (sender, receiver) = stream_buffer(memory.charge(&Peer::UNKNOWN));
        sender.try_send(0, PART).unwrap();
        drop(receiver);
        assert!(matches!(sender.try_send(1, PART), Err(SendError::Closed)));
        assert_eq!(memory.taken(), 0);
    }
}
