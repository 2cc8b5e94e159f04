//! Frames: what one end sends, in order.
//!
//! ```text
//! len u32 │ op u16 │ flags u16 │ seq u32 │ lane u32 │ body │ zeros up to a multiple of 8 bytes
//! ```
//!
//! Numbers are little-endian. `seq` is the low half of the sender's count of frames. `len` is
//! checked before memory is taken for a body, so a peer cannot make this end allocate more than
//! [`MAX_BODY_LEN`] for a frame.

use crate::error::{Error, Result};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a frame before its body.
pub(crate) const HEADER_LEN: usize = 16;

/// Maximum number of bytes of a body: a chunk of a payload, or a cold message.
pub const MAX_BODY_LEN: usize = (1 << 20) + 64;

/// Flag of a frame that is not counted: acknowledgements, and what is said before a session.
pub(crate) const FLAG_UNCOUNTED: u16 = 1;
/// Flag of a frame whose sender waits for a reply.
pub(crate) const FLAG_REPLY: u16 = 2;
/// Flag of a frame whose body came before it, in chunks. Its own body says which.
pub(crate) const FLAG_PAYLOAD: u16 = 4;

const KNOWN_FLAGS: u16 = FLAG_UNCOUNTED | FLAG_REPLY | FLAG_PAYLOAD;

/// First operation that users of this crate may define. Lower ones belong to the session.
pub const FIRST_OP: u16 = 16;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    len: U32,
    op: U16,
    flags: U16,
    seq: U32,
    lane: U32,
}

/// One frame, as it lies in the buffer that it was read into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Operation.
    pub op: u16,
    /// `FLAG_…`.
    pub flags: u16,
    /// Low half of the number of the frame in its direction of the session.
    pub seq: u32,
    /// Queue that it belongs to; the operation says what that means.
    pub lane: u32,
    /// Content.
    pub body: &'a [u8],
}

/// Appends a frame whose body is the concatenation of `parts`.
///
/// # Panics
///
/// If the body is longer than [`MAX_BODY_LEN`].
pub(crate) fn append(to: &mut Vec<u8>, op: u16, flags: u16, seq: u32, lane: u32, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    assert!(len <= MAX_BODY_LEN, "{len} bytes of body, at most {MAX_BODY_LEN}");
    let (op, flags) = (U16::new(op), U16::new(flags));
    let header =
        Header { len: U32::new(len as u32), op, flags, seq: U32::new(seq), lane: U32::new(lane) };
    to.reserve(frame_len(len));
    to.extend_from_slice(header.as_bytes());
    parts.iter().for_each(|part| to.extend_from_slice(part));
    to.resize(to.len() + len.next_multiple_of(8) - len, 0);
}

/// Lets the last frame of `to`, which begins at `at`, grow: `replace` stands in place of as many
/// last bytes of its body, and `more` follows. The caller has checked the lengths.
pub(crate) fn grow(to: &mut Vec<u8>, at: usize, replace: &[u8], more: &[&[u8]]) {
    let begin = at + HEADER_LEN;
    to.truncate(begin + body_len(to, at) - replace.len());
    to.extend_from_slice(replace);
    more.iter().for_each(|part| to.extend_from_slice(part));
    let len = to.len() - begin;
    to.resize(begin + len.next_multiple_of(8), 0);
    to[at..at + 4].copy_from_slice(&(len as u32).to_le_bytes());
}

/// Returns the bytes of the body of the frame that begins at `at`.
pub(crate) fn body_len(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize
}

/// Returns the bytes that a frame with `body_len` bytes of body takes.
pub(crate) fn frame_len(body_len: usize) -> usize {
    HEADER_LEN + body_len.next_multiple_of(8)
}

/// Bytes that have been received, cut into frames.
///
/// Its buffer grows to one frame of the largest size, and no further.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

/// Bytes of the buffer at first. Most frames are smaller than 200 bytes.
const FIRST_SIZE: usize = 64 << 10;

impl Default for Decoder {
    fn default() -> Self {
        Self { bytes: vec![0; FIRST_SIZE], begin: 0, end: 0 }
    }
}

impl Decoder {
    /// Returns free space for received bytes, at least one. [`filled`](Self::filled) follows.
    pub fn space(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
        let needed = self.needed();
        if self.bytes.len() - self.begin < needed || self.end == self.bytes.len() {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Bytes of the frame at the front, as far as it is known. An invalid length counts as none:
    /// [`next`](Self::next) refuses it.
    fn needed(&self) -> usize {
        let known = match Header::read_from_prefix(&self.bytes[self.begin..self.end]) {
            Ok((header, _)) if header.len.get() as usize <= MAX_BODY_LEN => {
                frame_len(header.len.get() as usize)
            }
            _ => HEADER_LEN,
        };
        known.max(self.end - self.begin + 1)
    }

    /// Counts `bytes` of the space as received.
    ///
    /// # Panics
    ///
    /// If there was not so much space.
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes.len() - self.end, "{bytes} bytes do not fit");
        self.end += bytes;
    }

    /// Returns the incomplete frame at the front with what has come of its body, and the bytes that
    /// its body must have, once its header is there.
    pub(crate) fn partial(&self) -> Option<(Frame<'_>, usize)> {
        let bytes = &self.bytes[self.begin..self.end];
        let (header, body) = Header::read_from_prefix(bytes).ok()?;
        let (op, flags) = (header.op.get(), header.flags.get());
        let (seq, lane) = (header.seq.get(), header.lane.get());
        Some((Frame { op, flags, seq, lane, body }, header.len.get() as usize))
    }

    /// Forgets an incomplete frame: the connection that it came by is gone.
    pub fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }

    /// Returns whether there is no byte that [`next`](Self::next) has not returned.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Returns the next whole frame, or `None` if more bytes must come first.
    ///
    /// # Errors
    ///
    /// `Protocol` for a length, a flag or padding that cannot be.
    #[allow(clippy::should_implement_trait)] // it lends from itself
    pub fn next(&mut self) -> Result<Option<Frame<'_>>> {
        let bytes = &self.bytes[self.begin..self.end];
        let Ok((header, rest)) = Header::read_from_prefix(bytes) else { return Ok(None) };
        let len = header.len.get() as usize;
        if len > MAX_BODY_LEN {
            let text = format!("body of a frame: must be at most {MAX_BODY_LEN} bytes, got {len}");
            return Err(Error::Protocol(text));
        }
        let flags = header.flags.get();
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Error::Protocol(format!("flags of a frame: cannot be {flags:#x}")));
        }
        let padded = len.next_multiple_of(8);
        let Some((body, _)) = rest.split_at_checked(padded) else { return Ok(None) };
        let (body, padding) = body.split_at(len);
        if padding.iter().any(|&byte| byte != 0) {
            return Err(Error::protocol("padding of a frame: must be zeros"));
        }
        self.begin += HEADER_LEN + padded;
        let (op, seq, lane) = (header.op.get(), header.seq.get(), header.lane.get());
        Ok(Some(Frame { op, flags, seq, lane, body }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8], piece: usize) -> Result<Vec<(u16, u32, Vec<u8>)>> {
        let mut decoder = Decoder::default();
        let mut frames = Vec::new();
        for piece in bytes.chunks(piece.max(1)) {
            let mut left = piece;
            while !left.is_empty() {
                let space = decoder.space();
                let count = space.len().min(left.len());
                space[..count].copy_from_slice(&left[..count]);
                decoder.filled(count);
                left = &left[count..];
                while let Some(frame) = decoder.next()? {
                    frames.push((frame.op, frame.seq, frame.body.to_vec()));
                }
            }
        }
        Ok(frames)
    }

    #[test]
    fn frame_takes_its_header_and_a_padded_body() {
        let mut bytes = Vec::new();
        append(&mut bytes, 0x0201, FLAG_REPLY, 0x06050403, 0x0a090807, &[b"ab", b"c"]);
        let header = [3, 0, 0, 0, 1, 2, 2, 0, 3, 4, 5, 6, 7, 8, 9, 10];
        assert_eq!(bytes, [&header[..], b"abc", &[0; 5]].concat());
    }

    #[test]
    fn hostile_lengths_flags_and_padding_are_refused() {
        let mut good = Vec::new();
        append(&mut good, 16, 0, 1, 0, &[b"abc"]);
        for (at, value, what) in [(3, 0xff, "at most"), (7, 0x80, "flags"), (23, 1, "padding")] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let said = decode(&bytes, 64).unwrap_err().to_string();
            assert!(said.contains(what), "{said}");
        }
        let mut decoder = Decoder::default();
        let hostile = u32::MAX.to_le_bytes();
        for _ in 0..4 {
            decoder.space()[..4].copy_from_slice(&hostile);
            decoder.filled(4);
        }
        assert!(decoder.next().is_err());
        assert_eq!(decoder.bytes.len(), FIRST_SIZE, "no memory is taken for what is refused");
    }

    #[test]
    fn largest_body_is_read_and_one_more_byte_panics() {
        let mut bytes = Vec::new();
        append(&mut bytes, 16, 0, 0, 0, &[&vec![7; MAX_BODY_LEN]]);
        append(&mut bytes, 17, 0, 1, 0, &[b"x"]);
        let frames = decode(&bytes, 100_000).unwrap();
        assert_eq!((frames[0].2.len(), frames[1].0), (MAX_BODY_LEN, 17));
        let longer = vec![0; MAX_BODY_LEN + 1];
        let append = || append(&mut Vec::new(), 16, 0, 0, 0, &[&longer]);
        assert!(std::panic::catch_unwind(append).is_err());
    }

    proptest! {
        #[test]
        fn frames_round_trip_in_any_pieces(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            piece in 1usize..400,
        ) {
            let mut bytes = Vec::new();
            for (seq, body) in bodies.iter().enumerate() {
                append(&mut bytes, 16 + seq as u16, 0, seq as u32, 0, &[body]);
            }
            let frames = decode(&bytes, piece).unwrap();
            let expected: Vec<_> = bodies.into_iter().enumerate()
                .map(|(seq, body)| (16 + seq as u16, seq as u32, body)).collect();
            prop_assert_eq!(frames, expected);
        }
    }
}
