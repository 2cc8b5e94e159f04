//! Frames: two lengths, a header of JSON, and the bytes of tensors.
//!
//! ```text
//! u32 little-endian   bytes of the header
//! u64 little-endian   bytes of the tensors
//! header, tensors
//! ```

use bytes::Bytes;
use std::io::{self, Read, Write};

/// Maximum length of a header.
pub(super) const MAX_HEADER_BYTES: usize = 1 << 20;

/// Bytes of both lengths.
const PREFIX: usize = 12;

/// Maximum bytes of tensors that are sent together with their header. To copy them costs less than
/// another call, after which the reader may have to be woken again.
const MAX_JOINED_BYTES: usize = 16 << 10;

/// Maximum bytes of memory that are taken before bytes arrive.
const MAX_FIRST_BYTES: usize = 64 << 10;

/// A message with its tensors, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) header: Vec<u8>,
    pub(super) tensors: Bytes,
}

/// Reads a frame whose tensors have at most `max` bytes.
///
/// # Errors
///
/// `InvalidData` if it is too large; `UnexpectedEof`; errors of the reader.
pub(super) fn read(from: &mut impl Read, max: u64) -> io::Result<Frame> {
    let mut prefix = [0; PREFIX];
    from.read_exact(&mut prefix)?;
    let [a, b, c, d, tensors @ ..] = prefix;
    let header = u32::from_le_bytes([a, b, c, d]) as usize;
    let tensors = u64::from_le_bytes(tensors);
    if header > MAX_HEADER_BYTES {
        let text = format!("a header must be at most {MAX_HEADER_BYTES} bytes, got {header}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    if tensors > max {
        let text = format!("tensors must be at most {max} bytes, got {tensors}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(Frame {
        header: read_bytes(from, header)?,
        tensors: read_bytes(from, tensors as usize)?.into(),
    })
}

/// Reads exactly `length` bytes. Memory of many grows with the bytes that arrive.
fn read_bytes(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length.min(MAX_FIRST_BYTES));
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

/// Writes a frame.
///
/// # Errors
///
/// `InvalidInput` if the header is too long; errors of the writer.
pub(super) fn write(to: &mut impl Write, header: &[u8], tensors: &[Bytes]) -> io::Result<()> {
    if header.len() > MAX_HEADER_BYTES {
        let (max, got) = (MAX_HEADER_BYTES, header.len());
        let text = format!("a header must be at most {max} bytes, got {got}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let bytes: usize = tensors.iter().map(Bytes::len).sum();
    let joined = if bytes <= MAX_JOINED_BYTES { bytes } else { 0 };
    let mut first = Vec::with_capacity(PREFIX + header.len() + joined);
    first.extend((header.len() as u32).to_le_bytes());
    first.extend((bytes as u64).to_le_bytes());
    first.extend(header);
    if joined == bytes {
        tensors.iter().for_each(|tensor| first.extend_from_slice(tensor));
        return to.write_all(&first);
    }
    to.write_all(&first)?;
    tensors.iter().try_for_each(|tensor| to.write_all(tensor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frame_survives_the_wire() {
        let mut wire = Vec::new();
        write(&mut wire, b"{}", &[Bytes::from_static(b"ab"), Bytes::from_static(b"c")]).unwrap();
        assert_eq!(wire, *b"\x02\0\0\0\x03\0\0\0\0\0\0\0{}abc");
        let frame = read(&mut &wire[..], 3).unwrap();
        assert_eq!((&*frame.header, &*frame.tensors), (&b"{}"[..], &b"abc"[..]));
    }

    /// Lengths of what is written.
    #[derive(Default)]
    struct Calls(Vec<usize>);

    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn small_tensors_are_sent_with_their_header() {
        let calls = |lengths: &[usize]| {
            let mut calls = Calls::default();
            let tensors: Vec<_> =
                lengths.iter().map(|bytes| Bytes::from(vec![7; *bytes])).collect();
            write(&mut calls, b"{}", &tensors).unwrap();
            calls.0
        };
        assert_eq!(calls(&[]), [14]);
        assert_eq!(calls(&[3, 0, MAX_JOINED_BYTES - 3]), [14 + MAX_JOINED_BYTES]);
        assert_eq!(calls(&[3, MAX_JOINED_BYTES]), [14, 3, MAX_JOINED_BYTES]);
    }

    #[test]
    fn too_large_or_cut_frame_is_refused() {
        let kind = |wire: &[u8]| read(&mut &wire[..], 4).unwrap_err().kind();
        assert_eq!(kind(b"\x02\0\0\0\x05\0\0\0\0\0\0\0{}abcde"), io::ErrorKind::InvalidData);
        assert_eq!(kind(b"hello, world, I print to the socket"), io::ErrorKind::InvalidData);
        assert_eq!(kind(b"\x02\0\0\0\x04\0\0\0\0\0\0\0{}abc"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"\x02\0"), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        /// Any bytes are a frame or one error.
        #[test]
        fn random_bytes_do_not_panic(wire in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&mut &wire[..], 64);
        }
    }
}
