//! Words of a message's body.

use reef_remote_calls::split_padded;
use reef_wire::{Error, Result};

/// Rest of a body.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// Takes bytes from the front.
    ///
    /// # Errors
    ///
    /// `Protocol` if the body is shorter.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let too_short = || Error::Protocol(format!("body: must have {len} more bytes"));
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes a word.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`take`](Self::take).
    pub(crate) fn word(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("it has 8 bytes")))
    }

    /// Takes words.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`take`](Self::take).
    pub(crate) fn words(&mut self, count: u32) -> Result<Vec<u64>> {
        (0..count).map(|_| self.word()).collect()
    }

    /// Takes a length and bytes of that length, up to a multiple of eight.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`take`](Self::take).
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.word()?;
        let too_long = || Error::Protocol(format!("body: {len} bytes are too many"));
        let (bytes, rest) = split_padded(self.0, len).ok_or_else(too_long)?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// Copies bytes into words, with zeros after them.
pub(crate) fn words(bytes: &[u8]) -> Box<[u64]> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).chain([0]).collect()
}
