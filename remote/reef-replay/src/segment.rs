//! Operations up to a wait, as bytes.
//!
//! In a definition each operation is `kind u16 │ shape u16 │ words u32 │ payload u32`, its lengths,
//! and then shape and words. Numbers are little-endian. Payloads are not part of a definition.

use crate::advance::Reader;
use crate::error::Malformed;
use crate::fingerprint::{self, word};
use crate::op::Op;
use std::ops::Range;

/// Maximum number of operations of a segment. A longer sequence is several segments.
pub const MAX_OPS: usize = 512;

/// Maximum number of bytes of a segment, without payloads.
pub const MAX_LEN: usize = 4 << 20;

/// Maximum number of bytes of one payload.
const MAX_PAYLOAD_LEN: usize = 32 << 20;

/// Bytes of a frame around its body.
pub(crate) const FRAME_LEN: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: u16,
    begin: usize,
    words: usize,
    end: usize,
    payload_len: usize,
    /// Hash of all operations up to this one.
    hash: u64,
}

/// Sequence of operations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segment {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Segment {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all operations, without payloads.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }

    /// Returns whether one more operation is within the bounds.
    pub(crate) fn has_room(&self, op: &Op<'_>) -> bool {
        let len = self.bytes.len() + op.shape.len() + op.words.len();
        self.len() < MAX_OPS && len <= MAX_LEN
    }

    /// Returns whether an operation can be part of a segment.
    pub(crate) fn takes(op: &Op<'_>) -> bool {
        op.shape.len() <= usize::from(u16::MAX)
            && op.words.len() <= MAX_LEN / 2
            && op.payload.len() <= MAX_PAYLOAD_LEN
    }

    /// Adds an operation.
    pub(crate) fn push(&mut self, op: &Op<'_>) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(op.shape);
        let words = self.bytes.len();
        self.bytes.extend_from_slice(op.words);
        let (end, hash) = (self.bytes.len(), fingerprint::extend(self.hash(self.len()), op));
        let (kind, payload_len) = (op.kind, op.payload.len());
        self.entries.push(Entry { kind, begin, words, end, payload_len, hash });
    }

    /// Makes this the first `len` operations of another segment.
    pub(crate) fn copy_front(&mut self, of: &Self, len: usize) {
        self.clear();
        self.entries.extend_from_slice(&of.entries[..len]);
        self.bytes.extend_from_slice(&of.bytes[..self.entries.last().map_or(0, |last| last.end)]);
    }

    /// Hash of the first `len` operations.
    pub(crate) fn hash(&self, len: usize) -> u64 {
        len.checked_sub(1).map_or(fingerprint::NONE, |last| self.entries[last].hash)
    }

    /// Returns whether the operation at this position differs in its words alone.
    pub(crate) fn matches(&self, at: usize, op: &Op<'_>) -> bool {
        self.entries.get(at).is_some_and(|entry| {
            entry.kind == op.kind
                && entry.payload_len == op.payload.len()
                && entry.end - entry.words == op.words.len()
                && self.bytes[entry.begin..entry.words] == *op.shape
        })
    }

    pub(crate) fn words(&self, at: usize) -> &[u8] {
        let entry = self.entries[at];
        &self.bytes[entry.words..entry.end]
    }

    /// Calls with each word that differs: its index, what it was and what it is. Keeps what it is.
    pub(crate) fn change(&mut self, at: usize, words: &[u8], mut each: impl FnMut(u64, u64, u64)) {
        let entry = self.entries[at];
        let (kept, short) = self.bytes[entry.words..entry.end].as_chunks_mut::<8>();
        let (words, short_words) = words.as_chunks::<8>();
        for (index, (was, is)) in kept.iter_mut().zip(words).enumerate() {
            if was != is {
                each(index as u64, u64::from_le_bytes(*was), u64::from_le_bytes(*is));
                *was = *is;
            }
        }
        if short != short_words {
            each(kept.len() as u64, word(short), word(short_words));
            short.copy_from_slice(short_words);
        }
    }

    /// Number of words that differ.
    pub(crate) fn count_changes(&self, at: usize, words: &[u8]) -> usize {
        let (kept, short) = self.words(at).as_chunks::<8>();
        let (words, short_words) = words.as_chunks::<8>();
        let whole = kept.iter().zip(words).filter(|(was, is)| was != is).count();
        whole + usize::from(short != short_words)
    }

    /// Returns a word of an operation, and the place of its bytes. `None`: it has fewer.
    pub(crate) fn word(&self, at: usize, index: u64) -> Option<(u64, Range<usize>)> {
        let entry = self.entries[at];
        let begin = usize::try_from(index).ok()?.checked_mul(8)?.checked_add(entry.words)?;
        let place = begin..entry.end.min(begin.checked_add(8)?);
        (begin < entry.end).then(|| (word(&self.bytes[place.clone()]), place))
    }

    /// Sets a word.
    pub(crate) fn set(&mut self, place: Range<usize>, value: u64) {
        let len = place.len();
        self.bytes[place].copy_from_slice(&value.to_le_bytes()[..len]);
    }

    /// Returns kind, shape with words, and length of the payload.
    pub(crate) fn get(&self, at: usize) -> (u16, &[u8], usize) {
        let entry = self.entries[at];
        (entry.kind, &self.bytes[entry.begin..entry.end], entry.payload_len)
    }

    /// Bytes that an operation takes as a frame of its own, without its payload.
    pub(crate) fn frame_len(&self, at: usize) -> usize {
        let entry = self.entries[at];
        FRAME_LEN + (entry.end - entry.begin).next_multiple_of(8)
    }

    /// Returns the definition.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(self.bytes.len() + 12 * self.len());
        for entry in &self.entries {
            let (shape, words) = (entry.words - entry.begin, entry.end - entry.words);
            to.extend_from_slice(&entry.kind.to_le_bytes());
            to.extend_from_slice(&(shape as u16).to_le_bytes());
            to.extend_from_slice(&(words as u32).to_le_bytes());
            to.extend_from_slice(&(entry.payload_len as u32).to_le_bytes());
            to.extend_from_slice(&self.bytes[entry.begin..entry.end]);
        }
        to
    }

    /// Reads a definition.
    ///
    /// # Errors
    ///
    /// It is cut, empty, or outside of the bounds.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let (mut segment, mut rest) = (Self::default(), Reader(bytes));
        while !rest.is_empty() {
            let (kind, shape) = (rest.short()?, usize::from(rest.short()?));
            let (words, payload_len) = (rest.long()? as usize, rest.long()? as usize);
            let (shape, words) = (rest.take(shape)?, rest.take(words)?);
            let op = Op { kind, shape, words, payload: &[] };
            if !segment.has_room(&op) || payload_len > MAX_PAYLOAD_LEN {
                let text = format!(
                    "template: must have at most {MAX_OPS} operations of {MAX_LEN} bytes, payloads of {MAX_PAYLOAD_LEN}"
                );
                return Err(Malformed(text));
            }
            segment.push(&op);
            segment.entries.last_mut().expect("one was added").payload_len = payload_len;
        }
        if segment.entries.is_empty() {
            return Err(Malformed::new("template: must have an operation"));
        }
        Ok(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_round_trips_and_hostile_ones_are_refused() {
        let mut segment = Segment::default();
        segment.push(&Op { kind: 3, shape: b"shape", words: b"some words", payload: b"xyz" });
        segment.push(&Op { kind: 4, shape: b"", words: b"", payload: b"" });
        let bytes = segment.write();
        let read = Segment::read(&bytes).unwrap();
        assert_eq!(read.get(0), (3, &b"shapesome words"[..], 3));
        assert_eq!((read.get(1), read.len()), ((4, &b""[..], 0), 2));
        for cut in (0..bytes.len()).filter(|cut| *cut != bytes.len() - 12) {
            assert!(Segment::read(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut long = bytes.clone();
        long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Segment::read(&long).is_err());
        let mut long = bytes;
        long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Segment::read(&long).unwrap_err().to_string().contains("payloads"));
        assert!(Segment::read(&[0; 12 * MAX_OPS]).is_ok());
        assert!(Segment::read(&[0; 12 * (MAX_OPS + 1)]).is_err());
    }

    #[test]
    fn last_word_may_be_short() {
        let mut segment = Segment::default();
        segment.push(&Op { kind: 1, shape: b"s", words: b"12345678ab", payload: b"" });
        let (value, place) = segment.word(0, 1).unwrap();
        assert_eq!((value, place.len()), (u64::from(u16::from_le_bytes(*b"ab")), 2));
        segment.set(place, u64::from(u16::from_le_bytes(*b"cd")));
        assert_eq!(segment.words(0), b"12345678cd");
        for index in [2, u64::MAX, 1 << 61] {
            assert_eq!(segment.word(0, index), None, "{index}");
        }
    }
}
