//! Host memory of a session, of which the client has the bytes as well.
//!
//! *In*: writes of the client, and outputs of commands. *Out*: the bytes that a command's message
//! takes along. *Invariant*: the server has all that was written before a command reads it, and
//! the client has all outputs before it hears that their command has ended. So an inference is one
//! message each way: its input comes along, its output comes back, and reading it asks no server.
//!
//! Memory that other than copies may touch is *exposed*: from then on its bytes are the server's
//! alone, and each write and read is a message.

use parking_lot::{Mutex, MutexGuard};
use reef_core::{Result, words};
use std::ops::Range;
use std::sync::atomic::AtomicU32;

/// Bytes at the client.
#[derive(Debug)]
pub(crate) struct Mirror {
    words: Box<[AtomicU32]>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Bytes that the server does not have.
    fresh: Option<Range<usize>>,
    is_exposed: bool,
}

impl Mirror {
    /// Zeroed bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let words = (0..words::words_of(bytes)).map(|_| AtomicU32::new(0)).collect();
        Self { words, state: Mutex::default() }
    }

    /// Writes, unless the bytes are the server's alone.
    pub(super) fn write(&self, offset: usize, data: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.is_exposed {
            return false;
        }
        words::write(&self.words, offset, data);
        let (from, to) = (offset, offset + data.len());
        state.fresh = Some(match state.fresh.take() {
            Some(fresh) => fresh.start.min(from)..fresh.end.max(to),
            None => from..to,
        });
        true
    }

    /// Reads, unless the bytes are the server's alone.
    pub(super) fn read(&self, offset: usize, data: &mut [u8]) -> bool {
        if self.state.lock().is_exposed {
            return false;
        }
        words::read(&self.words, offset, data);
        true
    }

    /// Takes bytes of an output, which the server has as well.
    pub(super) fn receive(&self, offset: usize, bytes: &[u8]) {
        words::write(&self.words, offset, bytes);
    }

    pub(super) fn is_exposed(&self) -> bool {
        self.state.lock().is_exposed
    }

    /// Gives the bytes to the server for good: `send` sends those that it does not have.
    ///
    /// # Errors
    ///
    /// Of `send`.
    pub(super) fn expose(&self, send: impl FnOnce(Range<usize>) -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_exposed, true) {
            return Ok(());
        }
        // Under the lock, so that no write overtakes this one.
        state.fresh.take().map_or(Ok(()), send)
    }

    /// Holds back writes and other commands until the command that reads these bytes is sent.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes the bytes that a command is about to read and the server does not have.
    pub(super) fn take_fresh(state: &mut State, read: &Range<usize>) -> Option<Range<usize>> {
        let is_read = |fresh: &Range<usize>| fresh.start < read.end && read.start < fresh.end;
        state.fresh.take_if(|fresh| is_read(fresh))
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        words::read(&self.words, range.start, &mut bytes);
        bytes
    }
}
