//! Payloads: bodies that are longer than a frame should be, in chunks.
//!
//! The sender pushes the chunks and then the frame that needs them, so the receiver never asks. A
//! chunk says where it belongs, and has a checksum. Memory for a payload is taken as its chunks
//! arrive, not as its length is announced.

use crate::error::{Error, Result};
use std::collections::{HashMap, VecDeque};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes up to which a payload travels in the frame itself.
pub(crate) const MAX_INLINE_LEN: usize = 64 << 10;

/// Bytes of a chunk; the last one may be shorter.
pub(crate) const CHUNK_LEN: usize = 1 << 20;

/// Front of the body of a chunk.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ChunkHeader {
    /// Name of the payload, the same in all of its chunks.
    pub(crate) ticket: U64,
    /// First byte of the chunk in the payload.
    pub(crate) offset: U64,
    /// Bytes of the chunk.
    pub(crate) len: U32,
    /// CRC-32 (IEEE 802.3) of these bytes.
    pub(crate) crc: U32,
}

/// Body of a frame whose content came before it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PayloadRef {
    pub(crate) ticket: U64,
    /// Bytes of the whole payload.
    pub(crate) len: U64,
}

/// Cuts a payload, which is the concatenation of `parts`, into chunks. Each has its header, and the
/// slices that it is made of.
pub(crate) fn chunks<'a>(
    ticket: u64,
    parts: &[&'a [u8]],
) -> impl Iterator<Item = (ChunkHeader, Vec<&'a [u8]>)> {
    let mut parts: VecDeque<&[u8]> = parts.iter().copied().filter(|p| !p.is_empty()).collect();
    let mut offset = 0;
    std::iter::from_fn(move || {
        let (mut slices, mut len, mut crc) = (Vec::new(), 0, crc32fast::Hasher::new());
        while len < CHUNK_LEN
            && let Some(part) = parts.pop_front()
        {
            let (slice, rest) = part.split_at(part.len().min(CHUNK_LEN - len));
            if !rest.is_empty() {
                parts.push_front(rest);
            }
            crc.update(slice);
            len += slice.len();
            slices.push(slice);
        }
        let header = ChunkHeader {
            ticket: U64::new(ticket),
            offset: U64::new(offset),
            len: U32::new(len as u32),
            crc: U32::new(crc.finalize()),
        };
        offset += len as u64;
        (len > 0).then_some((header, slices))
    })
}

/// Returns whether the rest of a chunk may be received where it belongs, so that it is not copied:
/// its header has come, and no padding follows its body of `body_len` bytes.
pub(crate) fn may_open(front: &[u8], body_len: usize) -> bool {
    front.len() >= size_of::<ChunkHeader>() && body_len.is_multiple_of(8)
}

/// Payloads that are arriving.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    parts: HashMap<u64, Payload>,
    /// Chunk of which a part has come.
    open: Option<OpenChunk>,
    /// Memory of a payload that was handled, for the next one.
    spare: Vec<u8>,
    /// Frames without payload that came since.
    others: u32,
}

/// Received part of a payload.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    /// Memory for it, with contents of earlier ones behind `len`: to clear it takes as long as to
    /// receive it.
    bytes: Vec<u8>,
    len: usize,
}

impl Payload {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[derive(Debug)]
struct OpenChunk {
    ticket: u64,
    /// Bytes of the chunk, and those that are there.
    len: usize,
    got: usize,
    /// Checksum that it must have, and that of the bytes that are there.
    crc: u32,
    hasher: crc32fast::Hasher,
}

/// Capacity above which the memory of a payload is not kept for the next one, and the number of
/// frames without payload after which it is given back.
const MAX_SPARE_LEN: usize = 8 << 20;
const MAX_OTHERS: u32 = 256;

/// Upper bound of payloads that arrive at a time. Ours send one after the other.
pub(crate) const MAX_PAYLOADS: usize = 64;

impl Assembly {
    /// Begins a chunk, of a payload of at most `max` bytes. `front` is what has come of its body.
    /// Returns whether it is all there; otherwise the rest goes into [`space`](Self::space).
    ///
    /// # Errors
    ///
    /// `Protocol` for a chunk that is not the next one of its payload, too long or damaged, and for
    /// a body that must have `body_len` bytes and has another length by its header.
    pub(crate) fn begin(&mut self, front: &[u8], body_len: usize, max: u64) -> Result<bool> {
        let (header, bytes) = ChunkHeader::ref_from_prefix(front)
            .map_err(|_| Error::Protocol(format!("chunk: cannot have {} bytes", front.len())))?;
        let (ticket, offset) = (header.ticket.get(), header.offset.get());
        let len = header.len.get() as usize;
        let got = body_len - size_of::<ChunkHeader>();
        if got != len || len > CHUNK_LEN {
            return Err(Error::Protocol(format!("chunk: must have {len} bytes, got {got}")));
        }
        if !self.parts.contains_key(&ticket) && self.parts.len() >= MAX_PAYLOADS {
            return Err(Error::Protocol(format!("payloads: at most {MAX_PAYLOADS} at a time")));
        }
        let payload = self
            .parts
            .entry(ticket)
            .or_insert_with(|| Payload { bytes: std::mem::take(&mut self.spare), len: 0 });
        if offset != payload.len as u64 {
            let text = format!("chunk: its offset must be {}, got {offset}", payload.len);
            return Err(Error::Protocol(text));
        }
        if offset + len as u64 > max {
            return Err(Error::Protocol(format!("payload: must have at most {max} bytes")));
        }
        if payload.bytes.len() < payload.len + len {
            payload.bytes.resize(payload.len + len, 0);
        }
        let (crc, hasher) = (header.crc.get(), crc32fast::Hasher::new());
        self.open = Some(OpenChunk { ticket, len, got: 0, crc, hasher });
        let space = self.space().expect("the chunk was just begun");
        space[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len())
    }

    /// Returns where the rest of the open chunk belongs, if there is one.
    pub(crate) fn space(&mut self) -> Option<&mut [u8]> {
        let open = self.open.as_ref()?;
        let payload = self.parts.get_mut(&open.ticket)?;
        Some(&mut payload.bytes[payload.len + open.got..payload.len + open.len])
    }

    /// Counts `count` bytes of the space as received. Returns whether the chunk is all there.
    ///
    /// # Errors
    ///
    /// `Protocol` for a damaged chunk.
    pub(crate) fn filled(&mut self, count: usize) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(true) };
        let payload = self.parts.get_mut(&open.ticket).expect("its chunk is open");
        let at = payload.len + open.got;
        open.hasher.update(&payload.bytes[at..at + count]);
        open.got += count;
        if open.got < open.len {
            return Ok(false);
        }
        let (must, crc) = (open.crc, open.hasher.clone().finalize());
        if crc != must {
            let text = format!("chunk: its checksum must be {must:#x}, got {crc:#x}");
            return Err(Error::Protocol(text));
        }
        payload.len += open.len;
        self.open = None;
        Ok(true)
    }

    /// Forgets what has come of an incomplete chunk: it will come again as a whole.
    pub(crate) fn disconnect(&mut self) {
        self.open = None;
    }

    /// Takes out the payload that a frame refers to.
    ///
    /// # Errors
    ///
    /// `Protocol` if there is none, or it has another length.
    pub(crate) fn take(&mut self, body: &[u8]) -> Result<Payload> {
        let reference = PayloadRef::ref_from_bytes(body)
            .map_err(|_| Error::protocol("payload: its reference is malformed"))?;
        let payload = self.parts.remove(&reference.ticket.get());
        let payload = payload.ok_or_else(|| Error::protocol("payload: no chunk of it came"))?;
        if payload.len as u64 != reference.len.get() {
            let (len, got) = (reference.len.get(), payload.len);
            return Err(Error::Protocol(format!("payload: must have {len} bytes, got {got}")));
        }
        Ok(payload)
    }

    /// Keeps the memory of a payload that was handled.
    pub(crate) fn give_back(&mut self, payload: Payload) {
        if payload.bytes.capacity() <= MAX_SPARE_LEN {
            (self.spare, self.others) = (payload.bytes, 0);
        }
    }

    /// Counts a frame without payload.
    pub(crate) fn count_other(&mut self) {
        self.others += 1;
        if self.others == MAX_OTHERS {
            self.spare = Vec::new();
        }
        self.others %= MAX_OTHERS;
    }

    /// Returns what has come of incomplete payloads.
    pub(crate) fn parts(&self) -> Vec<(u64, Vec<u8>)> {
        let parts = self.parts.iter();
        parts.map(|(ticket, payload)| (*ticket, payload.bytes().to_vec())).collect()
    }

    /// Goes on with what came to another process.
    pub(crate) fn restore(&mut self, parts: Vec<(u64, Vec<u8>)>) {
        let payload = |bytes: Vec<u8>| Payload { len: bytes.len(), bytes };
        self.parts = parts.into_iter().map(|(ticket, bytes)| (ticket, payload(bytes))).collect();
    }

    /// True if no payload is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(ticket: u64, len: u64) -> Vec<u8> {
        PayloadRef { ticket: U64::new(ticket), len: U64::new(len) }.as_bytes().to_vec()
    }

    fn bodies(ticket: u64, payload: &[u8]) -> Vec<Vec<u8>> {
        let (first, last) = payload.split_at(payload.len() / 3);
        let body = |(header, slices): (ChunkHeader, Vec<&[u8]>)| {
            [header.as_bytes(), &slices.concat()].concat()
        };
        chunks(ticket, &[first, &[], last]).map(body).collect()
    }

    /// Adds a chunk that comes in two pieces.
    fn add(assembly: &mut Assembly, body: &[u8], max: u64) -> Result<()> {
        let front = body.len().min(size_of::<ChunkHeader>() + 100);
        if !assembly.begin(&body[..front], body.len(), max)? {
            let rest = &body[front..];
            assembly.space().unwrap().copy_from_slice(rest);
            assert!(assembly.filled(rest.len())?, "the chunk is all there");
        }
        Ok(())
    }

    #[test]
    fn payload_of_several_chunks_comes_back() {
        let payload: Vec<u8> = (0..CHUNK_LEN * 2 + 7).map(|i| ((i * 31) >> 3) as u8).collect();
        let mut assembly = Assembly::default();
        let (first, second) = (bodies(1, &payload), bodies(2, &payload[5..]));
        assert_eq!((first.len(), second.len()), (3, 3));
        for (a, b) in first.iter().zip(&second) {
            add(&mut assembly, a, u64::MAX).unwrap();
            add(&mut assembly, b, u64::MAX).unwrap();
        }
        let first = assembly.take(&reference(1, payload.len() as u64)).unwrap();
        assert!(first.bytes() == payload);
        assert!(!assembly.is_empty());
        let second = assembly.take(&reference(2, payload.len() as u64 - 5)).unwrap();
        assert!(second.bytes() == &payload[5..]);
        assert!(assembly.is_empty());
    }

    #[test]
    fn damaged_misplaced_and_long_chunks_are_refused() {
        let payload = vec![3; CHUNK_LEN + 1];
        let chunks = bodies(1, &payload);
        let said =
            |chunk: &[u8], max| add(&mut Assembly::default(), chunk, max).unwrap_err().to_string();
        let mut damaged = chunks[0].clone();
        damaged[100] ^= 1;
        assert!(said(&damaged, u64::MAX).contains("checksum"));
        assert!(said(&chunks[1], u64::MAX).contains("offset must be 0"));
        assert!(said(&chunks[0], 1000).contains("at most 1000 bytes"));
        assert!(said(&chunks[0][..50], u64::MAX).contains("must have 1048576 bytes"));
        assert!(said(&[1, 2], u64::MAX).contains("cannot have 2 bytes"));
    }

    #[test]
    fn chunk_that_is_cut_comes_again_into_used_memory() {
        let payload = vec![5; CHUNK_LEN + 9];
        let chunks = bodies(1, &payload);
        let mut assembly = Assembly::default();
        for round in 0..2 {
            add(&mut assembly, &chunks[0], u64::MAX).unwrap();
            assert!(!assembly.begin(&chunks[1][..26], chunks[1].len(), u64::MAX).unwrap());
            assembly.disconnect();
            assert!(assembly.space().is_none());
            add(&mut assembly, &chunks[1], u64::MAX).unwrap();
            let whole = assembly.take(&reference(1, payload.len() as u64)).unwrap();
            assert!(whole.bytes() == payload, "round {round}");
            assembly.give_back(whole);
        }
        add(&mut assembly, &bodies(2, &[1, 2, 3])[0], 100).unwrap();
        assert_eq!(assembly.take(&reference(2, 3)).unwrap().bytes(), [1, 2, 3]);
    }

    #[test]
    fn payload_must_be_whole() {
        let mut assembly = Assembly::default();
        assert!(assembly.take(&reference(1, 0)).is_err());
        add(&mut assembly, &bodies(1, &[1, 2, 3])[0], 100).unwrap();
        let said = assembly.take(&reference(1, 4)).unwrap_err().to_string();
        assert!(said.contains("must have 4 bytes, got 3"), "{said}");
        assert!(assembly.take(&[0; 3]).is_err());
    }
}
